"""One flow over several ways at once: every byte once, and nothing left behind."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from planner.engine import drive
from planner.engine.backends.host import HostBackend
from planner.engine.ops import DMA, FOLLOW, POOL
from planner.engine.queue import Queue
from planner.engine.strategies.base import Hands, Operation, cut
from planner.engine.worker import operations_of
from planner.errors import ExecutionError, UnavailableError, VerificationError
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import FlowSchedule, SplitPart
from tests.helpers.machines import MIB, two_gpus
from tests.helpers.schedules import KIB, noise_file
from tests.helpers.splits import SPLITS, hops, run_split

CHUNK = 4 * KIB
EQUAL = ((CHUNK, 2, 2), (CHUNK, 2, 2))
UNEQUAL = ((2 * CHUNK, 1, 2), (3 * CHUNK, 2, 1))
SIZES = [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 61 * CHUNK + 17]


@pytest.fixture(autouse=True)
def _no_memory_stays(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: ARG001
    """After each test no memory of a GPU is left, either."""
    held: dict[int, int] = {}
    allocate, release = HostBackend.allocate, HostBackend.release

    def counted(self: HostBackend, gpu: int, size: int) -> object:
        buffer = allocate(self, gpu, size)
        held[buffer.address] = size
        return buffer

    def freed(self: HostBackend, buffer: object) -> None:
        held.pop(buffer.address)  # type: ignore[attr-defined]
        release(self, buffer)  # type: ignore[arg-type]

    monkeypatch.setattr(HostBackend, "allocate", counted)
    monkeypatch.setattr(HostBackend, "release", freed)
    yield
    assert held == {}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shapes", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", SPLITS)
def test_every_byte_arrives_over_either_way(
    name: str, size: int, shapes: tuple[tuple[int, int, int], tuple[int, int, int]]
) -> None:
    run = run_split(name, size, two_gpus(), shapes, options={"samples": 2})
    flow = run.flows[0]
    assert flow.verified is True
    assert sum(part.share for part in flow.parts) == pytest.approx(1)
    assert [part.route[-1] for part in flow.parts] == [flow.schedule.hops[-1].end] * 2
    # A hop is busy exactly where its way took bytes.
    ways = zip(flow.parts, flow.schedule.parts, strict=True)
    shares = [part.share for part, way in ways for _ in way.hops]
    for hop, share in zip(flow.hops, shares, strict=True):
        assert (hop.busy_s > 0) == (share > 0)


def test_staging_is_allocated_on_the_neighbour_and_told() -> None:
    run = run_split("file", 61 * CHUNK, two_gpus(), EQUAL)
    sizes = {step.name: step.size_bytes for step in run.flows[0].setup}
    # 2 workers * 2 slots * one chunk on gpu1; both rings, of as much each, on the host.
    assert sizes["allocate staging on gpu1"] == 4 * CHUNK
    assert sizes["touch the ring"] == sizes["register the ring"] == 8 * CHUNK
    assert run.flows[0].pinned_bytes == 8 * CHUNK


def test_files_that_end_inside_a_chunk_are_split_too(tmp_path: Path) -> None:
    files = [
        noise_file(tmp_path / "a", 9 * CHUNK + 1, offset=8 + 1234, seed=1),
        noise_file(tmp_path / "b", 7 * CHUNK - 7, offset=8, seed=2),
    ]
    size = sum(file.size_bytes for file in files)
    run = run_split("file", size, two_gpus(), UNEQUAL, files=[file.model_dump() for file in files])
    assert run.flows[0].verified is True


def inject(
    monkeypatch: pytest.MonkeyPatch, code: int, wrap: Callable[[Operation], Operation]
) -> None:
    """Put a fault in front of one kind of operation of the workers that have it."""

    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        if code < len(operations):
            operations[code] = wrap(operations[code])
        return operations

    monkeypatch.setattr(drive, "operations_of", faulty)


@pytest.mark.parametrize("name", SPLITS)
def test_a_fault_on_the_detour_is_told_with_its_place(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.EIO, "the link is down")

    def wrap(_operation: Operation) -> Operation:
        def run(_slot: int, _chunk: int) -> None:
            raise error

        return run

    # Only the detour has a second engine, or an engine at all behind the driver's own copies.
    inject(monkeypatch, DMA if name == "by the driver" else FOLLOW, wrap)
    hop = "gpu1 -> host0 \\(pinned\\)" if name == "out" else "gpu1 -> gpu0 \\(peer\\)"
    with pytest.raises(ExecutionError, match=f"flow f, hop {hop}, chunk .*the link is down") as e:
        run_split(name, 4000 * CHUNK, two_gpus(), EQUAL)
    assert e.value.__cause__ is error


@pytest.mark.parametrize("code", [DMA, FOLLOW])
def test_a_chunk_that_is_lost_is_found(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = threading.Event()

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if lost.is_set() or chunk < 9:
                operation(slot, chunk)
            else:
                lost.set()

        return run

    inject(monkeypatch, code, wrap)
    with pytest.raises(VerificationError, match="flow f: byte"):
        run_split("pageable", 4000 * CHUNK, two_gpus(), EQUAL)


@pytest.mark.parametrize("name", ["pinned", "file"])
def test_an_interrupt_ends_both_ways(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.main_thread().ident
    assert main is not None
    sent = threading.Event()

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if chunk >= 5 and not sent.is_set():
                sent.set()
                signal.pthread_kill(main, signal.SIGINT)
            if sent.is_set():
                sent.wait(0.01)
            operation(slot, chunk)

        return run

    inject(monkeypatch, DMA, wrap)
    with pytest.raises(KeyboardInterrupt):
        run_split(
            name,
            4000 * CHUNK,
            two_gpus(),
            EQUAL,
            options={"samples": 200, "verify": False},
        )
    assert sent.is_set()


def test_whoever_is_slower_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker each; the detour's sleeps 2 ms a chunk, so the other takes nearly everything."""

    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        if len(operations) > FOLLOW:
            pool = operations[POOL]

            def slow(slot: int, chunk: int) -> None:
                threading.Event().wait(0.002)
                pool(slot, chunk)

            operations[POOL] = slow
        return operations

    monkeypatch.setattr(drive, "operations_of", faulty)
    shapes = ((CHUNK, 2, 1), (CHUNK, 2, 1))
    run = run_split("pageable", 400 * CHUNK, two_gpus(), shapes)
    direct, detour = (part.share for part in run.flows[0].parts)
    # A chunk of 4 KiB costs the fast way far less than 1 ms, half of the other's time.
    assert direct > detour > 0


