"""Rounds, shares of the time, sentinels, redoing and resuming, on a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from planner.engine.calibration.campaign import AGAIN, REDO, Campaign, Group
from planner.engine.calibration.ledger import Ledger
from planner.engine.calibration.noise import Watch
from planner.engine.calibration.rounds import Cell, disturbed, merged, summaries
from planner.engine.calibration.sentinel import DRIFT, EVERY, Sentinel


@dataclass
class Clock:
    """Seconds that pass only when a sample is taken."""

    now: float = 0.0
    visits: list[str] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def cell(self, name: str, values: Callable[[], float] = lambda: 1.0, took: float = 0.1) -> Cell:
        def run() -> float:
            self.now += took
            self.visits.append(name)
            return values()

        return Cell(name, run)


@dataclass
class Listener:
    notes: list[str] = field(default_factory=list)

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None: ...

    def advance(self, flow: str, done_bytes: int) -> None: ...

    def finish(self, flow: str, seconds: float) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


def watcher(disturbed: Iterator[bool] | None = None) -> Callable[..., object]:
    """Says of each sample in turn whether it was disturbed; of all that it was not."""

    @contextmanager
    def watch(threads: int = 1, *, resident: bool = False) -> Iterator[Watch]:  # noqa: ARG001
        seen = Watch()
        yield seen
        seen.disturbed = next(disturbed) if disturbed is not None else False

    return watch


def campaign(clock: Clock, seconds: float = 1000.0, **more: object) -> Campaign:
    values: dict[str, object] = {"watcher": watcher(), **more}
    return Campaign(start=0.0, seconds=seconds, clock=clock, **values)  # type: ignore[arg-type]


def group(cells: list[Cell], name: str = "g", **more: object) -> Group:
    return Group(name, name, lambda: cells, **more)  # type: ignore[arg-type]


def unsettled() -> Callable[[], float]:
    """Values whose half interquartile range stays far above 1 % of their median."""
    turn = iter(range(1, 1000))
    return lambda: float(next(turn))


def test_rounds_visit_all_cells_before_any_again() -> None:
    names = "abcdefgh"

    def visits() -> list[str]:
        clock = Clock()
        cells = [clock.cell(name) for name in names]
        campaign(clock).run([group(cells, samples=(3, 3))])
        return clock.visits

    found = visits()
    turns = [found[i : i + len(names)] for i in range(0, len(found), len(names))]
    assert [sorted(turn) for turn in turns] == [list(names)] * 3
    assert turns[0] != turns[1]
    assert visits() == found, "the order is the same in every calibration"


def test_a_settled_cell_stops_and_others_go_on() -> None:
    clock = Clock()
    steady, wild = clock.cell("steady"), clock.cell("wild", unsettled())
    few = clock.cell("few", unsettled())
    few.rounds = 2
    campaign(clock).run([group([steady, wild, few], samples=(4, 9))])
    # Four samples each; then the steady one has no spread, and the wild one goes on to nine.
    assert (steady.taken, wild.taken, few.taken) == (4, 9, 2)


def test_each_group_has_its_share_and_hands_on_what_is_left() -> None:
    clock = Clock()
    short, long = clock.cell("short", took=1.0), clock.cell("long", unsettled(), took=1.0)
    groups = [
        group([short], "one", weight=1.0, samples=(2, 2)),
        group([long], "two", weight=3.0, samples=(2, 99)),
    ]
    campaign(clock, seconds=44.0, reserve=4.0).run(groups)
    # 40 s to share: the first takes 2 of its 10 s, so the second has 38 instead of 30. Its last
    # sample begins when 38 s are not yet over, that is at 38 s at the latest.
    assert short.taken == 2
    assert long.taken == pytest.approx(38, abs=1)
    assert clock.now <= 44.0


def test_a_first_round_that_is_late_is_whole_only_where_it_must_be() -> None:
    clock = Clock()
    slow = clock.cell("slow", took=50.0)
    needed = [clock.cell(f"needed {k}") for k in range(3)]
    extra = [clock.cell(f"extra {k}") for k in range(3)]
    found = campaign(clock, seconds=10.0).run(
        [
            group([slow], "slow", samples=(5, 5), essential=True),
            group(needed, "needed", samples=(5, 5), essential=True),
            group(extra, "extra", samples=(5, 5)),
        ]
    )
    assert slow.taken == 1
    assert [cell.taken for cell in needed] == [1, 1, 1]
    assert [cell.taken for cell in extra] == [0, 0, 0]
    assert found == [slow, *needed], "a cell without a sample is no answer"


def test_disturbed_samples_are_taken_again() -> None:
    clock = Clock()
    values = iter([100.0, 90.0, 3.0, 3.0, 3.0])
    cell = clock.cell("x", lambda: next(values))
    seen = watcher(iter([True, True, False, False, False]))
    campaign(clock, watcher=seen).run([group([cell], samples=(2, 2))])
    # Both samples are lost, so it is taken again until it has the three that a median needs.
    assert (cell.clean, cell.dirty) == ([3.0, 3.0, 3.0], [100.0, 90.0])
    assert (cell.redone, cell.disturbed) == (1, False)
    assert summaries([cell])["x"].median == 3.0


@pytest.mark.parametrize("is_rate", [False, True])
def test_of_a_cell_that_stays_disturbed_all_samples_count(is_rate: bool) -> None:
    clock = Clock()
    values = iter([3.0, 1.0, 8.0, 5.0, 4.0, 6.0, 7.0, 2.0])
    cell = clock.cell("x", lambda: next(values))
    cell.is_rate = is_rate
    seen = watcher(iter([True] * 99))
    campaign(clock, watcher=seen).run([group([cell], samples=(2, 2))])
    assert cell.disturbed
    assert disturbed([cell]) == 1
    # Two rounds, and twice three more. Runs of plans will be disturbed as well.
    assert (cell.redone, cell.taken) == (REDO, 2 + REDO * AGAIN)
    assert cell.summary().median == 4.5


def test_one_clean_sample_among_many_disturbed_ones_is_no_answer() -> None:
    # 148 was called clean; 81 is the middle of all six.
    cell = Cell("x", None, clean=[148.0], dirty=[74.0, 64.0, 124.0, 70.0, 88.0])
    assert cell.summary().median == 81.0
    assert not cell.disturbed
    # Three clean ones are enough for a median of their own.
    assert Cell("x", None, clean=[80.0, 90.0, 85.0], dirty=[1.0] * 9).summary().median == 85.0


def test_a_group_whose_means_end_with_it_is_redone_at_once() -> None:
    clock = Clock()
    open_: list[bool] = [True]

    def value() -> float:
        assert open_[0]
        return 1.0

    cell = clock.cell("x", value)
    seen = watcher(iter([True, *[False] * 99]))
    one = group([cell], "one", samples=(1, 1), at_once=True, close=open_.clear)
    campaign(clock, watcher=seen).run([one, group([clock.cell("y")], "two")])
    assert len(cell.clean) == AGAIN
    assert open_ == []


def drifting(clock: Clock, at: float, to: float) -> Sentinel:
    """A sentinel that takes 1 s, and `to` from the instant `at` on."""
    return Sentinel("link", lambda: 1.0 if clock.now < at else to)


def test_a_sentinel_that_drifts_voids_what_was_sampled_since_the_last_look() -> None:
    clock = Clock()
    # 0.5 s a sample: looks come after more than EVERY seconds, so after each fifth sample.
    cells = [clock.cell(str(k), took=0.5) for k in range(20)]
    looks = drifting(clock, at=6.0, to=1.2)
    one = campaign(clock, sentinels=[looks])
    one.run([group(cells, samples=(1, 1))])
    voided = [cell for cell in cells if cell.dirty]
    assert EVERY == 2.0
    # The looks at 2.5, 5, 7.5 and 10 s; the one at 7.5 is the first that is off, and the samples
    # between 5 and 7.5 are void. A fifth more is far off the running median of 1 at 10 s too.
    order = [cells[int(name)] for name in clock.visits[:20]]
    assert voided == [cell for cell in cells if cell in order[10:20]]
    assert all(cell.redone for cell in voided)


def test_a_sentinel_that_stays_where_it_went_is_the_new_normal() -> None:
    clock = Clock()
    looks = drifting(clock, at=0.5, to=1.2)
    looks.wake()
    clock.now = 1.0
    # Seven samples of 1.0 from waking up: the running median is 1.2 once more than half are.
    assert [looks.drifted() for _ in range(10)] == [True] * 8 + [False] * 2


def test_a_sentinel_may_move_as_much_as_it_does_by_itself() -> None:
    values = iter([1.0, 0.9, 1.0, 1.1, 0.95, 1.05, 1.0, 1.0])
    looks = Sentinel("memory", lambda: next(values))
    looks.wake()
    # The seven after the first: 0.9 0.95 1.0 1.0 1.0 1.05 1.1, quartiles 0.975 and 1.025, so half
    # their distance is 2.5 % of the median, and three times that is allowed.
    assert looks.allowed == pytest.approx(0.075)
    calm = Sentinel("link", lambda: 1.0)
    calm.wake()
    assert calm.allowed == DRIFT


def test_marks_are_looked_at_once_a_group_and_void_nothing() -> None:
    clock = Clock()
    values = iter([1.0, 3.0, 2.0])
    mark = Sentinel("link", lambda: next(values))
    one = campaign(clock, marks=[mark])
    assert mark.spread is None
    groups = [group([clock.cell(name)], name, samples=(1, 1)) for name in "abc"]
    found = one.run(groups)
    assert [cell.dirty for cell in found] == [[], [], []]
    # 1, 2, 3: quartiles 1.5 and 2.5, half their distance is a quarter of the median.
    assert mark.spread == pytest.approx(0.25)


def test_cells_between_are_sampled_where_they_are_asked_for() -> None:
    clock = Clock()
    first, second = clock.cell("first"), clock.cell("second")
    asked: list[int] = []

    def refine(cells: object) -> list[Cell]:
        asked.append(len(cells))  # type: ignore[arg-type]
        return [second] if len(asked) == 1 else []

    found = campaign(clock).run([group([first], samples=(3, 3), refine=refine)])
    assert found == [first, second]
    assert second.taken == 3
    assert asked == [1, 2]


def test_what_was_finished_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "unfinished.json"
    clock = Clock()
    first = clock.cell("a", unsettled())
    first.key = ("h2d0", "alone", 4096)

    def interrupt() -> float:
        raise KeyboardInterrupt

    groups = [group([first], "one"), group([clock.cell("b", interrupt)], "two")]
    with pytest.raises(KeyboardInterrupt):
        campaign(clock, ledger=Ledger(path, "mark")).run(groups)

    again = Clock()
    ledger = Ledger.open(path, "mark")
    assert list(ledger.groups) == ["one"]
    groups = [group([again.cell("a")], "one"), group([again.cell("b")], "two")]
    found = campaign(again, ledger=ledger).run(groups)
    assert set(again.visits) == {"b"}
    assert found[0].key == ("h2d0", "alone", 4096)
    assert found[0].clean == first.clean == [1.0, 2.0, 3.0]
    assert found[0].summary() == first.summary()


def test_what_sentinels_saw_is_kept_over_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "unfinished.json"

    def interrupt() -> float:
        raise KeyboardInterrupt

    clock = Clock()
    groups = [group([clock.cell("a")], "one"), group([clock.cell("b", interrupt)], "two")]
    with pytest.raises(KeyboardInterrupt):
        campaign(clock, ledger=Ledger(path, "mark"), marks=[Sentinel("memory", lambda: 1.0)]).run(
            groups
        )
    again, ledger = Clock(), Ledger.open(path, "mark")
    (kept,) = ledger.groups["sentinels"]
    assert (kept.key, kept.clean) == (("sentinel", "memory"), [1.0])
    groups = [group([again.cell("a")], "one"), group([again.cell("b")], "two")]
    one = campaign(again, ledger=ledger, marks=[Sentinel("memory", lambda: 3.0)])
    assert "sentinel" not in str([cell.key for cell in one.run(groups)])
    (kept,) = Ledger.open(path, "mark").groups["sentinels"]
    assert kept.clean == [1.0, 3.0]
    # The quartiles are 1.5 and 2.5: half of the distance is a quarter of the median.
    assert one.steadiness() == {"memory": 0.25}


def test_samples_of_another_machine_are_not_gone_on_from(tmp_path: Path) -> None:
    path = tmp_path / "unfinished.json"
    Ledger(path, "this one").keep("one", [Cell("a", None, clean=[1.0])], "2026-11-29")
    assert list(Ledger.open(path, "this one").groups) == ["one"]
    assert Ledger.open(path, "another").groups == {}
    path.write_text("{", encoding="utf-8")
    assert Ledger.open(path, "this one").groups == {}
    assert Ledger.open(tmp_path / "none.json", "this one").groups == {}


def test_a_finished_ledger_stays_with_every_sample(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "unfinished.json", "mark")
    cell = Cell(("x", 1), None, clean=[1.0, 3.0, 2.0], dirty=[9.0], also=[5.0], redone=1)
    ledger.keep("one", [cell], "2026-11-29")
    last = ledger.finish(tmp_path / "samples.json")
    assert last == tmp_path / "samples.json"
    assert [path.name for path in tmp_path.iterdir()] == ["samples.json"]
    (back,) = Ledger.open(last, "mark").groups["one"]
    assert (back.key, back.clean, back.dirty, back.also) == (cell.key, cell.clean, [9.0], [5.0])
    with pytest.raises(ValueError, match="cannot be sampled"):
        back.take()


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = Ledger(tmp_path / "file" / "unfinished.json", "mark")
    ledger.keep("one", [Cell("a", None, clean=[1.0])], "2026-11-29")
    assert ledger.finish(tmp_path / "samples.json") is None


def test_it_is_said_what_is_measured_and_how_long_it_takes_at_the_most() -> None:
    clock, listener = Clock(), Listener()
    slow = clock.cell("slow", unsettled(), took=6.0)
    campaign(clock, seconds=60.0, listener=listener).run(
        [group([slow], "copies", samples=(4, 4)), group([clock.cell("x")], "disk")]
    )
    # Said at the start, again once more than ten seconds have passed (at 12 s and 24 s), and for
    # the next group.
    assert listener.notes == [
        "calibrating 1 of 2: copies; 60 s left at the most",
        "calibrating 1 of 2: copies; 48 s left at the most",
        "calibrating 1 of 2: copies; 36 s left at the most",
        "calibrating 2 of 2: disk; 36 s left at the most",
    ]


def test_what_was_looked_at_twice_counts_together() -> None:
    first = Cell(("a", 1), lambda: 3.0, clean=[1.0, 2.0], dirty=[9.0], also=[5.0], redone=1)
    other = Cell(("b",), None, clean=[7.0])
    again = first.anew()
    assert (again.key, again.taken, again.also, again.redone) == (("a", 1), 0, [], 0)
    assert again.take() == 3.0
    assert first.clean == [1.0, 2.0]
    both, alone = merged([first, other, again])
    assert both.redone == 1
    assert (both.key, both.clean, both.dirty, both.also) == (
        ("a", 1),
        [1.0, 2.0, 3.0],
        [9.0],
        [5.0],
    )
    assert alone is other
