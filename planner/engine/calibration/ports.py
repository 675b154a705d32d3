"""What links share on their way to the host, from copies of several GPUs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from statistics import median
from typing import TYPE_CHECKING, Final

from planner.engine.calibration import duplex
from planner.machine.schema import Direction, Link, Port

if TYPE_CHECKING:
    from planner.engine.calibration.assemble import Found

WAYS: Final = {"h2d": "forward", "d2h": "backward"}
LEAST: Final = 0.02
"""Interference below which two links do not disturb each other: noise of the rates."""


@dataclass(frozen=True, slots=True)
class _Pairs:
    """What two GPUs reach at once beside what each reaches alone, in one direction."""

    found: Found
    way: str
    alone: Sequence[float]

    def both(self, i: int, j: int) -> float | None:
        """Bytes/s of both in this direction, `None` where it was not measured."""
        cell = self.found.cell("together", self.way, i, j)
        second = None if cell is None else cell.second()
        return None if cell is None or second is None else cell.summary().median + second

    def share(self, i: int, j: int) -> float | None:
        """The same as part of the sum of what they reach alone, 1 at the most."""
        both = self.both(i, j)
        return None if both is None else min(1.0, both / (self.alone[i] + self.alone[j]))

    def across(self, group: Sequence[int]) -> float:
        """Bytes of a link's capacity that a byte of another one's opposite direction takes."""
        taken = []
        for i, j in permutations(group, 2):
            cell = self.found.cell("crossed", self.way, i, j)
            second = None if cell is None else cell.second()
            if cell is not None and second is not None:
                seen = [(cell.summary().median, second)]
                taken.append(duplex.interference(self.alone[i], seen))
        lost = median(taken) if taken else 0.0
        return lost if lost >= LEAST else 0.0


def ports_of(found: Found, links: Mapping[str, Link]) -> tuple[dict[str, Port], dict[str, str]]:
    """What GPUs share on their way to the host: the ports, and each link's port.

    Batches that wait for their thread are a little slower than the links; so what is taken from
    them is the share of their own rates that two of them reach, and what that is of the links'.
    """
    pairs = {
        way: _Pairs(found, way, [found.value("duplex", gpu, way, 0) or 0.0 for gpu in found.gpus])
        for way in WAYS
    }
    if len(found.gpus) < 2 or not all(rate for own in pairs.values() for rate in own.alone):
        return {}, {}
    shared = {way: duplex.shared(own.alone, own.both) for way, own in pairs.items()}
    everybody = tuple(range(len(found.gpus)))
    groups = sorted(set(shared["h2d"] + shared["d2h"]))
    if not groups and any(own.across(everybody) for own in pairs.values()):
        groups = [everybody]
    ports: dict[str, Port] = {}
    owner: dict[str, str] = {}
    for group in groups:
        if any(f"pcie{k}" in owner for k in group):
            continue  # one port a link; the other direction's grouping differs only by noise
        figures: dict[str, float | None] = {}
        for way, side in WAYS.items():
            if group in shared[way]:
                figures[side] = _most(pairs[way], group, links)
            figures[f"{side}_across"] = pairs[way].across(group)
        name = f"uplink{len(ports)}"
        ports[name] = Port(**{key: value for key, value in figures.items() if value})
        owner |= {f"pcie{k}": name for k in group}
    return ports, owner


def _most(pairs: _Pairs, group: Sequence[int], links: Mapping[str, Link]) -> float | None:
    """Bytes/s that two of the group reach together: a wire that three share carries no more."""

    def rate(k: int) -> float:
        link = links.get(f"pcie{k}")
        side: Direction | None = None if link is None else getattr(link, WAYS[pairs.way])
        return pairs.alone[k] if side is None else side.rate

    every = [
        share * (rate(i) + rate(j))
        for i, j in combinations(group, 2)
        if (share := pairs.share(i, j)) is not None
    ]
    return max(every, default=None)
