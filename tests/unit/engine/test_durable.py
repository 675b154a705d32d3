"""What is asked of files besides their bytes: on the disk first, out of the cache afterwards."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planner.engine import durable, execute as engine, pagecache, release
from planner.errors import ExecutionError, UnavailableError
from planner.plan.schema import Plan
from tests.helpers.machines import MIB, one_gpu
from tests.helpers.schedules import KIB, noise_file, run_way

pytestmark = pytest.mark.usefixtures("scratch")

SIZE = 21 * 4 * KIB + 1


@pytest.mark.parametrize("way", ["write", "save", "save stored"])
def test_a_save_with_fsync_waits_for_the_disk(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is part of the repeat and of the write's busy time: 0.1 s are put on it."""
    synced: list[int] = []

    def slow(fd: int) -> None:
        from time import sleep

        sleep(0.1)
        synced.append(os.fstat(fd).st_size)
        os.fsync(fd)

    monkeypatch.setattr(durable, "fsync", slow)
    flow = run_way(way, SIZE, one_gpu(), samples=2, repeat=2, fsync=True).flows[0]
    assert flow.verified is True
    assert synced == [SIZE] * 4  # two samples of two repeats, each with all bytes in the file
    assert flow.steady_s >= 0.1
    assert flow.hops[-1].busy_s >= 0.1


def test_a_save_without_fsync_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(durable, "fsync", refuse)
    assert run_way("save", SIZE, one_gpu()).flows[0].verified is True


def test_a_disk_that_fails_at_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(durable, "fsync", broken)
    sink = tmp_path / "weights.bin"
    with pytest.raises(ExecutionError, match=r"flow f: .*weights\.bin could not be brought"):
        run_way("save", SIZE, one_gpu(), sink=str(sink), fsync=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "scratch"]


@pytest.mark.parametrize("way", ["read", "load"])
def test_pages_go_behind_the_reads(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte that was read is let go of, by no worker, and nothing outside of the file."""
    source = noise_file(tmp_path / "model.bin", SIZE, offset=8 + 123)
    asked: list[tuple[int, int, str]] = []

    def note(fd: int, low: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        asked.append((low, length, threading.current_thread().name))
        os.posix_fadvise(fd, low, length, advice)

    monkeypatch.setattr(release, "fadvise", note)
    run = run_way(way, SIZE, one_gpu(), files=[source.model_dump()], release_cache=True)
    assert run.flows[0].verified is True
    behind = [row for row in asked if row[2] == "f release"]
    # 22 chunks of 4 KiB; each begins inside a page, whole pages are let go of.
    assert len(behind) == 22
    covered = {page for low, length, _ in behind for page in range(low, low + length, 4 * KIB)}
    assert covered == set(range(0, source.offset + SIZE, 4 * KIB))
    assert [row[2] for row in asked if row not in behind] == ["MainThread"]


def test_a_released_file_is_out_of_the_page_cache(tmp_path: Path) -> None:
    source = noise_file(tmp_path / "model.bin", 4 * MIB)
    pagecache.drop([source])
    if pagecache.resident([source]) > 0:
        pytest.skip("the file system of the test's folder keeps its pages")
    files = [source.model_dump()]
    run_way("load", 4 * MIB, one_gpu(), files=files, shape=(MIB, 2, 2))
    assert pagecache.resident([source]) > 0.9
    run_way("load", 4 * MIB, one_gpu(), files=files, shape=(MIB, 2, 2), release_cache=True)
    assert pagecache.resident([source]) < 0.1


def test_nothing_is_released_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(release, "fadvise", refuse)
    assert run_way("load", SIZE, one_gpu()).flows[0].verified is True


class Ranges:
    """Notes the ranges of every thread, as they are nested."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, ...]] = set()
        self._own = threading.local()

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        stack = self._own.__dict__.setdefault("stack", [])
        stack.append(name)
        self.seen.add(tuple(stack))
        yield
        stack.pop()


def test_ranges_name_flows_hops_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Ranges()
    monkeypatch.setattr(engine, "_ranges", lambda: ranges)
    run_way("load", SIZE, one_gpu(), shape=(4 * KIB, 2, 1), options={"nvtx": True})
    hops = "disk0 -> host0 buffered, host0 -> gpu0 pinned"
    assert ("f",) in ranges.seen
    assert ("f", hops) in ranges.seen
    for chunk in range(22):  # one worker, which is the flow's own thread
        assert ("f", hops, f"move chunk {chunk}") in ranges.seen
        assert ("f", hops, f"issue chunk {chunk}") in ranges.seen
    assert ("f", hops, "wait for slot 1") in ranges.seen


def test_ranges_without_the_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(UnavailableError, match="NVTX ranges need CuPy"):
        run_way("load", SIZE, one_gpu(), options={"nvtx": True})


def test_the_plan_knows_release_cache() -> None:
    words: dict[str, Any] = {"from": "disk0", "to": ["gpu0"], "size": 1}
    assert Plan.model_validate({"flows": {"f": words}}).flows["f"].release_cache is False
