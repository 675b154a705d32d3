"""Whether this computer does under a strategy's name what the name says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from planner.engine.backends.base import Backend
from planner.engine.strategies.write_combined import read_rate, remark
from planner.errors import UnavailableError
from planner.machine.schema import Hbm, Machine
from planner.results import Hop


def hops_here(device: Backend, machine: Machine, hops: Sequence[Hop]) -> list[str]:
    """Look at the hops of a run before anything moves; returns what people should know.

    Raises
    ------
    UnavailableError
        A copy shall go through the host between GPUs that reach each other already.

    """
    told = None
    if any(hop.strategy == "write_combined" for hop in hops):
        told = remark(read_rate(device.combined))
    if any(hop.strategy == "host_staged" for hop in hops):
        nodes = [machine.nodes[name] for hop in hops for name in (hop.start, hop.end)]
        gpus = sorted({node.device for node in nodes if isinstance(node, Hbm)})
        for gpu, peer in combinations(gpus, 2):
            if device.peer_is_open(gpu, peer):
                raise UnavailableError(
                    f"host_staged: devices {gpu} and {peer} have peer access to each other already",
                    hint="whoever uses the GPUs in this process should close it first",
                )
    return [] if told is None else [told]
