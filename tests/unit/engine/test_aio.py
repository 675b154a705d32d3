"""Reads by the C library's threads: every byte, what is short, what fails, and nothing left."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from planner.engine import aio
from planner.engine.aio import Read, Reads
from planner.engine.memory import HostBuffer
from planner.errors import UnavailableError

SIZE = 3 * 4096 + 17


def opened() -> set[str]:
    """The numbers of all open files."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "noise.bin"
    found.write_bytes(np.random.default_rng(3).bytes(SIZE))
    return found


@pytest.fixture
def file(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def memory() -> Iterator[HostBuffer]:
    with closing(HostBuffer(1 << 16)) as buffer:
        buffer.fill(0)
        yield buffer


def all_of(reads: Reads, workers: int) -> dict[tuple[int, int], int]:
    """What every read came to, by worker and slot."""
    found = {}
    while reads.flying:
        for worker in range(workers):
            while (one := reads.finished(worker)) is not None:
                found[worker, one[0]] = one[1]
        if reads.flying:
            reads.wait(1.0)
    return found


def test_this_system_can() -> None:
    assert aio.usable()


@pytest.mark.parametrize("offset", [0, 1, 4095, 4096, 5000])
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 7000])
def test_every_byte_comes_to_its_place(
    path: Path, file: int, memory: HostBuffer, offset: int, size: int
) -> None:
    wanted = path.read_bytes()[offset : offset + size]
    before = opened()
    with closing(Reads(2, 2)) as reads:
        for worker in range(2):
            for slot in range(2):
                at = memory.address + (2 * worker + slot) * 8192
                reads.begin(worker, slot, Read(file, at, size, offset))
        assert reads.flying == 4
        found = all_of(reads, 2)
    assert found == {(w, s): len(wanted) for w in range(2) for s in range(2)}
    for place in range(4):
        assert bytes(memory.view[place * 8192 : place * 8192 + len(wanted)]) == wanted
        assert not memory.array[place * 8192 + len(wanted) : (place + 1) * 8192].any()
    assert opened() == before


def test_a_worker_s_reads_come_in_the_order_in_which_they_were_asked_for(
    file: int, memory: HostBuffer
) -> None:
    with closing(Reads(1, 8)) as reads:
        for slot in (3, 1, 0, 7):
            reads.begin(0, slot, Read(file, memory.address + slot * 4096, 4096, 0))
        assert list(all_of(reads, 1)) == [(0, 3), (0, 1), (0, 0), (0, 7)]


def test_a_read_behind_the_end_is_short(file: int, memory: HostBuffer) -> None:
    with closing(Reads(1, 2)) as reads:
        reads.begin(0, 0, Read(file, memory.address, 4096, SIZE - 17))
        reads.begin(0, 1, Read(file, memory.address, 4096, SIZE))
        assert all_of(reads, 1) == {(0, 0): 17, (0, 1): 0}


def test_a_read_that_fails_says_with_what(tmp_path: Path, file: int, memory: HostBuffer) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with closing(Reads(2, 1)) as reads:
            reads.begin(0, 0, Read(folder, memory.address, 4096, 0))
            reads.begin(1, 0, Read(file, memory.address, 4096, 0))
            assert all_of(reads, 2) == {(0, 0): -errno.EISDIR, (1, 0): 4096}
    finally:
        os.close(folder)


def test_a_file_that_is_not_open_is_told_at_once(memory: HostBuffer) -> None:
    with closing(Reads(1, 1)) as reads:
        with pytest.raises(OSError, match="Bad file descriptor"):
            reads.begin(0, 0, Read(987_654, memory.address, 1, 0))
        assert reads.flying == 0


def test_settling_leaves_nothing_under_way(file: int, memory: HostBuffer) -> None:
    before = opened()
    reads = Reads(4, 4)
    for slot in range(4):
        for worker in range(4):
            reads.begin(worker, slot, Read(file, memory.address + worker * 8192, 8192, 0))
    reads.settle()
    assert reads.flying == 0
    reads.close()
    memory.fill(0)
    assert not memory.array.any()  # and nobody writes there any more
    assert opened() == before


def test_a_file_s_number_that_goes_to_another_file_means_that_one(
    tmp_path: Path, memory: HostBuffer
) -> None:
    reads, found = Reads(1, 1), []
    for k in range(3):
        (tmp_path / str(k)).write_bytes(bytes([k + 1]) * 100)
        fd = os.open(tmp_path / str(k), os.O_RDONLY)
        reads.begin(0, 0, Read(fd, memory.address, 100, 0))
        all_of(reads, 1)
        reads.close()  # as between two runs
        os.close(fd)
        found.append((fd, int(memory.array[99])))
    assert [value for _, value in found] == [1, 2, 3]
    assert len({fd for fd, _ in found}) == 1, "the numbers differ, so this shows nothing"


def test_many_files_need_few_descriptors(tmp_path: Path, memory: HostBuffer) -> None:
    files = []
    for k in range(40):
        (tmp_path / str(k)).write_bytes(bytes([k]) * 10)
        files.append(os.open(tmp_path / str(k), os.O_RDONLY))
    before, most = len(opened()), 0
    with closing(Reads(1, 1)) as reads:
        for k, fd in enumerate(files):
            reads.begin(0, 0, Read(fd, memory.address, 10, 0))
            all_of(reads, 1)
            assert memory.array[9] == k
            most = max(most, len(opened()) - before)
    assert most <= aio.KEPT
    assert len(opened()) == before
    for fd in files:
        os.close(fd)


@pytest.mark.parametrize("more", [1, 2, aio.LEFT, aio.LEFT + 3])
def test_where_few_more_may_be_opened_the_caller_s_descriptor_serves(
    path: Path, file: int, memory: HostBuffer, more: int
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = opened()
    resource.setrlimit(resource.RLIMIT_NOFILE, (file + more, limits[1]))
    try:
        with closing(Reads(4, 2)) as reads:
            for slot in range(2):
                for worker in range(4):
                    at = memory.address + (2 * worker + slot) * 4096
                    reads.begin(worker, slot, Read(file, at, 4096, 4096 * slot))
            assert set(all_of(reads, 4).values()) == {4096}
            numbers = range(file + 1, file + more)[-aio.LEFT :]
            assert not [fd for fd in numbers if str(fd) not in before and is_open(fd)]
            reads.begin(0, 0, Read(file, memory.address, 4096, 0))
            reads.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    wanted = path.read_bytes()[:8192]
    assert all(bytes(memory.view[k * 8192 : (k + 1) * 8192]) == wanted for k in range(1, 4))
    assert opened() == before


def test_a_fork_does_without(file: int, memory: HostBuffer) -> None:
    with closing(Reads(1, 1)) as reads:
        reads.begin(0, 0, Read(file, memory.address, 1, 0))
        all_of(reads, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Reads(1, 1)
        except UnavailableError:
            code = 3 if aio.usable() else 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert aio.usable()


def test_another_c_library_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise AttributeError("undefined symbol: gnu_get_libc_version")

    monkeypatch.setattr(aio, "_Calls", lacking)
    aio._calls.cache_clear()
    try:
        assert not aio.usable()
        with pytest.raises(UnavailableError):
            Reads(1, 1)
    finally:
        aio._calls.cache_clear()
