"""Chunks, shapes, residency and capsules: the small parts under a load."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from planner.engine.cutting import cuts
from planner.engine.memory import PAGE
from planner.engine.serving import dlpack, planned, residency as asking
from planner.engine.serving.ends import FileEnd, MemoryEnd
from planner.engine.serving.job import Job
from planner.engine.serving.parts import GRAIN, MOST_PARTS, Chunks, Part, joined, runs_of
from planner.engine.serving.shape import MIB, ROOM, Shape, default_budget, rule_of_thumb, within
from planner.errors import InfeasibleError
from tests.helpers.machines import one_gpu


@given(
    sizes=st.lists(st.integers(0, 5000), max_size=60),
    gaps=st.lists(st.integers(0, 2), min_size=60, max_size=60),
    chunk=st.integers(64, 4096),
)
def test_chunks_cover_every_byte_once_and_fit(
    sizes: list[int], gaps: list[int], chunk: int
) -> None:
    source, target = MemoryEnd(0, 1 << 30), MemoryEnd(0, 1 << 30)
    parts, at = [], 0
    for size, gap in zip(sizes, gaps, strict=False):
        parts.append(Part(source, at, target, at, size))
        at += size + gap
    chunks = Chunks(parts, chunk)
    wanted = {byte for part in parts for byte in range(part.start, part.start + part.size)}
    found = [
        byte for c in chunks for part in c for byte in range(part.start, part.start + part.size)
    ]
    assert sorted(found) == sorted(wanted)
    for one in chunks:
        assert len(one) <= MOST_PARTS
        grains = sum(-(-part.size // GRAIN) * GRAIN for part in one)
        assert len(one) == 1 or grains <= chunk
        assert all(part.size <= chunk and part.start == part.to for part in one)


def test_chunks_of_a_file_end_where_its_pages_end(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"x" * 30_000)
    source, target = FileEnd(str(path), "auto"), MemoryEnd(0, 30_000)
    try:
        # Data behind 5,008 bytes, 912 behind a page: 7,280 bytes to the end of the second chunk's
        # pages at 12,288, then whole chunks of 8,192, then the 1,136 bytes that are left.
        (*chunks,) = Chunks([Part(source, 5008, target, 0, 24_800)], 8192)
        assert [(c[0].start, c[0].to, c[0].size) for c in chunks] == [
            (5008, 0, 7280),
            (12_288, 7280, 8192),
            (20_480, 15_472, 8192),
            (28_672, 23_664, 1136),
        ]
    finally:
        source.close()


def test_parts_that_touch_at_both_ends_are_one() -> None:
    source, target = MemoryEnd(0, 100), MemoryEnd(0, 100)
    touching = [Part(source, 0, target, 5, 10), Part(source, 10, target, 15, 1)]
    assert joined(touching) == [Part(source, 0, target, 5, 11)]
    apart = [Part(source, 0, target, 5, 10), Part(source, 10, target, 16, 1)]
    assert joined(apart) == apart


def _root(folder: Path, size: str) -> Path:
    cache = folder / "sys/devices/system/cpu"
    for cpu in range(os.cpu_count() or 1):
        index = cache / f"cpu{cpu}/cache/index3"
        index.mkdir(parents=True)
        for name, text in (("size", size), ("level", "3"), ("type", "Unified")):
            (index / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("cores", "cache", "wanted"),
    [
        # 12 workers x 2 slots x 4 MiB = 96 MiB lie within 0.4 x 300 MiB.
        (16, "307200K", (12, 2, 4 * MIB)),
        # 0.4 x 32 MiB = 12.8 MiB: 12 x 2 x 512 KiB would, but a chunk has 1 MiB at least.
        (16, "32768K", (12, 2, 1 * MIB)),
        (64, "524288K", (16, 2, 4 * MIB)),
        # Two at least: one opens the device while the other reads.
        (1, "307200K", (2, 2, 4 * MIB)),
    ],
)
def test_the_rule_of_thumb(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    cache: str,
    wanted: tuple[int, int, int],
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    shape = rule_of_thumb(_root(tmp_path, cache))
    assert (shape.workers, shape.depth, shape.chunk_bytes) == wanted
    assert shape.origin == "rule"
    assert shape.predicted_s(10**9) is None


def test_a_budget_costs_depth_then_chunk_then_workers() -> None:
    shape = Shape(8, 2, 4 * MIB)
    slot = 4 * MIB + ROOM
    assert within(shape, 16 * slot) == shape
    assert within(shape, 16 * slot - 1) == Shape(8, 1, 4 * MIB)
    assert within(shape, 8 * slot - 1) == Shape(8, 1, 2 * MIB)
    assert within(shape, 7 * (MIB + ROOM)) == Shape(7, 1, MIB)
    with pytest.raises(InfeasibleError, match="budget"):
        within(shape, 4096)


def test_a_small_transfer_gives_every_slot_a_chunk() -> None:
    shape = Shape(4, 2, 4 * MIB)
    assert shape.cut_to(64 * MIB).chunk_bytes == 4 * MIB
    assert shape.cut_to(8 * MIB).chunk_bytes == MIB
    assert shape.cut_to(1).chunk_bytes == 64 << 10


def test_the_default_budget_is_a_share_of_what_is_free(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   1000 kB\n")
    assert default_budget(tmp_path) == int(1000 * 1024 * 0.3)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000\n")
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("10\n")
    assert default_budget(tmp_path) == 300


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends whose calibration was loaded, in an empty cache: each has that of `one_gpu`."""
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path))
    found: list[str] = []

    def calibrated(backend: str) -> object:
        found.append(backend)
        return one_gpu()

    monkeypatch.setattr("planner.engine.here.kept", calibrated)
    return found