@pytest.mark.parametrize("chunks", [(4, 4), (4, 6), (5, 3), (64, 10)])
@pytest.mark.parametrize("borders", [(), (0, 7, 23)])
def test_a_queue_gives_every_byte_once(chunks: tuple[int, int], borders: tuple[int, ...]) -> None:
    queue = Queue(lambda chunk: cut(101, chunk, borders), 101, chunks, borders)
    takers = queue.start()
    seen: list[tuple[int, int]] = []
    turn = 0
    while True:
        route = (turn * 7 // 3) % 2
        at = next(takers[route], None)
        if at is None:
            break
        table = queue.tables[route]
        seen.append((table.lows[at], table.sizes[at]))
        assert table.sizes[at] <= chunks[route]
        turn += 1
    assert [next(taker, None) for taker in takers] == [None, None]
    ends = [low + size for low, size in seen]
    assert [low for low, _ in seen] == [0, *ends[:-1]]
    assert ends[-1] == 101
    assert set(borders) - {0} <= set(ends)


def test_chunks_with_no_common_unit_are_rounded_to_the_smaller() -> None:
    size = 1 << 30
    queue = Queue(partial(cut, size), size, ((1 << 20) - 1, (3 << 20) + 1))
    # gcd 1 would make a row for each byte. 3 MiB + 1 holds three whole units of 1 MiB - 1.
    assert len(queue) == -(-size // ((1 << 20) - 1))
    assert queue.tables[1].sizes[0] == 3 * ((1 << 20) - 1)


def test_a_way_that_rests_whole_cannot_share_the_queue() -> None:
    size = 64 * MIB
    whole = hops("disk0 buffered host0 + host0 pinned gpu0", (MIB, 2, 2))
    stored = tuple(hop.model_copy(update={"coupled": False}) for hop in whole)
    around = hops("disk0 buffered host0 + host0 pinned gpu1 + gpu1 peer gpu0", (MIB, 2, 2))
    parts = tuple(SplitPart(share_bytes=size // 2, hops=way) for way in (stored, around))
    made = FlowSchedule(flow="f", size_bytes=size, hops=stored, cache="warm", parts=parts)
    plan = Plan.model_validate(
        {"flows": {"f": {"from": "disk0", "to": ["gpu0"], "size": size, "cache": "warm"}}}
    )
    from planner.engine.execute import execute

    prediction = estimate(plan, two_gpus(), schedules={"f": made})
    with pytest.raises(UnavailableError, match="rests whole at host0"):
        execute(plan, two_gpus(), estimate=prediction, backend="host")


@pytest.mark.parametrize("name", [name for name in SPLITS if "beside" not in name])
@pytest.mark.parametrize("shapes", [((MIB, 2, 2), (MIB, 2, 2)), ((2 * MIB, 2, 2), (3 * MIB, 2, 3))])
def test_the_virtual_clock_comes_to_the_prediction(
    name: str, shapes: tuple[tuple[int, int, int], tuple[int, int, int]]
) -> None:
    """Within a chunk's time at either end of some 200 chunks: 2 %; the shares likewise."""
    run = run_split(name, 512 * MIB, two_gpus(), shapes, backend="null")
    flow = run.flows[0]
    assert sum(part.share for part in flow.parts) == pytest.approx(1)
    assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=0.03)
