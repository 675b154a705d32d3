"""The link between two GPUs: how fast their copies are, and what lies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.engine.calibration.lone import rested
from planner.machine.curve import Curve
from planner.machine.discover_pairs import GpuPair
from planner.machine.nominal import PCIE_LANE, nominal_rate
from planner.machine.schema import CurveName, Direction, Link, LinkKind

if TYPE_CHECKING:
    from planner.engine.calibration.assemble import Found


def between(found: Found, i: int, j: int) -> Link | None:
    """The link between two GPUs: with peer access, or staged through the host by the driver."""
    one, other = found.gpus[i], found.gpus[j]
    directions: list[Direction | None] = []
    access = False
    for a, b in ((one, other), (other, one)):
        curves: dict[CurveName, Curve] = {}
        if (curve := rested(f"peer{a}-{b}", found.cells)) is not None:
            curves["peer"] = curve
            access = True
        if (curve := rested(f"apart{a}-{b}", found.cells)) is not None:
            curves["peer_off"] = curve
        best = max((c.rate for c in curves.values()), default=0.0)
        directions.append(Direction(rate=best, curves=curves) if curves else None)
    if directions == [None, None]:
        return None
    pair = next((p for p in found.pairs if {p.first, p.second} == {one, other}), None)
    rate = max(way.rate for way in directions if way is not None)
    kind: LinkKind = "interconnect"
    if not found.emulated:
        kind = "nvlink" if _by_nvlink(pair, rate, _widest(found, one, other)) else "pcie"
    wide = pair if kind == "nvlink" and pair is not None and pair.nvlinks else None
    return Link(
        kind=kind,
        ends=(f"gpu{i}", f"gpu{j}"),
        forward=directions[0],
        backward=directions[1],
        generation=wide.generation if wide else None,
        width=wide.nvlinks if wide else None,
        peer_access=access,
    )


def _by_nvlink(pair: GpuPair | None, rate: float, pcie: float) -> bool:
    """Whether NVLink joins two GPUs: as the driver says, else whether PCIe is too slow for it.

    GPUs without NVLinks refuse the question as those do whose driver hides them.
    """
    return rate > pcie if pair is None or pair.nvlinks is None else pair.nvlinks > 0


def _widest(found: Found, *gpus: int) -> float:
    """Bytes/s that PCIe can carry between the GPUs; of any generation where theirs is not known."""
    known = [found.device(gpu) for gpu in gpus]
    rates = [nominal_rate("pcie", g.max_generation, g.max_width) for g in known if g is not None]
    return min((rate for rate in rates if rate is not None), default=16 * max(PCIE_LANE.values()))
