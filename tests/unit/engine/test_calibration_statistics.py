"""Medians, spreads, rounds, and the signs of disturbance."""

from __future__ import annotations

import time

import pytest

from planner.engine.calibration import noise, rounds
from planner.engine.calibration.rounds import Cell, disturbed, sample, summaries
from planner.engine.calibration.statistics import quartile, summary, typical


def test_the_summary_of_five_samples() -> None:
    # Sorted 1 2 3 4 10: median 3, quartiles 2 and 4, so half the range is 1 and a third of 3.
    found = summary([10, 1, 3, 2, 4])
    assert (found.median, found.samples) == (3, 5)
    assert found.spread == pytest.approx(1 / 3)


def test_quartiles_lie_between_samples() -> None:
    # A quarter of the way through three steps is 0.75 steps in: 1 + 0.75 x (3 - 1).
    assert quartile([1, 3, 5, 7], 0.25) == pytest.approx(2.5)


def test_one_sample_has_no_spread_and_none_has_no_summary() -> None:
    assert summary([5.0]).spread == 0
    with pytest.raises(ValueError, match="at least one"):
        summary([])
    assert typical([]) is None
    assert typical([0.1, 0.3, 0.2]) == 0.2


def test_rounds_visit_all_cells_before_any_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "verdict", lambda *_: False)
    visits: list[str] = []

    def visit(name: str) -> float:
        visits.append(name)
        return 1.0

    names = "abcdefgh"
    cells = [Cell(name, lambda name=name: visit(name)) for name in names]  # type: ignore[misc]
    sample(cells, 3)
    turns = [visits[i : i + len(names)] for i in range(0, len(visits), len(names))]
    assert [sorted(turn) for turn in turns] == [list(names)] * 3
    assert turns[0] != turns[1]
    again: list[str] = visits.copy()
    visits.clear()
    sample([Cell(n, lambda n=n: visit(n)) for n in names], 3)  # type: ignore[misc]
    assert visits == again, "the order is the same in every calibration"


def test_a_cell_with_fewer_rounds_and_a_deadline() -> None:
    few, many = Cell("few", lambda: 1.0, rounds=1), Cell("many", lambda: 2.0)
    sample([few, many], 3)
    assert len(few.clean) + len(few.dirty) == 1
    late = [Cell("a", lambda: 1.0), Cell("b", lambda: 1.0)]
    sample(late, 5, deadline=time.perf_counter() - 1)
    assert all(len(cell.clean) + len(cell.dirty) == 1 for cell in late)


def test_a_cell_without_a_clean_sample_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([True, True, False])
    monkeypatch.setattr(noise, "verdict", lambda *_: next(seen))
    values = iter([100.0, 90.0, 3.0])
    cell = Cell("x", lambda: next(values))
    sample([cell], 2)
    assert (cell.clean, cell.dirty, cell.disturbed) == ([3.0], [100.0, 90.0], False)
    assert summaries([cell])["x"].median == 3.0


@pytest.mark.parametrize(("is_rate", "fastest"), [(False, 1.0), (True, 5.0)])
def test_of_a_cell_that_stays_disturbed_the_fastest_counts(
    monkeypatch: pytest.MonkeyPatch, is_rate: bool, fastest: float
) -> None:
    monkeypatch.setattr(noise, "verdict", lambda *_: True)
    values = iter([3.0, 1.0, 2.0, 5.0, 4.0])
    cell = Cell("x", lambda: next(values), is_rate=is_rate)
    sample([cell], 3)
    assert cell.disturbed
    assert disturbed([cell]) == 1
    # Three rounds and two repetitions; a disturbed sample is slower than it would have been, so
    # the shortest time, or the highest rate, is nearest to the truth.
    assert rounds.REDO == 2
    assert (cell.summary().median, cell.summary().samples) == (fastest, 5)


@pytest.mark.parametrize(
    ("busy", "own", "steal", "waiting", "threads", "told"),
    [
        (1.0, 1.0, 0.0, 0.0, 1, False),
        # One second on two cores allows 0.03 x 2 and two ticks of 10 ms = 0.08 s of others' time.
        (1.07, 1.0, 0.0, 0.0, 1, False),
        (1.09, 1.0, 0.0, 0.0, 1, True),
        (1.0, 1.0, 0.09, 0.0, 1, True),
        # One thread may wait 0.03 s and a millisecond.
        (1.0, 1.0, 0.0, 0.03, 1, False),
        (1.0, 1.0, 0.0, 0.04, 1, True),
        # Two threads on two cores stand in each other's way by themselves.
        (1.0, 1.0, 0.0, 0.04, 2, False),
    ],
)
def test_signs_of_disturbance(
    monkeypatch: pytest.MonkeyPatch,
    busy: float,
    own: float,
    steal: float,
    waiting: float,
    threads: int,
    told: bool,
) -> None:
    monkeypatch.setattr(noise, "_tick", lambda: 0.01)
    before = noise._Reading(0.0, 0.0, 0.0, 0.0, 0.0)
    after = noise._Reading(1.0, own, busy, steal, waiting)
    assert noise.verdict(before, after, threads, 2) is told
