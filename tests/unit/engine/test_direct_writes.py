"""Saves around the page cache: every byte, whatever the chunk, and no page in both ways."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from planner.engine import files
from planner.engine.memory import PAGE, HostBuffer
from planner.engine.sink import Sink
from planner.errors import ExecutionError, PlannerError, UnavailableError
from tests.helpers.machines import every_way
from tests.helpers.schedules import KIB, run_way

pytestmark = pytest.mark.usefixtures("scratch")

Write = tuple[bool, int, int]
"""Whether it went around the page cache, its offset and its length."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[Write]:
    """Every write of a run."""
    found: list[Write] = []
    real = os.pwritev

    def noted(fd: int, views: list[memoryview], offset: int) -> int:
        done = real(fd, views, offset)
        found.append((bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT), offset, done))
        return done

    monkeypatch.setattr(files, "pwritev", noted)
    return found


@pytest.mark.parametrize("way", ["write direct", "save direct", "save stored direct"])
@pytest.mark.parametrize("chunk", [4 * KIB, 64 * KIB, 1000, 6 * KIB, PAGE - 1, PAGE + 1])
@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, PAGE + 1, 61 * KIB + 17])
def test_no_page_is_written_in_both_ways(
    writes: list[Write], way: str, chunk: int, size: int
) -> None:
    run = run_way(way, size, every_way(), shape=(chunk, 2, 3), samples=2)
    assert run.flows[0].verified is True
    assert sum(done for _, _, done in writes) == 2 * size
    pages: dict[bool, set[int]] = {True: set(), False: set()}
    for around, offset, done in writes:
        if around:
            assert offset % PAGE == done % PAGE == 0
        pages[around] |= set(range(offset // PAGE, (offset + done - 1) // PAGE + 1))
    assert not pages[True] & pages[False]
    if chunk % PAGE == 0:  # all but the last, broken page
        assert len(pages[True]) == size // PAGE


def test_repeats_and_fsync_go_around_it_too(writes: list[Write]) -> None:
    run = run_way("save direct", 64 * KIB, every_way(), repeat=3, fsync=True, samples=2)
    assert run.flows[0].verified is True
    assert len(writes) == 2 * 3 * 16
    assert all(around for around, _, _ in writes)


def test_what_is_saved_appears_whole(writes: list[Write], tmp_path: Path) -> None:
    sink = tmp_path / "model.bin"
    run_way("save direct", 9 * KIB, every_way(), sink=str(sink))
    assert sink.stat().st_size == 9 * KIB
    assert [around for around, _, _ in writes].count(False) == 1


def test_memory_that_begins_within_a_page_goes_through_the_page_cache(
    writes: list[Write], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "planner.engine.ends.HostBuffer", lambda size, **_more: HostBuffer(size, lead=100)
    )
    run = run_way("write direct", 10 * KIB, every_way())
    assert run.flows[0].verified is True
    assert {around for around, _, _ in writes} == {False}


def test_a_file_system_without_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def without(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", without)
    with pytest.raises(PlannerError, match="has no O_DIRECT") as told:
        run_way("write direct", 10 * KIB, every_way())
    assert told.value.hint == "pin the strategy buffered"
    sink = Sink(str(tmp_path / "out"), size=10)
    sink.go_around()
    with pytest.raises(UnavailableError, match="has no O_DIRECT"):
        sink.fresh()
    sink.discard()
    assert list(tmp_path.glob("out*")) == []


def test_a_full_disk_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def full(fd: int, views: list[memoryview], offset: int) -> int:
        if offset == 8 * KIB:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, views, offset)

    monkeypatch.setattr(files, "pwritev", full)
    with pytest.raises(ExecutionError, match=r"\(direct\), chunk 2 of 5 .*No space left") as told:
        run_way("save direct", 20 * KIB, every_way())
    assert "make room" in str(told.value.hint)


def test_pieces_are_refused_with_what_helps() -> None:
    with pytest.raises(PlannerError, match="pieces"):
        run_way("write direct", 3 * KIB, every_way(), pieces=[KIB] * 3)
