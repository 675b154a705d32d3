"""Whether there is room for the ends of a flow, and whether it gathers what lies in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psutil

from planner.engine.backends.base import Backend
from planner.engine.backends.managed_limit import require_managed
from planner.engine.task import Task
from planner.errors import InfeasibleError, UnavailableError
from planner.machine.schema import Hbm, Machine, Ram
from planner.model.need import Need
from planner.model.needs import host_of
from planner.model.strategies import GATHER
from planner.results import Hop
from planner.units import format_size

ROOM: Final = 0.9
"""Share of the free memory that a run may take: the rest of the computer needs some too."""


def require_gathering(task: Task) -> None:
    """Raise `UnavailableError` where pieces would have to be gathered by who does not do it."""
    first = task.hops[0]
    if task.layout is not None and first.strategy not in GATHER:
        raise UnavailableError(
            f"flow {task.need.name}: {first.strategy} does not gather the "
            f"{len(task.layout)} pieces that the bytes lie in",
            hint=f"pin one of {', '.join(sorted(GATHER))} on {first.start} -> {first.end}",
        )


def require_memory(
    backend: Backend, machine: Machine, need: Need, kept: int = 1, source: int | None = None
) -> None:
    """Raise `InfeasibleError` where host memory has no room for the ends (and emulated GPUs).

    The target holds `kept` repeats; the source has the flow's bytes unless it has `source`.
    """
    nodes = [machine.nodes[name] for name in (need.start, need.end)]
    held_at = (need.size if source is None else source, need.size * kept)
    in_ram = (Ram, Hbm) if backend.emulated else (Ram,)
    held = sum(n for n, node in zip(held_at, nodes, strict=True) if isinstance(node, in_ram))
    free = free_memory(host_of(machine, need.start, need.end))
    if held > free * ROOM:
        raise InfeasibleError(
            f"flow {need.name} needs {format_size(held)} of host memory, "
            f"{format_size(free)} are free",
            hint="take a smaller size (--set)",
        )
    for size, node in zip(held_at, nodes, strict=True):
        if isinstance(node, Hbm) and not backend.emulated:
            left = backend.free_memory(node.device)
            if left is not None and size > left:
                raise InfeasibleError(
                    f"flow {need.name} needs {format_size(size)} on gpu{node.device}, "
                    f"{format_size(left)} are free"
                )


def require_pages(backend: Backend, machine: Machine, task: Task) -> None:
    """Raise `InfeasibleError` where more managed memory is asked for than a GPU should hold."""
    ends = {task.need.first, task.need.last}
    names = {hop.strategy for hop in task.hops}
    if "managed" in ends or names & {"managed", "prefetch", "managed_host"}:
        gpu = managing_gpu(machine, task.hops)
        require_managed(gpu, task.need.size * task.kept, backend.free_memory(gpu))


def managing_gpu(machine: Machine, hops: Sequence[Hop]) -> int:
    """The GPU for which managed memory is made: one on the way, else the machine's first."""
    nodes = [machine.nodes[name] for hop in hops for name in (hop.start, hop.end)]
    gpus = [node.device for node in (*nodes, *machine.nodes.values()) if isinstance(node, Hbm)]
    if not gpus:
        raise InfeasibleError(f"{machine.name} has no GPU: there is no managed memory")
    return gpus[0]


def free_memory(host: Ram) -> int:
    """Bytes of host memory that may still be taken.

    A guest whose memory grows with use shows less than it may have (31 GB total where 255 GB could
    be used, measured 2026-11-29), so a larger limit that the machine file has seen is believed.
    """
    memory = psutil.virtual_memory()
    limit = host.limit if host.limit is not None else memory.total
    return int(max(0, max(limit, memory.total) - (memory.total - memory.available)))


def over(limit: int | None, size: int) -> bool:
    """Whether so many bytes are more than the limit, if there is one."""
    return limit is not None and size > limit
