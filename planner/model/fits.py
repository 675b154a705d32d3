"""Whether what a way must hold fits, and if not, the number that would."""

from __future__ import annotations

from planner.machine.schema import Hbm, Machine, Ram
from planner.model.need import Need
from planner.model.strategies import Crossing, Strategy
from planner.model.ways import Way
from planner.units import format_size


def does_not_fit(machine: Machine, need: Need, way: Way) -> str | None:
    """Why the bytes do not fit somewhere on the way, or `None`."""
    for crossing, strategy in zip(way.crossings, way.strategies, strict=True):
        reason = (
            _device(machine, need, crossing, strategy)
            or _pinned(need, crossing, strategy)
            or _host(machine, need, crossing)
        )
        if reason is not None:
            return reason
    return None


def _device(machine: Machine, need: Need, crossing: Crossing, strategy: Strategy) -> str | None:
    """A GPU's memory holds all that comes to rest in it; more of managed memory would be evicted.

    What the GPU reads in place never rests there.
    """
    place = machine.nodes[crossing.end]
    if isinstance(place, Hbm) and strategy.resides and need.size > place.capacity:
        return (
            f"{crossing.end} holds {format_size(place.capacity)}, "
            f"the flow has {format_size(need.size)}"
        )
    return None


def _pinned(need: Need, crossing: Crossing, strategy: Strategy) -> str | None:
    """What is page-locked whole stays below the budget; the user's own buffers do not count."""
    where = None
    if strategy.pins_all(crossing) and not strategy.ahead:
        where = crossing.host
    elif crossing.after in ("pinned", "mapped") and crossing.end != need.end:
        where = crossing.end
    if where is not None and need.size > need.pinned_budget:
        return (
            f"it pins {format_size(need.size)} on {where}, "
            f"the budget is {format_size(need.pinned_budget)}"
        )
    return None


def _host(machine: Machine, need: Need, crossing: Crossing) -> str | None:
    """A buffer in host memory that holds everything."""
    place = machine.nodes[crossing.end]
    if not isinstance(place, Ram):
        return None
    room = place.limit or place.capacity
    if crossing.after in ("pageable", "pinned", "managed") and need.size > room:
        return f"{crossing.end} may hold {format_size(room)}, not {format_size(need.size)}"
    return None
