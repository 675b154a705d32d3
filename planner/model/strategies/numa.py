"""Pinned memory of one socket and a GPU at another: the copy engine reaches across.

The bytes do not rest on the way: one copy takes the link between the sockets and the GPU's own
link at once, at the pace of the slower of the two.
"""

from __future__ import annotations

from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.servers import wire_charges


def _lacks(crossing: Crossing) -> str | None:
    if crossing.wire.kind != "interconnect":
        return f"{crossing.link} is no link between sockets"
    return None


def _stages(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """The link between the sockets, behind a GPU's link where the bytes come from a GPU."""
    rate = crossing.direction.rate
    return (
        Stage(
            crossing.resource,
            "engine",
            lambda length: length / rate,
            charges=wire_charges(crossing, 1 / rate),
            through=crossing.before == "far",
        ),
    )


_ACROSS, _FAR = ("ram", "ram"), kinds("far")

NUMA: tuple[Strategy, ...] = (
    Strategy("numa", _ACROSS, kinds("pinned", "mapped", "fill"), _FAR, _lacks, _stages, nothing),
    Strategy(
        "numa",
        _ACROSS,
        _FAR,
        kinds("pinned", "mapped"),
        _lacks,
        _stages,
        nothing,
        ends=kinds("mapped"),
    ),
)
