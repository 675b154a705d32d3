"""Chunks that go to an engine in one call: which, how many, and that each arrives and is logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from planner.engine import dispatch
from planner.engine.aio import Read
from planner.engine.backends import cuda_lane, cuda_quick
from planner.engine.backends.base import Engine, SlotCopy
from planner.engine.backends.cuda_lane import CudaLane
from planner.engine.backends.cuda_library import DriverError
from planner.engine.backends.cuda_quick import NOT_SUPPORTED, QuickCalls
from planner.engine.backends.host import HostBackend
from planner.engine.backends.shared_lane import Gather, SharedLane
from planner.engine.dispatch import ENOUGH, Dispatcher
from planner.engine.memory import HostBuffer
from planner.engine.ops import DMA
from planner.engine.waits import Stop
from planner.native import in_one_call


@pytest.mark.parametrize(
    ("workers", "depth", "at_once"),
    [(1, 2, 1), (3, 2, 1), (6, 2, 2), (10, 2, 3), (12, 2, 4), (8, 3, 4), (16, 4, 4), (24, 1, 1)],
)
def test_a_sixth_of_the_slots_go_together_and_four_at_the_most(
    workers: int, depth: int, at_once: int
) -> None:
    assert in_one_call(workers, depth) == at_once


class Books:
    """A lane that only notes what is queued on it, call by call."""

    def __init__(self) -> None:
        self.engine = Engine("h2d", 0)
        self.log: list[float] = []
        self.calls: list[list[int]] = []

    def copy(self, slot: int, *_what: int) -> None:
        self.calls.append([slot])

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        self.calls.append([copy[0] for copy in copies])


def test_what_is_held_back_goes_in_one_call_and_a_single_one_as_ever() -> None:
    books, gather = Books(), Gather()
    lane = SharedLane(cast("Any", books), 10, gather, logs=True)
    lane.copy(0, 1, 2, 3)
    gather.hold()
    lane.copy(1, 1, 2, 3)
    lane.copy(2, 1, 2, 3)
    assert books.calls == [[10]]
    gather.send()
    gather.hold()
    lane.copy(3, 1, 2, 3)
    gather.send()
    gather.hold()
    gather.send()
    lane.copy(4, 1, 2, 3)
    assert books.calls == [[10], [11, 12], [13], [14]]
    # What a run that failed has held back does not go with the next one's.
    gather.hold()
    lane.copy(5, 1, 2, 3)
    gather.hold()
    lane.copy(6, 1, 2, 3)
    gather.send()
    assert books.calls[4:] == [[16]]


class Taker:
    """A worker whose chunks are there at once; its copies arrive when the test says so."""

    def __init__(self, lane: SharedLane, arrived: set[int], number: int) -> None:
        self._lane, self._arrived, self._number = lane, arrived, number
        self.first: Sequence[int] = (DMA,)
        self.further: Sequence[int] = ()
        self.issued = 0

    def ask(self, _slot: int, chunk: int) -> Read:
        return Read(0, 0, 1, chunk)

    def take(self, _slot: int, _chunk: int, _done: int) -> None: ...

    def hand_on(self, slot: int, _chunk: int, _code: int) -> None:
        self._lane.copy(slot, 0, 0, 1)

    def sent(self) -> None:
        self.issued += 1

    def landed(self, slot: int) -> bool:
        return self._number + slot in self._arrived

    def wait(self, slot: int) -> None:
        self._arrived.add(self._number + slot)


class Reads:
    """Reads that the test ends; `flying` are under way."""

    def __init__(self) -> None:
        self.queue: list[tuple[int, int]] = []
        self.done: list[tuple[int, int]] = []

    @property
    def flying(self) -> int:
        return len(self.queue) + len(self.done)

    def begin(self, worker: int, slot: int, _read: Read) -> None:
        self.queue.append((worker, slot))

    def finished(self, worker: int) -> tuple[int, int] | None:
        for one in self.done:
            if one[0] == worker:
                self.done.remove(one)
                return one[1], 1
        return None

    def ends(self, count: int) -> None:
        for _ in range(count):
            self.done.append(self.queue.pop(0))


def dispatcher(
    workers: int, chunks: int, gather: Gather | None
) -> tuple[Dispatcher, Reads, Books, list[Taker]]:
    books, reads, arrived = Books(), Reads(), set[int]()
    own = gather or Gather()
    members = [
        Taker(SharedLane(cast("Any", books), 2 * k, own, logs=False), arrived, 2 * k)
        for k in range(workers)
    ]
    numbers = iter(range(chunks))
    made = Dispatcher(members, 2, numbers, cast("Any", reads), Stop(), gather)
    made._begin()
    return made, reads, books, members


def test_chunks_wait_for_each_other_only_while_the_engine_has_enough() -> None:
    # Twelve workers with two slots: four go together.
    work, reads, books, members = dispatcher(12, 100, Gather())
    assert len(reads.queue) == 24
    reads.ends(1)
    assert work._hand_on()
    assert [len(call) for call in books.calls] == [1]  # the engine had nothing to do
    reads.ends(ENOUGH)
    work._hand_on()  # four, which are as many as go at once, and one while five are under way
    assert [len(call) for call in books.calls] == [1, 4, 1]
    reads.ends(3)
    work._hand_on()  # six are under way: three wait for a fourth
    assert [len(call) for call in books.calls] == [1, 4, 1]
    assert not work._hand_on()
    reads.ends(1)
    work._hand_on()
    assert [len(call) for call in books.calls] == [1, 4, 1, 4]
    assert sum(member.issued for member in members) == 10
    # Without others to come they go at once, all of what there is.
    reads.ends(len(reads.queue))
    work._hand_on()
    assert sum(len(call) for call in books.calls) == 24
    assert max(len(call) for call in books.calls) == 4


def test_where_nothing_gathers_each_chunk_goes_by_itself() -> None:
    work, reads, books, _ = dispatcher(12, 24, None)
    reads.ends(24)
    work._hand_on()
    assert [len(call) for call in books.calls] == [1] * 24


def test_all_that_waited_goes_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ENOUGH", 0)
    work, reads, books, members = dispatcher(12, 30, Gather())
    begin, taken = Reads.begin, []

    def begun(self: Reads, worker: int, slot: int, read: Read) -> None:
        begin(self, worker, slot, read)
        taken.append(slot)
        self.ends(1)

    monkeypatch.setattr(Reads, "begin", begun)
    monkeypatch.setattr(Reads, "settle", lambda _self: None, raising=False)
    monkeypatch.setattr(Reads, "close", lambda _self: None, raising=False)
    reads.ends(24)
    work.run()
    assert sum(len(call) for call in books.calls) == 30
    assert sum(member.issued for member in members) == 30
    assert len(taken) == 6


class Driver:
    """The calls of a lane, on books: what is queued, and what an event stands behind."""

    def __init__(self) -> None:
        self.driver = self
        self.made = 0
        self.queued: list[list[int]] = []
        self.behind: dict[int, int] = {}

    def __getattr__(self, _name: str) -> Any:
        return lambda *_what, **_how: 7

    def event(self, **_how: bool) -> int:
        self.made += 1
        return self.made

    def copy(self, target: int, *_what: int) -> None:
        self.queued.append([target])

    def copy_all(self, copies: Sequence[tuple[int, int, int]], _stream: int) -> None:
        self.queued.append([copy[0] for copy in copies])

    def record(self, event: int, _stream: int) -> None:
        self.behind[event] = sum(len(call) for call in self.queued)

    def when(self, _gpu: int, event: int) -> float:
        return float(self.behind[event])


def lane_of(driver: Driver, monkeypatch: pytest.MonkeyPatch, *, timed: bool = True) -> CudaLane:
    monkeypatch.setattr(cuda_lane, "quick_calls", lambda: driver)
    return CudaLane(cast("Any", driver), Engine("h2d", 0), 6, spin=True, timed=timed)


def test_copies_that_go_together_have_one_event_and_a_log_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    lane = lane_of(driver, monkeypatch)
    for turn in range(300):  # more than there are events
        lane.copy_slots([(slot, slot, 0, 1) for slot in (0, 1, 2)])
        lane.copy(3, 3, 0, 1)
        lane.copy_slots([(slot, slot, 0, 1) for slot in (4, 5)])
        assert len({lane._events[slot] for slot in range(6)}) == 3
        for slot in range(6):
            lane.wait(slot)
        before = 6 * turn
        ends = lane.log[1::2]
        assert ends == [before + 3] * 3 + [before + 4] + [before + 6] * 2
        issued = lane.log[::2]
        assert issued == sorted(issued)
        lane.log.clear()
    assert driver.queued[:3] == [[0, 1, 2], [3], [4, 5]]


def test_a_run_that_is_called_off_between_two_that_go_together_logs_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver()
    lane = lane_of(driver, monkeypatch)
    lane.copy(3, 3, 0, 1)
    lane.copy_slots([(slot, slot, 0, 1) for slot in (0, 1)])
    lane.wait(3)
    lane.wait(0)
    lane.settle()
    assert lane.log[1::2] == [1.0]
    assert sorted(lane._spare) == sorted(set(lane._made))


def test_a_lane_without_times_keeps_an_event_for_each_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = lane_of(Driver(), monkeypatch, timed=False)
    lane.copy_slots([(slot, slot, 0, 1) for slot in range(6)])
    assert len(set(lane._events)) == 6
    for slot in range(6):
        lane.wait(slot)
    assert lane.log == []


def quick(batch: Any) -> tuple[QuickCalls, list[tuple[int, int, int]]]:
    """Calls whose single copies are noted, and that have this one for several."""
    made, copied = QuickCalls.__new__(QuickCalls), list[tuple[int, int, int]]()
    made._batch = batch

    def copy(target: int, source: int, length: int, _stream: int) -> int:
        copied.append((target, source, length))
        return 0

    made._copy = copy
    return made, copied


COPIES = [(10, 20, 1), (11, 21, 2), (12, 22, 3)]


def test_the_driver_is_given_all_copies_at_once_in_the_order_of_the_stream() -> None:
    seen: list[Any] = []

    def batch(*given: Any) -> int:
        targets, sources, lengths, count, attributes, begins, kinds, _failed, stream = given
        seen.append([*zip(targets, sources, lengths, strict=True)])
        assert (count, attributes.order, list(begins), kinds, stream) == (3, 1, [0], 1, 7)
        return 0

    calls, copied = quick(batch)
    calls.copy_all(COPIES, 7)
    assert (seen, copied) == ([COPIES], [])
    calls.copy_all(COPIES[:1], 7)
    assert copied == COPIES[:1]


def test_a_driver_that_takes_no_more_than_one_gets_them_one_by_one() -> None:
    for batch in (None, lambda *_given: NOT_SUPPORTED):
        calls, copied = quick(batch)
        calls.copy_all(COPIES, 7)
        assert copied == COPIES
        assert calls._batch is None


def test_a_failed_call_for_several_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_quick, "failed", DriverError)
    calls, copied = quick(lambda *_given: 719)
    with pytest.raises(DriverError, match="cuMemcpyBatchAsync") as error:
        calls.copy_all(COPIES, 7)
    assert (error.value.status, copied) == (719, [])


def test_an_emulated_engine_takes_them_in_turn() -> None:
    backend = HostBackend()
    source, target = HostBuffer(4096), HostBuffer(4096)
    try:
        source.array[:] = 255
        lane = backend.lane(Engine("h2d", 0), 4)
        lane.copy_slots([(k, target.address + 1000 * k, source.address, 1000) for k in range(4)])
        for slot in range(4):
            lane.wait(slot)
        assert int(target.array[:4000].min()) == 255
        assert len(lane.log) == 8
    finally:
        backend.close()
        source.close()
        target.close()