def test_answers_are_kept_beside_the_calibration_and_no_longer(
    tmp_path: Path, asked: list[str]
) -> None:
    assert planned.Planner("host", None).shape(0, 1 << 20, "warm") is None
    assert asked == []  # nothing was calibrated, so nothing was loaded either
    calibration = tmp_path / "here-0123-host-v2.json"
    calibration.write_text("{}")
    first = planned.Planner("host", None).shape(0, 1 << 20, "warm")
    again = planned.Planner("host", None).shape(0, (1 << 20) - 5, "warm")
    assert first is not None
    assert again == first
    assert asked == ["host"]
    os.utime(calibration, (1, 1))  # another calibration
    assert planned.Planner("host", None).shape(0, 1 << 20, "warm") == first
    assert asked == ["host", "host"]
    (tmp_path / "shapes-host.json").write_text("{damaged")
    assert planned.Planner("host", None).shape(0, 1 << 20, "warm") == first
    assert sorted(p.name for p in tmp_path.iterdir()) == [calibration.name, "shapes-host.json"]


def test_a_calibration_plans_for_usual_sizes_and_near_ones_take_those(
    tmp_path: Path, asked: list[str]
) -> None:
    planned.plan_usual("host", one_gpu())  # nothing is kept, so nothing that could grow old is
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "here-0123-host-v2.json").write_text("{}")
    planned.plan_usual("host", one_gpu())
    usual = planned.Planner("host", None)
    exact = usual.shape(0, 1 << 32, "warm")
    assert exact is not None
    assert exact.size_bytes == 1 << 32
    assert usual.shape(0, 1 << 33, "warm") == exact  # twice as large: as near to 2^32 as to 2^34
    assert usual.shape(0, 1 << 27, "cold") == usual.shape(0, 1 << 28, "cold") is not None
    assert asked == []
    # An eighth of the smallest usual size is planned by itself, and so is another GPU.
    small = usual.shape(0, 1 << 25, "warm")
    assert small is not None
    assert small.size_bytes == 1 << 25
    assert usual.shape(1, 1 << 32, "warm") is None
    assert asked == ["host", "host"]


def test_a_gpu_that_the_machine_lacks_has_no_shape() -> None:
    assert planned.shape_on(one_gpu(), 5, 1 << 20, "warm") is None


def test_residency_follows_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "x"
    size = 8 * MIB
    path.write_bytes(os.urandom(size))
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        assert asking.residency(fd)(0, size) == 1.0
        assert asking._probe(fd, 0, size) == 1.0
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        share = asking._cachestat(fd, 0, size)
        if share is None:
            pytest.skip("this kernel has no cachestat")
        if share == 1.0:
            pytest.skip("this file system keeps its pages")
        assert share == 0.0
        assert asking._probe(fd, 0, MIB) == 0.0
    finally:
        os.close(fd)


