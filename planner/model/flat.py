"""How flat the optimum is: shapes around the chosen one that take hardly longer, setup included.

A range is told for each number, and whoever reads it may combine them, so it is a box of which the
corners are looked at: the time is flat around its optimum and rises on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from planner.model.choose import Candidate, setup_of, steady_of
from planner.model.known import Answers, movement_key, need_key
from planner.model.need import Need
from planner.model.shapes import allowed
from planner.model.strategies import Shape
from planner.units import format_size
from planner.wording import counted

NEAR: Final = 0.01
"""What such a shape may take longer than the chosen one, as a share of that."""
MOST_TRIED: Final = 96
"""Shapes that are looked at; a box that could grow on is told as far as it was seen."""

Box = tuple[tuple[int, int], ...]
"""The lowest and the highest place of chunk, depth and workers among those that are allowed."""


_known: Answers[str | None] = Answers()


def neighbourhood(need: Need, candidate: Candidate) -> str | None:
    """`4 – 8 MiB chunks, 12 – 16 workers, depth 2`; `None` where nothing else does as well.

    Worked out once for all flows that are alike.
    """
    kept: list[object] = []
    movements = tuple(movement_key(one, kept) for one in candidate.way.movements)
    key = movements, candidate.shapes, need_key(need)
    return _known[key] if key in _known else _known.keep(key, _around(need, candidate), kept)


def _around(need: Need, candidate: Candidate) -> str | None:
    movements = candidate.way.movements
    at = next((i for i in reversed(range(len(movements))) if not movements[i].single), None)
    if at is None:
        return None
    shapes = allowed(movements[at], need)
    chosen = candidate.shapes[at]
    if isinstance(shapes, str) or chosen not in shapes:
        return None
    axes = [sorted({_numbers(s)[k] for s in shapes}) for k in range(3)]
    limit = (1 + NEAR) * _duration(need, candidate, at, chosen)
    known = {chosen: True}
    there = set(shapes)

    def holds(shape: Shape) -> bool:
        if shape not in known:
            fits = shape in there and len(known) < MOST_TRIED
            known[shape] = fits and _duration(need, candidate, at, shape) <= limit
        return known[shape]

    start = [axis.index(number) for axis, number in zip(axes, _numbers(chosen), strict=True)]
    box = _grown(axes, tuple((k, k) for k in start), holds)
    return _in_words([(axis[a], axis[b]) for axis, (a, b) in zip(axes, box, strict=True)])


def _numbers(shape: Shape) -> tuple[int, int, int]:
    return shape.chunk, shape.depth, shape.workers


def _duration(need: Need, candidate: Candidate, at: int, shape: Shape) -> float:
    """Seconds that the flow takes alone in another shape; long runs by their first rounds."""
    way = candidate.way
    shapes = (*candidate.shapes[:at], shape, *candidate.shapes[at + 1 :])
    steady = steady_of(need, way.movements, shapes, rough=True)
    setup = setup_of(way.crossings[0].machine, need, way, shapes)
    return Candidate(way, shapes, steady, setup).duration(need.repeat)


def _grown(axes: Sequence[Sequence[int]], box: Box, holds: Callable[[Shape], bool]) -> Box:
    """The box one step larger at a time, wherever all of its corners hold."""
    grows = True
    while grows:
        grows = False
        for k, step in product(range(len(axes)), (-1, 1)):
            low, high = box[k]
            larger = (low - 1, high) if step < 0 else (low, high + 1)
            if larger[0] < 0 or larger[1] >= len(axes[k]):
                continue
            tried = (*box[:k], larger, *box[k + 1 :])
            if all(holds(Shape(*corner)) for corner in _corners(axes, tried)):
                box, grows = tried, True
    return box


def _corners(axes: Sequence[Sequence[int]], box: Box) -> list[tuple[int, ...]]:
    ends = [sorted({axis[a], axis[b]}) for axis, (a, b) in zip(axes, box, strict=True)]
    return list(product(*ends))


def _in_words(spans: Sequence[tuple[int, int]]) -> str | None:
    (least, most), depths, (few, many) = spans
    if all(low == high for low, high in spans):
        return None
    who = counted(many, "worker")
    return (
        f"{_span(format_size(least), format_size(most))} chunks, "
        f"{who if few == many else f'{few} – {who}'}, depth {_span(*depths)}"
    )


def _span(low: object, high: object) -> str:
    return f"{low}" if low == high else f"{low} – {high}"
