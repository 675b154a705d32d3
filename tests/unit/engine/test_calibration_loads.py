"""Loads that go on and on: how large their copies and batches are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from planner.engine.calibration.bench import Bench, Block
from planner.engine.calibration.copies import Walk
from planner.engine.calibration.duplex import (
    PROBE,
    Background,
    Halves,
    Load,
    alone,
    beside,
    neighbour_cells,
)

MIB = 1 << 20
IDLE, RATE = 20e-6, 50e9


@dataclass
class _Block:
    size: int
    view: memoryview | None = None


@dataclass
class _Bench:
    """Copies that take 20 us and their bytes at 50 GB/s; nothing moves."""

    emulated: bool = True
    asked: list[tuple[int, int]] = field(default_factory=list)
    under_way: list[int] = field(default_factory=list)
    most: int = 0
    arrivals: int = 0

    def copies(self, _gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int) -> float:
        for target, at, source, begin in pairs:
            assert at + size <= target.size
            assert begin + size <= source.size
        self.asked.append((len(pairs), size))
        return len(pairs) * (IDLE + size / RATE)

    def queue(
        self, _gpu: int, pairs: Sequence[tuple[Block, int, Block, int]], size: int, slot: int
    ) -> None:
        assert slot not in self.under_way
        self.under_way.append(slot)
        self.asked.append((len(pairs), size))
        self.most = max(self.most, len(self.under_way))

    def arrived(self, _gpu: int, _pair: tuple[Block, int, Block, int], slot: int) -> None:
        if slot in self.under_way:
            assert self.under_way.pop(0) == slot  # in turn
            self.arrivals += 1


def _load(size: int) -> tuple[Load, _Bench]:
    bench = _Bench()
    return Load(cast("Bench", bench), 0, Walk(_Block(size), _Block(size))), bench


def test_copies_are_long_beside_what_lies_between_them() -> None:
    # 16 MiB take 20 + 335.5 us, so 14 of them fit into 5 ms; three such copies take 14.9 ms, so a
    # batch of 15 ms has four. Between copies 20 us idle: 0.4 % of 4.7 ms.
    load, bench = _load(1024 * MIB)
    assert load.once() == 4 * 14 * PROBE
    assert bench.asked == [(2, PROBE), (2, PROBE), (4, 14 * PROBE)]
    assert load.size / RATE == pytest.approx(4.7e-3, rel=1e-2)


def test_copies_are_no_larger_than_the_memory_and_found_once() -> None:
    # 48 MiB: batches of 15 ms have ceil(15 / (3 * 0.3555)) = 15 copies.
    load, bench = _load(48 * MIB)
    assert load.once() == 15 * 48 * MIB
    alone(load, 1e-9)
    # One that wakes the link, two to have one under way, and the one that was timed.
    assert bench.asked[2:] == [(15, 48 * MIB)] * 5


def test_a_load_has_the_next_batch_queued_and_leaves_none_behind() -> None:
    load, bench = _load(48 * MIB)
    load.begin()
    assert bench.under_way == [1]
    assert load.further() == 15 * 48 * MIB
    assert (bench.under_way, bench.most, bench.arrivals) == ([0], 2, 2)
    load.drain()
    assert (bench.under_way, bench.arrivals) == ([], 3)
    # Alone, and beside another that goes on: neither leaves anything.
    other, second = _load(48 * MIB)
    assert beside(load, other, 1.0, 1e-3)[0] > 0
    assert (bench.under_way, second.under_way) == ([], [])
    assert second.most == 2
    # With pauses each batch is waited for, so that the engine rests in them.
    third, paused = _load(48 * MIB)
    assert beside(load, third, 0.5, 1e-3)[0] > 0
    assert paused.most == 0


@pytest.mark.parametrize("where", ["queue", "arrived", "copies"])
def test_a_load_that_fails_beside_another_is_told(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = _load(48 * MIB)[0], _load(48 * MIB)

    def fails(*_words: object) -> None:
        raise RuntimeError("an illegal address")

    monkeypatch.setattr(other[1], where, fails)
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="an illegal address"):
        beside(own, other[0], 1.0, 1e-3)
    assert threading.active_count() == before


def test_an_interrupt_before_a_load_is_at_work_ends_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    background = Background(_load(48 * MIB)[0], 1.0)
    before = threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(background, "_ready", SimpleNamespace(wait=interrupt, set=lambda: None))
        with pytest.raises(KeyboardInterrupt), background:
            pytest.fail("it went on")
    assert threading.active_count() == before


def test_two_at_work_at_once_have_a_half_of_the_memory_each() -> None:
    loads = [tuple((_load(64 * MIB)[0], _load(64 * MIB)[0]) for _ in range(2)) for _ in range(2)]
    for cell in neighbour_cells(cast("list[Halves]", loads), 1e-3, [(0, 1)], crossed=True):
        assert cell.take() > 0
    # Whoever is the cell's own copies in the first half, the one beside it in the second; so of
    # each GPU's four loads those are used, and never the same half by both.
    used = [[[load.size > 0 for load in half] for half in gpu] for gpu in loads]
    assert used == [[[True, True], [True, True]], [[True, True], [True, True]]]


def test_without_crossed_copies_each_pair_has_a_cell_a_direction() -> None:
    loads = [tuple((_load(MIB)[0], _load(MIB)[0]) for _ in range(2)) for _ in range(3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = neighbour_cells(cast("list[Halves]", loads), 1e-3, pairs, crossed=False)
    wanted = [("together", way, *pair) for way in ("h2d", "d2h") for pair in pairs]
    assert [cell.key for cell in found] == wanted