def test_overlays_are_asked_by_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(3 * MIB))
    monkeypatch.setattr(asking, "_is_overlay", lambda _fd: True)
    monkeypatch.setattr(asking, "_cachestat", lambda *_given: 0.0)
    with path.open("rb") as file:
        assert asking.residency(file.fileno())(0, 3 * MIB) == 1.0


def test_a_capsule_that_nobody_takes_gives_its_memory_back() -> None:
    owner = np.arange(6, dtype=np.int32)
    before = len(dlpack._held)
    capsule = dlpack.export(owner.ctypes.data, (dlpack.CPU, 0), dlpack.DTYPES["I32"], (2, 3), owner)
    assert len(dlpack._held) == before + 1
    del capsule
    assert len(dlpack._held) == before


def test_the_structure_in_one_piece_is_the_one_of_the_format() -> None:
    assert dlpack._HEAD.size == ctypes.sizeof(dlpack._Managed)


def test_a_capsule_is_read_as_it_was_written() -> None:
    owner = np.arange(6, dtype=np.uint16)
    before = len(dlpack._held)
    capsule = dlpack.export(
        owner.ctypes.data, (dlpack.CPU, 0), dlpack.DTYPES["BF16"], (2, 3), owner
    )
    found = dlpack.Imported(capsule)
    assert (found.address, found.size, found.device) == (owner.ctypes.data, 12, (1, 0))
    assert found.compact
    with pytest.raises(ValueError, match="used before"):
        dlpack.Imported(capsule)
    del capsule
    assert len(dlpack._held) == before + 1
    found.close()
    found.close()
    assert len(dlpack._held) == before


@pytest.mark.parametrize(
    ("name", "code", "bits"),
    [("BF16", 4, 16), ("F8_E4M3", 10, 8), ("F8_E5M2", 12, 8), ("BOOL", 6, 8), ("C64", 5, 64)],
)
def test_the_codes_are_those_of_the_format(name: str, code: int, bits: int) -> None:
    # https://github.com/dmlc/dlpack, include/dlpack/dlpack.h: DLDataTypeCode.
    assert dlpack.DTYPES[name][:2] == (code, bits)


@given(
    size=st.integers(0, 5 * PAGE),
    start=st.integers(0, 2 * PAGE),
    chunk=st.sampled_from([64, 1000, PAGE, 2 * PAGE]),
)
def test_a_large_part_is_cut_as_a_whole_list_would_be(size: int, start: int, chunk: int) -> None:
    source, target = FileEnd(__file__, "auto"), MemoryEnd(0, 1 << 20)
    try:
        found = Chunks([Part(source, start, target, 7, size)], chunk)
        phase = start % PAGE if chunk % PAGE == 0 and size >= chunk else 0
        wanted = [
            (Part(source, start + low, target, 7 + low, high - low),)
            for low, high in cuts(0, size, chunk, phase)
        ]
        assert list(found) == wanted
        assert len(found) == len(wanted)
        assert found[1:3] == wanted[1:3]
        assert list(runs_of(found)) == ([(Part(source, start, target, 7, size),)] if size else [])
        assert runs_of(wanted) is wanted
        if wanted:
            assert found[-1] == wanted[-1]
        with pytest.raises(IndexError, match=f"no chunk {len(wanted)} of {len(wanted)}"):
            found[len(wanted)]
    finally:
        source.close()


def test_a_job_looks_at_runs_and_cuts_no_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chunks, "__getitem__", lambda *_words: pytest.fail("a chunk was cut"))
    source, memory, target = FileEnd(__file__, "auto"), MemoryEnd(0, 99), MemoryEnd(0, 1 << 20)
    try:
        apart = [Part(source, 0, target, 0, 10), Part(source, 20, target, 20, 10)]
        copied = [Part(memory, 0, target, 0, 99)]
        for parts, ring in ((apart, True), (copied, False), (apart + copied, True)):
            job = Job("host", Chunks(parts, 4), Shape(4, 1, 4, "given"))
            assert job.needs_ring == ring
    finally:
        source.close()
