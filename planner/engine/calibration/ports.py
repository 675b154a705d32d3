"""Which links share a wire on their way to the host, from copies of several GPUs at once."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from planner.engine.calibration import duplex
from planner.machine.schema import Port

if TYPE_CHECKING:
    from planner.engine.calibration.assemble import Found


def ports_of(found: Found) -> tuple[dict[str, Port], dict[str, str]]:
    """What GPUs share on their way to the host: the ports, and each link's port."""
    count = len(found.gpus)
    alone = {
        way: [found.value("duplex", gpu, way, 0) or 0.0 for gpu in found.gpus]
        for way in ("h2d", "d2h")
    }

    def pair(way: str, i: int, j: int) -> float | None:
        cell = found.cell("together", way, i, j)
        second = None if cell is None else cell.second()
        return None if cell is None or second is None else cell.summary().median + second

    if count < 2 or not all(alone["h2d"]) or not all(alone["d2h"]):
        return {}, {}
    shared = {
        way: duplex.shared(rates, lambda i, j, way=way: pair(way, i, j))  # type: ignore[misc]
        for way, rates in alone.items()
    }
    ports: dict[str, Port] = {}
    owner: dict[str, str] = {}
    for group in sorted(set(shared["h2d"] + shared["d2h"])):
        if any(f"pcie{k}" in owner for k in group):
            continue  # one port a link; the other direction's grouping differs only by noise

        def most(way: str, group: tuple[int, ...] = group) -> float | None:
            """What two of them reach together: a wire that three share carries no more."""
            if group not in shared[way]:
                return None
            return max(pair(way, i, j) or 0.0 for i, j in combinations(group, 2)) or None

        name = f"uplink{len(ports)}"
        ports[name] = Port(forward=most("h2d"), backward=most("d2h"))
        owner |= {f"pcie{k}": name for k in group}
    return ports, owner
