"""How each strategy is done, mirroring `planner/model/strategies` (a test holds the names equal)."""

from __future__ import annotations

from planner.engine.strategies.base import Stage
from planner.engine.strategies.disk import READS, WRITES
from planner.engine.strategies.gpu_gpu import BETWEEN, local, peer
from planner.engine.strategies.host_gpu import INTO_GPU, OUT_OF_GPU
from planner.errors import UnavailableError
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.results import Hop

NAMES: frozenset[str] = frozenset({*READS, *WRITES, *INTO_GPU, *OUT_OF_GPU, *BETWEEN, "mmap"})
"""Every strategy that the engine can do."""


def stages_of(machine: Machine, hop: Hop) -> tuple[Stage, ...]:
    """The stages of one hop; none for `mmap`, which only makes bytes reachable.

    Raises
    ------
    UnavailableError
        If the engine cannot do the hop's strategy between such places.

    """
    start, end = machine.nodes[hop.start], machine.nodes[hop.end]
    if isinstance(start, Disk) and isinstance(end, Ram):
        if hop.strategy == "mmap":
            return ()
        if hop.strategy in READS:
            return (READS[hop.strategy],)
    if isinstance(start, Ram) and isinstance(end, Disk) and hop.strategy in WRITES:
        return (WRITES[hop.strategy],)
    if isinstance(start, Ram) and isinstance(end, Hbm) and hop.strategy in INTO_GPU:
        return INTO_GPU[hop.strategy](end.device)
    if isinstance(start, Hbm) and isinstance(end, Ram) and hop.strategy in OUT_OF_GPU:
        return OUT_OF_GPU[hop.strategy](start.device)
    if isinstance(start, Hbm) and isinstance(end, Hbm):
        if hop.strategy == "peer":
            return peer(start.device, end.device)
        if hop.strategy == "local":
            return local(start.device)
    raise UnavailableError(
        f"the engine cannot do {hop.strategy} from {hop.start} to {hop.end}",
        hint="pin another strategy for the hop",
    )
