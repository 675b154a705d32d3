"""Measure this computer and write down what was found, as a machine."""

from __future__ import annotations

import contextlib
import platform
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from planner.engine.backends import Backend, open_backend
from planner.engine.backends.cuda import missing
from planner.engine.calibration import copies, costs, disk, joint, tables
from planner.engine.calibration.arena import Arena, Budget, open_arena
from planner.engine.calibration.assemble import Found, machine_of
from planner.engine.calibration.coupling import Joint, coupled
from planner.engine.calibration.rounds import Cell, sample
from planner.engine.progress import Progress, Quiet
from planner.engine.sample import SWITCH_S
from planner.errors import InputError, UnavailableError
from planner.machine.discover import discover
from planner.machine.discover_gpus import read_gpus
from planner.machine.schema import CopyName, Machine

MIB: Final = 1 << 20
SLICE: Final = 0.04
"""Seconds of one sample of the copy tables: some ten chunks of each worker."""
ROUNDS: Final = 5
COST: Final = 256 * MIB
"""Bytes of which touching and registering is timed."""
DUPLEX: Final = 0.1
"""Seconds of both directions at once: some ten copies of 16 MiB each way where memory is slow."""
LOAD: Final = 0.4
"""The same on a real GPU: a link retrains within some ten milliseconds, and the driver is asked in
the middle of it."""
SECONDS: Final = 10.0
"""Of a quick calibration: what people wait for without asking why."""
COPIES: Final[tuple[CopyName, ...]] = ("file", "memory", "save", "save_memory")


def backend_name(backend: str) -> str:
    """`cuda` or `host`: what `auto` stands for on this computer.

    Raises `UnavailableError` if cuda is asked for and something is missing.
    """
    if backend == "host":
        return "host"
    reason = missing()
    if backend == "cuda" and reason is not None:
        raise UnavailableError(
            f"the cuda backend cannot run here: {reason}",
            hint="--backend host emulates the GPU in RAM",
        )
    return "host" if reason is not None else "cuda"


def scratch_folder(folder: Path | None) -> Path:
    """The folder of the disk to measure: as given, else where temporary files go.

    Raises `InputError` if the given one does not exist.
    """
    if folder is not None and not folder.is_dir():
        raise InputError(f"there is no folder {folder} to measure", hint="make it, or name another")
    return folder if folder is not None else Path(tempfile.gettempdir())


def calibrate(
    *,
    name: str = "here",
    emulate_gpus: int | None = None,
    backend: str = "auto",
    scratch: Path | None = None,
    progress: Progress | None = None,
    seconds: float = SECONDS,
) -> Machine:
    """This computer as a machine in which every number was measured now.

    Parameters
    ----------
    name
        Name of the machine.
    emulate_gpus
        How many GPUs to stand in for in RAM; 1 unless given. Only on the host backend.
    backend
        `cuda`, `host`, or `auto`: cuda where a device is.
    scratch
        A folder on the disk to measure.
    progress
        Told what is being measured.
    seconds
        Time to take, roughly; every cell is measured at least once.

    Raises
    ------
    UnavailableError
        The backend needs what this computer lacks, or emulated GPUs are asked for on a real one.
    InfeasibleError
        There is no room for the buffers or the scratch file.

    """
    chosen = backend_name(backend)
    if emulate_gpus is not None and chosen == "cuda":
        raise UnavailableError(
            "emulated GPUs need the host backend", hint="give --backend host with --emulate-gpus"
        )
    folder = scratch_folder(scratch)
    about = discover(folder)
    listener = progress or Quiet()
    budget = Budget(perf_counter(), seconds)
    with _device(chosen) as device:
        gpus = [gpu.index for gpu in about.gpus] if chosen == "cuda" else []
        gpus = gpus or list(range(emulate_gpus or 1))
        context = [_context(device, gpu) for gpu in gpus]
        with (
            _quick_switches(),
            open_arena(device, gpus, folder, about.cores, listener) as arena,
        ):
            found = Found(name, about, gpus, context, emulated=device.emulated)
            _measure(device, arena, found, budget, listener)
            found.when = datetime.now(tz=UTC).date().isoformat()
            found.host = platform.node()
            machine = machine_of(found, folder)
            return _couple(device, arena, machine, found, budget, listener)


@contextlib.contextmanager
def _quick_switches() -> Iterator[None]:
    """Let the interpreter switch threads as often as it does in a run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextlib.contextmanager
def _device(name: str) -> Iterator[Backend]:
    device = open_backend(name)
    try:
        yield device
    finally:
        device.close()


def _context(device: Backend, gpu: int) -> float:
    """Seconds until the GPU can be used; only the first caller in a process pays them."""
    start = perf_counter()
    device.attach(gpu)
    device.release(device.allocate(gpu, 4096))
    return perf_counter() - start


def _measure(
    device: Backend, arena: Arena, found: Found, budget: Budget, listener: Progress
) -> None:
    """Everything but the joint runs."""
    listener.note("calibrating: memory and disk")
    found.setup = costs.setup(device, arena.team, found.gpus, min(arena.size, COST), arena.file)
    for gpu in found.gpus:
        found.allocate[gpu] = costs.allocation(device, gpu, (MIB, 64 * MIB, 256 * MIB))
    found.reads["buffered"] = disk.reads(arena.cold, arena.cold_size, 2, direct=False)
    found.reads["direct"] = disk.reads(arena.cold, arena.cold_size, 2, direct=True)
    found.write_rate = arena.write_rate
    listener.note("calibrating: copies")
    cells: list[Cell] = []
    for gpu in found.gpus:
        cells += arena.link_cells(gpu, ROUNDS)
    cells += arena.peer_cells(found.gpus, 3)
    axes = tables.worker_counts(found.about.cores), tables.ring_sizes(found.about.cores, arena.size)
    for copy in COPIES:
        own = axes if copy in ("file", "memory") else (axes[0], axes[1][1:3] or axes[1])
        cells += arena.table_cells(copy, own, SLICE)
        found.axes[copy] = own
    sample(cells, ROUNDS, deadline=budget.until(0.5))
    found.cells = cells
    found.overhead = {copy: arena.overhead(copy) for copy in COPIES}
    _both_ways(arena, found)


def _both_ways(arena: Arena, found: Found) -> None:
    """Both directions at once; real GPUs tell their link meanwhile, since idle links slow down."""
    for gpu in found.gpus:
        inward, outward = arena.walks(gpu)
        seconds = DUPLEX if found.emulated else LOAD
        with ThreadPoolExecutor(1) as pool:
            busy = pool.submit(copies.duplex, arena.bench, gpu, inward, outward, seconds)
            if not found.emulated:
                sleep(LOAD / 4)
                seen = {one.index: one for one in read_gpus(Path("/")).gpus}
                gpus = tuple(seen[g.index] if g.index == gpu else g for g in found.about.gpus)
                found.about = replace(found.about, gpus=gpus)
            found.duplex[gpu] = busy.result()


def _couple(
    device: Backend,
    arena: Arena,
    machine: Machine,
    found: Found,
    budget: Budget,
    listener: Progress,
) -> Machine:
    """The machine with what DMA leaves of the copies, from runs of the real pipeline."""
    listener.note("calibrating: copies beside DMA")
    runs: list[Joint] = []
    for k, copy in enumerate(COPIES):
        counts = found.axes[copy][0]
        # The kinds left share what is left of the time.
        share = budget.spent() + (1.0 - budget.spent()) / (len(COPIES) - k)
        runs += joint.run(
            device, machine, copy, arena.stock(), counts, deadline=budget.until(share)
        )
    return coupled(machine, runs)
