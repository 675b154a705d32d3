"""Caches are emptied by bytes that go through them: all of the memory meant for it, and no more."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from planner.engine import caches
from planner.engine.caches import PIECE, Broom, enough, sweep, sweeper, verifying
from planner.engine.memory import HostBuffer
from planner.engine.pattern import Pattern
from planner.engine.sample import run_once
from tests.helpers.machines import every_way
from tests.helpers.schedules import run_way


@pytest.mark.parametrize("size", [2 * PIECE, 5 * PIECE + 4096, 4096])
@pytest.mark.parametrize("threads", [1, 3])
def test_all_of_it_is_read_or_written(size: int, threads: int) -> None:
    buffer = HostBuffer(size)
    half = size // 2
    buffer.array[:half] = 7
    sweep(buffer.address, size, threads)
    assert bytes(buffer.view[: 2 * half]) == bytes([7]) * (2 * half)
    assert bytes(buffer.view[2 * half :]) == bytes(size - 2 * half)
    buffer.close()


def test_more_than_the_cache_goes_through_it_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(caches, "sweep", lambda _address, size: seen.append(size))
    monkeypatch.setattr(caches, "enough", lambda: 8 * PIECE)
    broom = Broom()
    broom.sweep()
    broom.close()
    assert seen == [8 * PIECE]
    assert enough() > 0


@pytest.mark.parametrize(
    ("strategies", "swept"),
    [
        (["pinned"], []),
        (["direct", "pinned"], []),
        (["pageable"], [24 * PIECE]),
        (["registered_chunks", "staged"], [24 * PIECE]),
        # Four times 5 MiB, and of much no more than 64.
        (["staged"], [20 * PIECE]),
        (["buffered", "pinned"], [20 * PIECE]),
    ],
)
def test_so_much_goes_through_the_caches_as_tells(
    strategies: list[str], swept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(caches, "sweep", lambda _address, size: seen.append(size))
    monkeypatch.setattr(caches, "enough", lambda: 24 * PIECE)
    with ExitStack() as undo:
        sweeper(strategies, 5 * PIECE, undo)()
    assert seen == swept
    assert verifying(17 * PIECE) == 64 * PIECE


@pytest.mark.parametrize(
    ("way", "source", "before"),
    [
        ("pageable in", "cold", ["sweep", "run"]),
        # What was just written is written behind the sweep, which would push it out.
        ("pageable in", "hot", ["sweep", "write", "run"]),
        ("pageable out", "cold", ["sweep", "run"]),
        ("chunks in", "cold", ["sweep", "run"]),
        # So that it tells nothing whether the run before was verified.
        ("staged in", "cold", ["sweep", "run"]),
        # A copy engine takes as long whatever the CPU's caches hold.
        ("pinned in", "cold", ["run"]),
    ],
)
def test_each_sample_finds_the_source_as_the_plan_says(
    way: str, source: str, before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fill = Pattern.fill

    def written(self: Pattern, *arguments: Any) -> None:
        done.append("write")
        fill(self, *arguments)

    def run(*arguments: Any) -> Any:
        done.append("run")
        return run_once(*arguments)

    monkeypatch.setattr(Broom, "sweep", lambda _broom: done.append("sweep"))
    monkeypatch.setattr(Pattern, "fill", written)
    monkeypatch.setattr("planner.engine.session.run_once", run)
    found = run_way(way, 70_001, every_way(), samples=2, source=source)
    assert found.flows[0].verified is True
    made = ["write"] if way.endswith("in") else []  # the source, when it is made
    assert done == [*made, *before, *before]
