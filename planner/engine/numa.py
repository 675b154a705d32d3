"""Workers near their GPU: bound to the cores of its NUMA node where the computer has several.

The ring is touched by the workers that use it, so that its pages come from the same node. With one
node nothing is done: the scheduler moves threads better than a guess does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from planner.machine.system import NumaNode, allowed_cpus, numa_nodes

ROOT: Final = Path("/")


@cache
def nodes(root: Path = ROOT) -> tuple[NumaNode, ...]:
    """The NUMA nodes that have cores for this process."""
    return tuple(node for node in numa_nodes(root, allowed_cpus(root)) if node.cpus)


def cores_near(wanted: Iterable[int | None], found: Iterable[NumaNode]) -> frozenset[int] | None:
    """The cores beside the first GPU of a route whose node is known; `None` for any core.

    Parameters
    ----------
    wanted
        The NUMA nodes of the GPUs on the route, in order; `None` where nobody knows.
    found
        The computer's nodes.

    """
    by_index = {node.index: frozenset(node.cpus) for node in found}
    first = next((index for index in wanted if index is not None), None)
    return by_index.get(first) if len(by_index) > 1 and first is not None else None


def run_on(cores: frozenset[int] | None, job: Callable[[], None]) -> None:
    """Do the job in the calling thread, on these cores only; then it may run where it might before.

    The thread that acts as a team's first worker belongs to the caller, who gets it back as it was.
    """
    if cores is None:
        job()
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        job()
    finally:
        os.sched_setaffinity(0, before)
