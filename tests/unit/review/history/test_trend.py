"""The answers of the history: trends by day, drifts, and the verdict that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import InputError
from planner.review.history.database import history_file
from planner.review.history.export import COLUMNS, figures
from planner.review.history.store import Store, Which, keep
from planner.review.history.trend import history
from tests.helpers.history import run_on


@pytest.fixture(autouse=True)
def _own_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))


def fallen() -> None:
    """Days 0 to 22 at 55 GB/s, from day 23 (12 November) on at 48; three runs a day."""
    with Store.open(write=True) as store:
        for day in range(30):
            for hour in (8, 12, 16):
                rate = 55e9 if day < 23 else 48e9
                store.keep(run_on(day, rate=rate + (hour - 12) * 1e8, hour=hour))


def test_a_link_that_fell_is_told_with_its_day_and_both_levels() -> None:
    fallen()
    answer = history()
    (link,) = [trend for trend in answer.trends if trend.strategy == "pinned"]
    assert (link.start, link.end, link.link) == ("host0", "gpu0", "pcie0.forward")
    assert link.drift is not None
    # The medians of the days' three rates, 8 and 16 o'clock lying on either side.
    assert (link.drift.before, link.drift.after) == (55e9, 48e9)
    assert (link.drift.since, link.drift.days, link.drift.worse) == ("2026-11-12", 7, True)
    assert answer.verdict.sentence == "1 of 3 trends drifted for the worse."
    assert (answer.verdict.exit_code, answer.verdict.passed) == (0, True)


def test_a_drift_fails_when_it_is_asked_to() -> None:
    fallen()
    verdict = history(fail_on_drift=True).verdict
    assert (verdict.exit_code, verdict.passed) == (11, False)
    accepted = 1794441600.0  # 2026-11-12 00:00 UTC
    assert history(Which(since_s=accepted), fail_on_drift=True).verdict.exit_code == 0


def test_what_became_faster_is_told_and_fails_nothing() -> None:
    for day in range(20):
        keep(run_on(day, rate=48e9 if day < 10 else 55e9, seconds=2.06 if day < 10 else 1.5))
    answer = history(fail_on_drift=True)
    drifts = [trend.drift for trend in answer.trends if trend.drift is not None]
    assert [drift.worse for drift in drifts] == [False, False]
    assert answer.verdict.exit_code == 0


def test_days_are_medians_of_their_runs() -> None:
    for hour, seconds in ((1, 2.0), (2, 9.0), (3, 2.2)):
        keep(run_on(0, hour=hour, seconds=seconds))
    (plan,) = [trend for trend in history().trends if trend.kind == "plan"]
    (day,) = plan.days
    assert (day.date, day.runs, day.measured, day.predicted) == ("2026-10-20", 3, 2.2, 2.06)
    keep(run_on(0, hour=4, seconds=2.4))  # the day was settled by the question before
    (plan,) = [trend for trend in history().trends if trend.kind == "plan"]
    assert plan.days[0].measured == pytest.approx((2.2 + 2.4) / 2)


def test_a_day_is_worked_out_again_when_a_run_of_it_is_forgotten() -> None:
    for hour, seconds in ((1, 2.0), (2, 9.0)):
        keep(run_on(0, hour=hour, seconds=seconds))
    history()
    with Store.open(write=True) as store:
        store.forget(Which(ids=(2,)))
    (plan,) = [trend for trend in history().trends if trend.kind == "plan"]
    assert [day.measured for day in plan.days] == [2.0]


def test_other_sizes_and_machines_are_other_trends() -> None:
    keep(run_on(0))
    keep(run_on(0, size="64MB", seconds=0.01))
    keep(run_on(0, machine="other"))
    plans = [trend for trend in history().trends if trend.kind == "plan"]
    assert len(plans) == 3
    assert len({trend.content for trend in plans}) == 2


@pytest.mark.parametrize("name", ["pcie0", "pcie0.forward", "host0->gpu0", "host0 → gpu0"])
def test_a_link_is_named_as_people_name_it(name: str) -> None:
    keep(run_on(0))
    assert [trend.strategy for trend in history(Which(link=name)).trends] == ["pinned"]


@pytest.mark.parametrize(
    ("which", "told"),
    [
        (Which(plan="llm-lode"), "did you mean llm-load"),
        (Which(machine="nowhere"), "it has h200-node"),
        (Which(link="pcie9"), "as the machine file does"),
    ],
)
def test_a_name_that_is_nowhere_is_told(which: Which, told: str) -> None:
    keep(run_on(0))
    with pytest.raises(InputError) as caught:
        history(which)
    assert told in str(caught.value.hint)


def test_an_empty_history_passes() -> None:
    answer = history(fail_on_drift=True)
    assert (answer.runs, answer.trends, answer.verdict.exit_code) == (0, (), 0)
    assert not history_file().exists()


def test_a_reader_who_may_not_write_gets_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fallen()
    monkeypatch.setattr("os.access", lambda *_: False)
    before = history_file().read_bytes()
    barred = history()
    assert history_file().read_bytes() == before
    monkeypatch.undo()
    monkeypatch.setenv("PLANNER_STATE_DIR", str(Path(barred.database).parent))
    assert history() == barred


def test_every_figure_is_exported() -> None:
    keep(run_on(0))
    keep(run_on(1, plan="other", rate=50e9))
    with Store.open() as store:
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in figures(store, Which(plan="other"))]
    assert [(row["unit"], row["strategy"]) for row in rows] == [
        ("s", ""),
        ("bytes_per_s", "buffered"),
        ("bytes_per_s", "pinned"),
    ]
    assert [row["run"] for row in rows] == [2, 2, 2]
    assert (rows[2]["measured"], rows[0]["date"]) == (50e9, "2026-10-21T12:00:00+00:00")
