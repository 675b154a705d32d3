"""Measure this computer and write down what was found, as a machine."""

from __future__ import annotations

import contextlib
import logging
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from planner.arguments import one_of
from planner.engine.backends import Backend, open_backend
from planner.engine.backends.cuda_present import missing
from planner.engine.calibration.arena import Arena, open_arena
from planner.engine.calibration.assemble import Found, machine_of
from planner.engine.calibration.campaign import Campaign, Group
from planner.engine.calibration.duplex import FULL as ALWAYS, Background
from planner.engine.calibration.groups import Plan, axes_of
from planner.engine.calibration.ledger import Ledger
from planner.engine.calibration.relink import relinked, wanted_link
from planner.engine.calibration.rounds import Cell, merged
from planner.engine.calibration.scope import FULL, QUICK, Scope
from planner.engine.calibration.sentinel import LINK, MEMORY, Sentinel
from planner.engine.calibration.settled import settled
from planner.engine.calibration.shown import devices, seen_again
from planner.engine.memory import copy_memory
from planner.engine.progress import Progress, Quiet
from planner.engine.waits import SWITCH_S
from planner.errors import InputError, UnavailableError
from planner.machine.discover import discover
from planner.machine.made import FULL as FULL_BY, QUICK as QUICK_BY
from planner.machine.schema import Hbm, Machine

_LOG: Final = logging.getLogger(__name__)
MIB: Final = 1 << 20
SECONDS: Final = QUICK.seconds
"""Of a quick calibration."""
LOAD: Final = 0.1
"""Seconds of load before the driver is asked for the state of a link: one that idles retrains
within some ten milliseconds."""
AWAKE: Final = 0.2
"""Seconds of a kernel that wake the clocks of a GPU: an idle one runs at a fifth of its clock."""
PROBE: Final = 64 * MIB
"""Bytes of a sentinel's copy to the GPU, and half of those of its copy in memory."""
GLANCE: Final = 8 * MIB
"""The same where time is short: about 3 ms a look."""
START: Final = "start"
"""Name of the group of what can be sampled once only: fresh memory, contexts, the first write."""


def backend_name(backend: str) -> str:
    """`cuda` or `host`: what `auto` stands for on this computer.

    Raises `InputError` for another name, `UnavailableError` for cuda where something is missing.
    """
    one_of("backend", backend, ("auto", "cuda", "host"))
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


@dataclass(frozen=True)
class Job:
    """What one calibration is to do; `start` is when it began, on the clock of `perf_counter`."""

    backend: str
    folder: Path
    scope: Scope
    ledger: Ledger
    listener: Progress
    start: float
    name: str = "here"


def calibrate(
    *,
    emulate_gpus: int | None = None,
    backend: str = "auto",
    scratch: Path | None = None,
    progress: Progress | None = None,
    seconds: float | None = None,
    full: bool = False,
    ledger: Ledger | None = None,
) -> Machine:
    """This computer as a machine in which every number was measured now.

    Parameters
    ----------
    emulate_gpus
        How many GPUs to stand in for in RAM; 1 unless given. Only on the host backend.
    backend
        `cuda`, `host`, or `auto`: cuda where a device is.
    scratch
        A folder on the disk to measure.
    progress
        Told what is being measured.
    seconds
        Time to take, roughly; what every prediction needs is measured at least once.
    full
        Measure everything, many times: three minutes.
    ledger
        Where samples are kept; groups that it has already are not measured again.

    Raises
    ------
    InputError
        There is no such backend or folder.
    UnavailableError
        The backend needs what this computer lacks, or emulated GPUs are asked for on a real one.
    InfeasibleError
        There is no room for the buffers or the scratch file.

    """
    start = perf_counter()
    chosen = backend_name(backend)
    if emulate_gpus is not None and chosen == "cuda":
        raise UnavailableError(
            "emulated GPUs need the host backend", hint="give --backend host with --emulate-gpus"
        )
    scope = FULL if full else QUICK
    if seconds is not None:
        scope = replace(
            scope, seconds=seconds, cold_s=scope.cold_s * min(1.0, seconds / scope.seconds)
        )
    job = Job(
        chosen, scratch_folder(scratch), scope, ledger or Ledger(), progress or Quiet(), start
    )
    with _measured(job, emulate_gpus, lambda _group: True) as found:
        return settled(machine_of(found, job.folder), found.cells)


def recalibrate_link(
    machine: Machine,
    link: str,
    *,
    backend: str = "auto",
    scratch: Path | None = None,
    progress: Progress | None = None,
    full: bool = False,
) -> Machine:
    """The calibrated `machine` with one link measured again; all else keeps its numbers and dates.

    Parameters
    ----------
    machine
        This computer, as an earlier calibration found it.
    link
        Name of the link, or its ends: `pcie0`, `host0->gpu0`.
    backend, scratch, progress, full
        As for `calibrate`.

    Raises
    ------
    InputError
        If the machine has no such link, or none that is measured here.

    """
    start = perf_counter()
    name = wanted_link(machine, link)
    scope = FULL if full else QUICK
    job = Job(
        backend_name(backend),
        scratch_folder(scratch),
        scope,
        Ledger(),
        progress or Quiet(),
        start,
        machine.name,
    )
    count = sum(isinstance(node, Hbm) for node in machine.nodes.values())
    emulate = count if job.backend == "host" else None
    with _measured(job, emulate, lambda group: group.link == name) as found:
        return relinked(machine, name, found)


