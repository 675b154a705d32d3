"""Host memory to a GPU through a ring of write-combined memory, which the CPU only ever fills.

The CPU's stores pass by its cache, so no line is read before it is written: such a ring beats an
ordinary one where that one does not fit into the cache, and loses where it does.
"""

from __future__ import annotations

from planner.machine.schema import CopyName
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.copying import copy_stage, has_copies
from planner.model.strategies.servers import dma, without_pieces
from planner.model.strategies.unmeasured import COMBINED, unmeasured


def not_combined(crossing: Crossing, table: CopyName) -> str | None:
    """Why write-combined memory is of no use on this host, or `None`."""
    if crossing.ram.write_combined is False and "write_combined" not in crossing.asked:
        return f"write-combined memory is ordinary memory on {crossing.host}: nothing is gained"
    if not has_copies(crossing, table):
        return unmeasured(crossing.host, COMBINED)
    return None


def _lacks(crossing: Crossing) -> str | None:
    if crossing.curve("write_combined", "pinned") is None:
        return f"{crossing.resource} has no measured copies from write-combined memory"
    return None if crossing.before == "wc" else not_combined(crossing, "memory_wc")


def _engine(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = crossing.curve("write_combined", "pinned")
    return (dma(without_pieces(crossing), curve, shape),) if curve else ()


def _own_ring(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    table = crossing.ram.copy_rates["memory_wc"]
    copy = copy_stage(crossing, table, shape, shape.ring, dma=True)
    return (copy, *_engine(crossing, shape))


FROM_RING = Strategy(
    "write_combined", ("ram", "hbm"), kinds("wc"), kinds("device"), _lacks, _engine, nothing
)
FROM_MEMORY = Strategy(
    "write_combined",
    ("ram", "hbm"),
    kinds("pageable"),
    kinds("device"),
    _lacks,
    _own_ring,
    nothing,
    own_ring=True,
    starts=kinds("pageable"),
)
