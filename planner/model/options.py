"""What one flow could do besides what is best for it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement, Lane, alone
from planner.model.choose import Candidate, Decision, evaluate
from planner.model.known import movement_key, need_key
from planner.model.need import Need
from planner.model.shapes import CACHE_SHARE, CHUNKS, WORKERS
from planner.model.strategies import Shape

BEST_WAYS = 4
"""Ways of each flow that are looked at together with other flows."""
SLOWEST = 4.0
"""A way that takes so many times the best one's time alone cannot be made up for by sharing."""
FEWER = (2, 4, 8)
"""Divisors of the workers and of the ring: shares of two, four and eight flows."""


def other_ways(need: Need, decision: Decision) -> list[Arrangement]:
    """The best few of the other ways, each at its own best shape.

    One that ends in one call is among them: it waits for an engine once, where every chunk of
    another waits whenever somebody's call is before it.
    """
    limit = SLOWEST * decision.best.duration(need.repeat)
    near = [c for c in decision.others if c.duration(need.repeat) <= limit]
    if decision.best.spaced(need):
        near = [c for c in near if c.spaced(need)]
    few, further = near[: BEST_WAYS - 1], near[BEST_WAYS - 1 :]
    if not any(_ends_in_one_call(c) for c in (decision.best, *few)):
        few += [c for c in further if _ends_in_one_call(c)][:1]
    return [alone(need, candidate) for candidate in few]


def _ends_in_one_call(candidate: Candidate) -> bool:
    last, shape = candidate.way.movements[-1], candidate.shapes[-1]
    return last.size > 0 and all(stage.whole for stage in last.stages(shape))


