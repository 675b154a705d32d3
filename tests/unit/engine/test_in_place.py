"""Reads in place as a plan uses them, and registration chunk by chunk, on emulated GPUs."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_lane import HostKernelLane
from planner.engine.memory import PAGE, HostBuffer
from planner.engine.strategies.base import cut_pages
from planner.engine.strategies.write_combined import remark
from planner.engine.touch import Touch
from planner.errors import InfeasibleError, UnavailableError, VerificationError
from planner.model.movement import READY
from tests.helpers.machines import MIB, every_way
from tests.helpers.schedules import KIB, noise_file, run_way
from tests.helpers.splits import SPLITS, run_split

pytestmark = pytest.mark.usefixtures("scratch")

CHUNK = 4 * KIB
PATTERNS = [("dense", 0.3), ("strided", 0.2), ("random", 0.1), ("random", 0.9), ("dense", 1.0)]
READ_IN_PLACE = [
    "zero-copy in",
    "zero-copy pinned in",
    "load mapped zero-copy",
    "faults in",
    "managed faults in",
    "on host in",
    "managed on host in",
]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int, int]]:
    """Every launch of a kernel: whether it keeps what it reads, its bytes, and its passes."""
    seen: list[tuple[bool, int, int]] = []
    plain = HostKernelLane.touch

    def touch(self: HostKernelLane, slot: int, what: Touch, reads: int = 1) -> None:
        seen.append((what.target != 0, what.size, reads))
        plain(self, slot, what, reads)

    monkeypatch.setattr(HostKernelLane, "touch", touch)
    return seen


def use(pattern: str, fraction: float, reads: int = 1) -> dict[str, Any]:
    return {"pattern": pattern, "fraction": fraction, "reads": reads}


@pytest.mark.parametrize("size", [1, 15, 4095, CHUNK + 1, 3 * MIB + 17])
@pytest.mark.parametrize(("pattern", "fraction"), PATTERNS)
@pytest.mark.parametrize("way", READ_IN_PLACE)
def test_every_touched_byte_is_the_source_s(
    way: str, pattern: str, fraction: float, size: int
) -> None:
    run = run_way(way, size, every_way(), samples=2, use=use(pattern, fraction))
    assert run.flows[0].verified is True


def test_files_behind_headers_are_read_where_they_lie(tmp_path: Path) -> None:
    files = [
        noise_file(tmp_path / "a", 3 * CHUNK + 1, offset=8 + 1234, seed=1),
        noise_file(tmp_path / "b", 2 * CHUNK - 7, offset=13, seed=2),
    ]
    size = sum(file.size_bytes for file in files)
    told: list[Any] = [file.model_dump() for file in files]
    run = run_way(
        "load mapped zero-copy", size, every_way(), files=told, use=use("random", 0.2), samples=2
    )
    assert run.flows[0].verified is True


def test_a_kernel_that_reads_the_wrong_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = HostKernelLane.touch

    def touch(self: HostKernelLane, slot: int, what: Touch, reads: int = 1) -> None:
        plain(self, slot, what._replace(source=what.source + 1, pieces=what.pieces - 1), reads)

    monkeypatch.setattr(HostKernelLane, "touch", touch)
    with pytest.raises(VerificationError, match="byte 0 arrived as"):
        run_way("zero-copy in", 100 * CHUNK, every_way(), use=use("strided", 0.5))


def test_reads_cross_the_link_each_time_or_once(passes: list[tuple[bool, int, int]]) -> None:
    """Four reads of half of 1 MiB: which of them are of host memory, and which of the GPU's own."""
    half = use("dense", 0.5, 4)
    expected = {
        "zero-copy in": [(True, MIB // 2, 4)],
        "on host in": [(True, MIB // 2, 4)],
        # The first read faults the bytes in, three are of the GPU's own memory.
        "faults in": [(True, MIB // 2, 1), (False, MIB // 2, 3)],
        "prefetch in": [(False, MIB // 2, 4)],
        "pinned in": [(False, MIB // 2, 4)],
    }
    for way, kernels in expected.items():
        passes.clear()
        run = run_way(way, MIB, every_way(), use=half)
        assert passes == kernels, way
        assert run.flows[0].verified is True


def test_every_repeat_of_managed_memory_begins_on_the_host(
    passes: list[tuple[bool, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: list[int | None] = []
    plain = HostBackend.bring

    def bring(self: HostBackend, buffer: HostBuffer, gpu: int | None) -> None:
        brought.append(gpu)
        plain(self, buffer, gpu)

    monkeypatch.setattr(HostBackend, "bring", bring)
    run = run_way("managed faults in", MIB, every_way(), samples=2, repeat=3)
    assert len(passes) == 2 * 3
    # Before the second sample, and between the repeats of both.
    assert brought.count(None) == 1 + 2 * 2
    assert run.flows[0].verified is True


def test_what_is_paid_once_has_the_steps_of_the_model() -> None:
    names = [step.name for step in run_way("faults in", MIB, every_way()).flows[0].setup]
    assert names[:3] == ["start the workers", "touch the managed buffer", "copy into it"]
    assert names[3:] == ["open the lanes", READY]
    # What is managed already is mapped for the GPU where it lies.
    names = [step.name for step in run_way("managed on host in", MIB, every_way()).flows[0].setup]
    assert "map the managed memory" in names
    assert "touch the managed buffer" not in names
    names = [step.name for step in run_way("zero-copy in", MIB, every_way()).flows[0].setup]
    assert names[:2] == ["start the workers", "register the buffer"]
    assert names[2:] == ["open the lanes", READY, "unregister the buffer"]
    flow = run_way("combined in", MIB, every_way(), shape=(CHUNK, 2, 2)).flows[0]
    assert [step.name for step in flow.setup] == [
        "start the workers",
        "allocate gpu0",
        "allocate the write-combined ring",
        "open the lanes",
        READY,
    ]
    assert flow.pinned_bytes == 4 * CHUNK


def test_memory_that_is_no_write_combined_memory_is_said() -> None:
    # Emulated memory is ordinary, and no ordinary memory is read at less than 1 GB/s.
    told = run_way("combined in", MIB, every_way()).warnings
    assert any("so it is ordinary memory here" in text for text in told)
    assert remark(0.2e9) is None


def test_peer_access_that_somebody_left_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostBackend, "peer_is_open", lambda _self, gpu, peer: (gpu, peer) == (0, 1))
    with pytest.raises(UnavailableError, match="devices 0 and 1 have peer access"):
        run_way("relay", MIB, every_way())
    assert run_way("pinned in", MIB, every_way()).flows[0].verified is True


def test_peer_access_lasts_as_long_as_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # A backend that is used again: after a peer copy the way through the host is free again.
    opened: set[tuple[int, int]] = set()
    monkeypatch.setattr(HostBackend, "open_peer", lambda _self, *pair: opened.add(pair))
    monkeypatch.setattr(HostBackend, "close_peer", lambda _self, *pair: opened.discard(pair))
    monkeypatch.setattr(HostBackend, "peer_is_open", lambda _self, *pair: pair in opened)
    backend = HostBackend()
    try:
        seen = []
        monkeypatch.setattr(
            HostBackend, "start_clock", lambda _self: seen.append(frozenset(opened))
        )
        assert run_way("peer", MIB, every_way(), backend=backend).flows[0].verified is True
        assert set(seen) == {frozenset({(0, 1)})}
        assert opened == set()
        assert run_way("relay", MIB, every_way(), backend=backend).flows[0].verified is True
    finally:
        backend.close()


class Book:
    """What was registered: the regions held, and the most bytes at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: dict[int, int] = {}
        self.peak = 0
        self.regions: set[tuple[int, int]] = set()
        plain, undo = HostBackend.register, HostBackend.unregister
        guard = Lock()

        def register(
            backend: HostBackend, address: int, size: int, *, read_only: bool = False
        ) -> None:
            with guard:  # workers register at the same time
                ends = [(a, a + s) for a, s in self.held.items()]
                apart = all(address >= high or address + size <= low for low, high in ends)
                assert apart, "overlap"
                self.held[address] = size
                self.regions.add((address % PAGE, size % PAGE))
                self.peak = max(self.peak, sum(self.held.values()))
            plain(backend, address, size, read_only=read_only)

        def unregister(backend: HostBackend, address: int) -> None:
            with guard:
                self.held.pop(address, None)
            undo(backend, address)

        monkeypatch.setattr(HostBackend, "register", register)
        monkeypatch.setattr(HostBackend, "unregister", unregister)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("way", ["chunks in", "load chunks"])
def test_registrations_are_whole_pages_that_never_overlap(
    way: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(monkeypatch)
    more: dict[str, Any] = {}
    size = 9 * CHUNK + 17
    if way == "load chunks":
        files = [
            noise_file(tmp_path / "a", 5 * CHUNK + 1, offset=8 + 1234, seed=1),
            noise_file(tmp_path / "b", 4 * CHUNK + 16, offset=4095, seed=2),
        ]
        more["files"] = [file.model_dump() for file in files]
    run = run_way(way, size, every_way(), shape=(CHUNK, 2, workers), samples=3, **more)
    flow = run.flows[0]
    assert flow.verified is True
    assert book.regions == {(0, 0)}
    assert book.held == {}
    assert flow.setup[-1].name == "unregister afterwards"
    # Everything stays registered until the end, some pages more than there are bytes.
    assert flow.pinned_bytes == book.peak
    assert size <= book.peak <= size + 4 * PAGE


def test_less_than_the_flow_may_be_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book(monkeypatch)
    budget = {"pinned": 3 * CHUNK}
    run = run_way("chunks in", 40 * CHUNK, every_way(), shape=(CHUNK, 2, 1), budget=budget)
    assert run.flows[0].verified is True
    assert book.peak == 3 * CHUNK
    assert run.flows[0].pinned_bytes == 3 * CHUNK
    assert book.held == {}


def test_a_budget_below_the_slots_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book(monkeypatch)
    with pytest.raises(InfeasibleError, match=r"2 chunks of 4 KiB registered at a time are more"):
        run_way("chunks in", 40 * CHUNK, every_way(), budget={"pinned": CHUNK})
    assert book.held == {}


@pytest.mark.parametrize("phase", [0, 1, 1234, PAGE - 1])
def test_chunks_end_where_pages_end(phase: int) -> None:
    found = cut_pages(10 * PAGE + 5, 2 * PAGE, [(0, phase), (3 * PAGE + 7, 0)])
    assert sum(found.sizes) == 10 * PAGE + 5
    ends = [low + size for low, size in zip(found.lows, found.sizes, strict=True)]
    assert found.lows == [0, *ends[:-1]]
    border = 3 * PAGE + 7
    inside = [end for end in ends if end < border]
    assert all((end + phase) % PAGE == 0 for end in inside)
    assert all((end - border) % PAGE == 0 for end in ends if border < end < ends[-1])


@pytest.mark.parametrize("size", [1, 4095, CHUNK + 1, 61 * CHUNK + 17])
@pytest.mark.parametrize(
    ("memory", "ways"),
    [
        ("pageable", ("host0 registered_chunks gpu0", "host0 staged gpu0")),
        (
            "disk",
            (
                "disk0 mmap host0 + host0 registered_chunks gpu0",
                "disk0 buffered host0 + host0 pinned gpu0",
            ),
        ),
    ],
)
def test_registering_workers_share_a_queue_with_those_that_fill_a_ring(
    memory: str, ways: tuple[str, str], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread registers as it goes, others copy into slots: each chunk goes one way."""
    book = Book(monkeypatch)
    monkeypatch.setitem(SPLITS, "mixed", (memory, ways))
    shapes = ((2 * CHUNK, 2, 1), (CHUNK, 2, 2))
    run = run_split("mixed", size, every_way(), shapes, options={"samples": 3})
    assert run.flows[0].verified is True
    assert sum(part.share for part in run.flows[0].parts) == pytest.approx(1)
    assert book.held == {}
