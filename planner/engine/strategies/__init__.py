"""How each strategy is done: the mirror of `planner/model/strategies`."""

from __future__ import annotations

from planner.engine.strategies.base import Stage
from planner.engine.strategies.disk import READS, WRITES
from planner.engine.strategies.gpu_gpu import BETWEEN
from planner.engine.strategies.host_gpu import INTO_GPU, OUT_OF_GPU
from planner.errors import UnavailableError
from planner.machine.schema import Disk, Hbm, Machine, Node, Ram
from planner.results import Hop

NAMES: frozenset[str] = frozenset({*READS, *WRITES, *INTO_GPU, *OUT_OF_GPU, *BETWEEN})
"""Every strategy that the engine can do."""


def stages_of(machine: Machine, hop: Hop) -> tuple[Stage, ...]:
    """The stages of one hop; none for `mmap`, which only makes bytes reachable.

    Raises
    ------
    UnavailableError
        If the engine cannot do the hop's strategy between such places.

    """
    found = _found(machine.nodes[hop.start], machine.nodes[hop.end], hop.strategy)
    if found is not None:
        return found
    raise UnavailableError(
        f"the engine cannot do {hop.strategy} from {hop.start} to {hop.end}",
        hint="pin another strategy for the hop",
    )


def _found(start: Node, end: Node, strategy: str) -> tuple[Stage, ...] | None:
    """The stages of a strategy between two places; `None` where the engine has no such way."""
    match start, end, strategy:
        case Disk(), Ram(), name if name in READS:
            return READS[name]
        case Ram(), Disk(), name if name in WRITES:
            return WRITES[name]
        case Ram(), Hbm(device=gpu), name if name in INTO_GPU:
            return INTO_GPU[name](gpu)
        case Hbm(device=gpu), Ram(), name if name in OUT_OF_GPU:
            return OUT_OF_GPU[name](gpu)
        case Hbm(device=gpu), Hbm(device=other), name if name in BETWEEN:
            return BETWEEN[name](gpu, other)
        case _:
            return None
