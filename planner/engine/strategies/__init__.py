"""How each strategy is done: the mirror of `planner/model/strategies`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.strategies.base import Stage
from planner.engine.strategies.disk import READS, WRITES
from planner.engine.strategies.gds import GDS_IN, GDS_OUT
from planner.engine.strategies.gpu_gpu import BETWEEN
from planner.engine.strategies.host_gpu import COPY, INTO_GPU, OUT_OF_GPU
from planner.engine.strategies.in_place import IN_PLACE_IN, IN_PLACE_OUT
from planner.engine.strategies.prefetch import PREFETCH_IN, PREFETCH_OUT
from planner.engine.strategies.registered_chunks import registered_chunks
from planner.engine.strategies.write_combined import from_memory
from planner.errors import UnavailableError
from planner.machine.schema import Disk, Hbm, Machine, Node, Ram
from planner.results import Hop

_UP: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    **INTO_GPU,
    **IN_PLACE_IN,
    **PREFETCH_IN,
    "registered_chunks": registered_chunks,
    "write_combined": from_memory,
}
_DOWN = {**OUT_OF_GPU, **IN_PLACE_OUT, **PREFETCH_OUT}
NAMES: frozenset[str] = frozenset({*READS, *WRITES, *GDS_IN, *GDS_OUT, *_UP, *_DOWN, *BETWEEN})
"""Every strategy that the engine can do."""


def stages_of_hops(machine: Machine, hops: Sequence[Hop]) -> tuple[tuple[Stage, ...], ...]:
    """The stages of each of the hops that run together, in order.

    A mapping alone is copied from, by the CPU; before others it only makes bytes reachable.
    """
    if len(hops) == 1 and hops[0].strategy == "mmap":
        return ((COPY,),)
    rings = [False, *(hop.coupled for hop in hops)]
    return tuple(stages_of(machine, hop, ring=ring) for hop, ring in zip(hops, rings, strict=False))


def stages_of(machine: Machine, hop: Hop, *, ring: bool = False) -> tuple[Stage, ...]:
    """The stages of one hop; none for `mmap`, which only makes bytes reachable.

    `ring` says that the hop before has filled a ring, which this one empties.

    Raises
    ------
    UnavailableError
        If the engine cannot do the hop's strategy between such places.

    """
    found = _found(machine.nodes[hop.start], machine.nodes[hop.end], hop.strategy)
    if ring and hop.strategy == "write_combined" and found is not None:
        return found[1:]  # the ring is filled already
    if found is not None:
        return found
    raise UnavailableError(
        f"the engine cannot do {hop.strategy} from {hop.start} to {hop.end}",
        hint="pin another strategy for the hop",
    )


def _found(start: Node, end: Node, strategy: str) -> tuple[Stage, ...] | None:
    """The stages of a strategy between two places; `None` where the engine has no such way."""
    found: tuple[Stage, ...] | None = None
    match start, end, strategy:
        case Disk(), Ram(), name if name in READS:
            found = READS[name]
        case Ram(), Disk(), name if name in WRITES:
            found = WRITES[name]
        case Disk(), Hbm(device=gpu), name if name in GDS_IN:
            found = GDS_IN[name](gpu)
        case Hbm(device=gpu), Disk(), name if name in GDS_OUT:
            found = GDS_OUT[name](gpu)
        case Ram(), Hbm(device=gpu), name if name in _UP:
            found = _UP[name](gpu)
        case Hbm(device=gpu), Ram(), name if name in _DOWN:
            found = _DOWN[name](gpu)
        case Hbm(device=gpu), Hbm(device=other), name if name in BETWEEN:
            found = BETWEEN[name](gpu, other)
        case _:
            pass
    return found
