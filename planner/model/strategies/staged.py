"""Pageable host memory and a GPU through a pinned ring of our own; scattered pieces are packed."""

from __future__ import annotations

from planner.machine.schema import CopyName
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.copying import copy_stage, has_copies, least_copy
from planner.model.strategies.pinned import DOWN, UP, engine, no_engine
from planner.model.strategies.servers import without_pieces


def _table(crossing: Crossing) -> CopyName:
    return "memory" if crossing.inward else "save_memory"


def _lacks(crossing: Crossing) -> str | None:
    if not has_copies(crossing, _table(crossing)):
        return f"{crossing.host} has no measured copies between memory and a ring"
    if crossing.before == "mapping" and crossing.ram.setup.map_touch is None:
        return f"{crossing.host} has no measured page faults of mappings"
    if crossing.before in ("pinned", "mapped") and not crossing.pieces:
        return "the buffer is pinned and in one piece: a ring would only copy it once more"
    return no_engine(crossing)


def _stages(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    table = crossing.ram.copy_rates[_table(crossing)]
    packed = without_pieces(crossing)
    if crossing.inward:
        copy = copy_stage(crossing, table, shape, shape.ring, dma=True)
        return (copy, *engine(packed, shape))
    # The engine takes the pieces one by one, and leaves them packed in the ring.
    return (*engine(crossing, shape), copy_stage(packed, table, shape, shape.ring, dma=True))


def _least(crossing: Crossing) -> float:
    source = crossing if crossing.inward else without_pieces(crossing)
    return least_copy(source, crossing.ram.copy_rates[_table(crossing)], None, dma=True)


H2D = Strategy(
    "staged",
    UP,
    kinds("pageable", "mapping", "pinned", "mapped", "managed"),
    kinds("device"),
    _lacks,
    _stages,
    nothing,
    own_ring=True,
    least=_least,
    starts=kinds("pinned", "mapped", "managed"),
)
D2H = Strategy(
    "staged",
    DOWN,
    kinds("device"),
    kinds("pageable", "managed"),
    _lacks,
    _stages,
    nothing,
    own_ring=True,
    least=_least,
    ends=kinds("managed"),
)
