"""Which points of a sweep stand out: the best, the smallest that is enough, and the near best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from planner.plan.matrix import Axis, magnitude
from planner.plan.settings import MACHINE_PARTS
from planner.results.sweep import SweepMetric, SweepPick, SweepPoint

NEAR: Final = 1.01
"""Within 1 % of the best counts as good as it: predictions are no finer."""

By = Literal["price", "hosts", "gpus", "figures", "ring", "metric", "only"]


class _Size(NamedTuple):
    """How large a point is, by what is compared first; the fields are named in `By`.

    What is pinned without a ring (a whole file, say) counts as much as a ring of its size.
    """

    price: float
    hosts: int
    gpus: int
    figures: int
    ring: int
    metric: float


class Picks(NamedTuple):
    """The index of the best point, and the two picks, where there are any."""

    best: int | None
    smallest: SweepPick | None
    near_best: SweepPick | None


def picks(points: Sequence[SweepPoint], axes: Sequence[Axis], metric: SweepMetric) -> Picks:
    """What stands out among the points that can be done."""
    known = {each.index: each for each in points if each.feasible and each.value is not None}
    if not known:
        return Picks(None, None, None)
    sizes = _sizes(known, axes, metric)
    met = [i for i, each in known.items() if each.met]
    stated = any(each.objectives for each in known.values())
    open_ones = [i for i, each in known.items() if each.met is None]
    among = met or open_ones or list(known)
    best = min(among, key=lambda i: (sizes[i].metric, i))
    near = [i for i in among if _within(sizes[i].metric, sizes[best].metric)]
    smallest = _smallest(met, sizes) if stated and met else None
    return Picks(best, smallest, _smallest(near, sizes))


def _within(value: float, best: float) -> bool:
    """Whether a metric is within 1 % of the best; less is better here, as `_sizes` turns it."""
    return value <= best + abs(best) * (NEAR - 1)


def _sizes(
    points: Mapping[int, SweepPoint], axes: Sequence[Axis], metric: SweepMetric
) -> dict[int, _Size]:
    """The size of each point. A price counts only where every machine has one."""
    priced = all(each.price_per_hour is not None for each in points.values())
    ranks = _ranks(axes)
    sign = 1.0 if metric.better == "less" else -1.0
    return {
        index: _Size(
            price=(each.price_per_hour or 0.0) if priced else 0.0,
            hosts=each.hosts or 0,
            gpus=each.gpus or 0,
            figures=sum(ranks[key][each.settings[key]] for key in ranks),
            ring=max(each.ring_bytes or 0, each.pinned_bytes or 0),
            metric=sign * (each.value or 0.0),
        )
        for index, each in points.items()
    }


def _ranks(axes: Sequence[Axis]) -> dict[str, dict[str, int]]:
    """For each figure of the machine that changes: its values by size. A slower link is less."""
    found = {}
    for axis in axes:
        if axis.key.partition(".")[0] not in MACHINE_PARTS or "." not in axis.key:
            continue
        sizes = {value: magnitude(value) for value in axis.values}
        if None not in sizes.values():
            ordered = sorted(sizes, key=lambda value: sizes[value] or 0.0)
            found[axis.key] = {value: rank for rank, value in enumerate(ordered)}
    return found


def _smallest(among: Sequence[int], sizes: Mapping[int, _Size]) -> SweepPick:
    """The smallest of the points, and the size that tells it from the next one."""
    chosen, *others = sorted(among, key=lambda i: (sizes[i], i))
    fields: tuple[By, ...] = ("price", "hosts", "gpus", "figures", "ring", "metric")
    if not others:
        return SweepPick(point=chosen, by="only")
    for place, name in enumerate(fields):
        if sizes[others[0]][place] != sizes[chosen][place]:
            return SweepPick(point=chosen, by=name)
    return SweepPick(point=chosen, by="metric")