def smaller(machine: Machine, need: Need, candidate: Candidate) -> Iterator[Arrangement]:
    """The same way with fewer workers, and with a smaller ring."""
    workers = max((s.workers for s in candidate.shapes), default=1)
    tries = [replace(need, cores=max(1, workers // k)) for k in FEWER if workers > 1]
    if candidate.ring:
        tries += [replace(need, pinned_budget=max(1, candidate.ring // k)) for k in FEWER]
    for other in tries:
        found = evaluate(machine, other, candidate.way)
        if not isinstance(found, str):
            yield Arrangement((Lane(need, found),))


def one_at_a_time(
    options: Mapping[int, Sequence[Arrangement]], *, alike: bool
) -> Iterator[dict[int, Arrangement]]:
    """Every option of each flow, by the flows' numbers; of all together that are `alike`, if so.

    One after another, equal flows would come apart where not all can be tried.
    """
    firsts = {number: own[0] for number, own in options.items()}
    for group in _same_kind(firsts) if alike else [[number] for number in options]:
        for several in zip(*(options[number] for number in group), strict=False):
            yield dict(zip(group, several, strict=True))


def _same_kind(arrangements: Mapping[int, Arrangement]) -> list[list[int]]:
    """The numbers of those that do the same over links and places that differ in names only."""
    kept: list[object] = []
    found: dict[object, list[int]] = {}
    for number, one in arrangements.items():
        key = tuple(
            (
                need_key(lane.need),
                lane.candidate.shapes,
                tuple(movement_key(movement, kept) for movement in lane.movements),
            )
            for lane in one.lanes
        )
        found.setdefault(key, []).append(number)
    return list(found.values())


def same_way(
    options: Sequence[Sequence[Arrangement]], numbers: Sequence[int]
) -> Iterator[dict[int, Arrangement]]:
    """One kind of way for all flows that have it, by the flows' numbers, from the best one on.

    Where many flows meet, what is best for each alone may be far from what is best for all, and
    one flow at a time changes little.
    """
    whole = [[one for one in own if len(one.lanes) == 1] for own in options]
    kinds = dict.fromkeys(one.candidate.way.names for own in whole for one in own)
    for names in kinds:
        fitting = {
            i: [one for one in own if one.candidate.way.names == names]
            for i, own in zip(numbers, whole, strict=True)
        }
        fitting = {i: own for i, own in fitting.items() if own}
        for k in range(max(map(len, fitting.values()))):
            yield {i: own[min(k, len(own) - 1)] for i, own in fitting.items()}


def alike(machine: Machine, present: Mapping[int, Arrangement]) -> Iterator[dict[int, Arrangement]]:
    """One shape for all rings that workers fill or empty.

    What is best for each alone need not be for locks and caches that they share: the shapes that
    are there are tried, those a step from them, and what suits locks and caches of which each has
    its part.
    """
    rings = {i: one for i, one in present.items() if _has_ring(one)}
    if len(rings) < 2:
        return
    shapes = sorted({one.candidate.shapes[0] for one in rings.values()}, key=repr)
    near = [shape for one in shapes for shape in _around(one)]
    near += [shape for one in rings.values() for shape in _shared(machine, one, len(rings))]
    for shape in dict.fromkeys(near):
        move: dict[int, Arrangement] = {}
        for i, one in rings.items():
            found = _reshaped(machine, one, shape)
            if found is not None:
                move[i] = found
        if len(move) == len(rings):
            yield move


def _shared(machine: Machine, arrangement: Arrangement, flows: int) -> Iterator[Shape]:
    """The best shape of a ring alone with its part of locks and cache among so many flows."""
    need, way = arrangement.lanes[0].need, arrangement.candidate.way
    cache = way.crossings[0].ram.cache
    room = need.pinned_budget if cache is None else int(cache * CACHE_SHARE) // flows
    part = replace(need, pinned_budget=max(1, min(need.pinned_budget, room)))
    found = evaluate(machine, part, way.taking(flows * need.turns))
    if not isinstance(found, str):
        yield found.shapes[0]


def _has_ring(arrangement: Arrangement) -> bool:
    """Whether it is one movement through a ring that workers fill or empty."""
    lanes = arrangement.lanes
    movements = lanes[0].movements if len(lanes) == 1 else ()
    return len(movements) == 1 and movements[0].has_ring and movements[0].has_pool


def _around(shape: Shape) -> Iterator[Shape]:
    """The shape, and those with the next chunk or number of workers either way."""
    yield shape
    for chunk in _beside(CHUNKS, shape.chunk):
        yield replace(shape, chunk=chunk)
    for workers in _beside(WORKERS, shape.workers):
        yield replace(shape, workers=workers)


def _beside(grid: Sequence[int], value: int) -> list[int]:
    """The values of a grid on either side of one."""
    lower = [one for one in grid if one < value]
    higher = [one for one in grid if one > value]
    return lower[-1:] + higher[:1]


def _reshaped(machine: Machine, arrangement: Arrangement, shape: Shape) -> Arrangement | None:
    """The same way in another shape, `None` where the plan or its budgets do not allow that."""
    need, way = arrangement.lanes[0].need, arrangement.candidate.way
    pins = need.pins
    asked = replace(pins, chunk=shape.chunk, depth=shape.depth, workers=shape.workers)
    kept = ((pins.chunk, shape.chunk), (pins.depth, shape.depth), (pins.workers, shape.workers))
    if shape.workers > need.cores or any(pin not in (None, value) for pin, value in kept):
        return None
    found = evaluate(machine, replace(need, pins=asked), way)
    return None if isinstance(found, str) else Arrangement((Lane(need, found),))


def single_way(options: Sequence[Arrangement]) -> Arrangement:
    """The best arrangement with one way only."""
    return next((a for a in options if len(a.lanes) == 1), options[0])


def distinct(options: Sequence[Arrangement]) -> list[Arrangement]:
    """Each way with each shape once, in order."""
    found: dict[object, Arrangement] = {}
    for option in options:
        key = tuple(
            (lane.candidate.way.names, lane.candidate.way.places, lane.candidate.shapes)
            for lane in option.lanes
        )
        found.setdefault(key, option)
    return list(found.values())