@contextlib.contextmanager
def _measured(
    job: Job, emulate_gpus: int | None, wanted: Callable[[Group], bool]
) -> Iterator[Found]:
    """What the wanted groups of cells found."""
    if job.backend == "cuda":
        about, pairs, gpus = devices(job.folder)
    else:
        about, pairs, gpus = discover(job.folder), (), list(range(emulate_gpus or 1))
    with _started(job.backend, gpus) as future, _quick_switches():

        def device() -> Backend:
            backend, _ = future.result()
            backend.attach(gpus[0])  # in this thread too
            return backend

        with open_arena(device, gpus, job.folder, about.cores, job.scope, job.listener) as arena:
            backend, context = future.result()
            found = Found(job.name, about, gpus, emulated=backend.emulated, pairs=pairs)
            found.by = FULL_BY if job.scope.full else QUICK_BY
            found.when = datetime.now(tz=UTC).date().isoformat()
            found.host = platform.node()
            _wake(backend, arena, found)
            found.cells = _start_cells(job.ledger, [*arena.first, *context], found.when)
            _sample(job, arena, found, backend, wanted)
            yield found


def _sample(
    job: Job, arena: Arena, found: Found, backend: Backend, wanted: Callable[[Group], bool]
) -> None:
    """Run the campaign, and put what it found beside what was there."""
    found.axes = axes_of(arena, found.about.cores)
    first = found.cells

    def so_far() -> Machine:
        cells = [cell for group in job.ledger.groups.values() for cell in group]
        return machine_of(replace(found, cells=merged(c for c in cells if c.taken)), job.folder)

    plan = Plan(backend, arena, found.gpus, found.axes, so_far)
    every = plan.groups()
    groups = [group for group in every if wanted(group)]
    scope = job.scope
    seconds = scope.seconds
    if len(groups) < len(every):  # one link: as long as its groups take, and no longer
        own = sum(group.weight for group in groups)
        seconds = min(seconds, perf_counter() - job.start + own + scope.reserve / 3)
    campaign = Campaign(
        start=job.start,
        seconds=seconds,
        reserve=min(scope.reserve, seconds / 10),
        ledger=job.ledger,
        listener=job.listener,
        sentinels=_sentinels(arena) if scope.full else (),
        marks=() if scope.full else _sentinels(arena, GLANCE),
    )
    _LOG.info("the start took %.2f s", perf_counter() - job.start)
    found.cells = merged([*first, *campaign.run(groups)])
    found.steadiness = campaign.steadiness()
    redone = sum(cell.redone > 0 for cell in found.cells)
    if redone:
        found.note = f"{redone} of {len(found.cells)} cells were disturbed and taken again"


def _start_cells(ledger: Ledger, cells: Sequence[Cell], when: str) -> list[Cell]:
    """What can be sampled once only: of the first start where a calibration is gone on with."""
    if START not in ledger.groups:
        ledger.keep(START, cells, when)
    return ledger.groups[START]


def _sentinels(arena: Arena, probe: int = PROBE) -> list[Sentinel]:
    """A copy to the first GPU, and a copy in memory by one thread."""
    gpu = min(arena.devices)
    walk = arena.walks(gpu)[0]
    size = min(probe, arena.size)
    half = min(2 * probe, arena.size)

    def link() -> float:
        return min(arena.bench.copies(gpu, walk.pairs(1, size), size) for _ in range(3))

    def memory() -> float:
        start = perf_counter()
        copy_memory(arena.pinned.address, arena.pageable.address, half)
        return perf_counter() - start

    return [Sentinel(LINK, link), Sentinel(MEMORY, memory)]


def _wake(backend: Backend, arena: Arena, found: Found) -> None:
    """Wake clocks and links, and ask the driver for the state of the links while they work.

    An idle GPU shows the slowest generation of its link.
    """
    for k, gpu in enumerate(found.gpus):
        if not backend.emulated and arena.scope.full:
            backend.compute(gpu, lambda: None)(AWAKE)
        inward, outward = arena.opposite(gpu)
        with Background(inward, ALWAYS), Background(outward, ALWAYS):
            sleep(LOAD)
            if not backend.emulated:
                found.about = seen_again(found.about, gpu)
        if backend.emulated and k == 0:
            return  # emulated links do not sleep


@contextlib.contextmanager
def _quick_switches() -> Iterator[None]:
    """Let the interpreter switch threads as often as it does in a run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


_Started = Future[tuple[Backend, list[Cell]]]


@contextlib.contextmanager
def _started(name: str, gpus: Sequence[int]) -> Iterator[_Started]:
    """The backend with a context on each GPU, made by a thread while files and memory are made.

    Making contexts takes up to seconds, most of them outside the interpreter.
    """
    opened: list[Backend] = []

    def work() -> tuple[Backend, list[Cell]]:
        device = open_backend(name)
        opened.append(device)
        return device, [_context(device, gpu) for gpu in gpus]

    with ThreadPoolExecutor(1, "calibration start") as pool:
        try:
            yield pool.submit(work)
        finally:
            pool.shutdown(wait=True)
            for device in opened:
                device.close()


def _context(device: Backend, gpu: int) -> Cell:
    """Seconds until the GPU can be used; only the first caller in a process pays them."""
    start = perf_counter()
    device.attach(gpu)
    device.release(device.allocate(gpu, 4096))
    return Cell(("context", gpu), None, clean=[perf_counter() - start])
