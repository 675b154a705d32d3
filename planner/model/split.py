"""One flow over several routes at once: bytes for one GPU also through its neighbour's link.

X = Σ X_r with all shared capacities counted, and the shares are proportional to the rates: all
ways take chunks from one queue, so they end together. A detour over another GPU hands over chunk
by chunk through a few slots of that GPU's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from planner.machine.schema import Hbm
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, Lane, carried
from planner.model.choose import Candidate, evaluate, setup_of
from planner.model.compose import Composition
from planner.model.known import choose_shape
from planner.model.need import Need
from planner.model.shapes import CHUNKS
from planner.model.strategies import Shape
from planner.model.ways import Way, matches_pins, ways
from planner.results import Rejected
from planner.units import format_time

WORTH = 1.02
"""A further way must gain two per cent: less is within the error of any prediction."""
MOST_LANES = 4
"""Ways that are taken together at the most: two adapters or links are common, four are many."""
SMALLEST = 16 << 20
"""Bytes from which a flow may be split: smaller ones end before a second way is under way."""
STAGING = 256 << 20
"""Bytes of a neighbour's memory that a detour may take: enough for chunks of 64 MiB, 1.2 ms, of
which the gap between copies takes 0.2 to 1.3 % (2.7 us by a probe of two H200, 15 by the
calibration of h200-sxm-2)."""
OUTSTANDING = 3
"""Chunks that a way of copy engines has queued: one is copied, one is next, and one more hides that
its worker wakes late. All of them are still to come when the queue of the flow runs dry."""
TRIES = 2
"""Ways that may fail to gain before the rest, which are slower still, is not looked at."""
BALANCED = 1e-4
"""The shares are settled when all ways end within this share of the time."""
ROUNDS = 8

Play = Callable[[Arrangement], Composition]
"""Simulates the flow alone in a given arrangement."""


@dataclass(frozen=True)
class Split:
    """The best split of a flow, and whether it is worth it: else why it is not."""

    arrangement: Arrangement | None
    rejected: Rejected | None = None


def best_split(
    topology: Topology,
    need: Need,
    single: Arrangement,
    play: Play,
    *,
    only: Collection[str] | None = None,
) -> Split:
    """Add ways one after another while that makes the flow faster.

    Parameters
    ----------
    topology, need
        Where, and what to move.
    single
        The best arrangement with one way.
    play
        The simulation that scores.
    only
        Names of the strategies that whoever executes the choice can do; all where it is `None`.
    """
    # What rests whole on its way cannot share a queue of chunks.
    if need.pins.route or need.size < SMALLEST or not _in_one_piece(single.main):
        return Split(None)
    further = _further_lanes(topology, need, single.main, only)
    if not further:
        return Split(None)
    best, seconds = single, _steady(play(single))
    refused: Rejected | None = None
    failed = 0
    for lane in further:
        if len(best.lanes) >= MOST_LANES or _links(lane) <= _all_links(best):
            continue
        wider = _together(topology, need, (*best.lanes, lane))
        if wider is None:
            continue
        wider, composed = balanced(topology, need, wider, play)
        took = _steady(composed)
        if took * WORTH < seconds:
            best, seconds = wider, took
            continue
        if refused is None:
            refused = _refused(wider, composed, took, seconds)
        failed += 1
        if failed >= TRIES:
            break
    if best is single:
        return Split(None, refused)
    return Split(replace(best, reason=f"{len(best.lanes)} ways at once"), refused)


def balanced(
    topology: Topology, need: Need, arrangement: Arrangement, play: Play
) -> tuple[Arrangement, Composition]:
    """The shares with which all ways end together, as one queue of chunks brings about."""
    composed = play(arrangement)
    for _ in range(ROUNDS):
        times = composed.parts[0].lanes
        if max(times) - min(times) <= BALANCED * max(times):
            break
        rates = [lane.need.size / t for lane, t in zip(arrangement.lanes, times, strict=True)]
        arrangement = shared_out(topology, need, arrangement, rates)
        composed = play(arrangement)
    return arrangement, composed


def shared_out(
    topology: Topology, need: Need, arrangement: Arrangement, rates: Sequence[float]
) -> Arrangement:
    """The same ways with shares proportional to `rates`; the shares add up to all bytes."""
    total = sum(rates)
    sizes = [max(1, int(need.size * rate / total)) for rate in rates]
    largest = max(range(len(sizes)), key=lambda i: sizes[i])
    sizes[largest] += need.size - sum(sizes)
    pairs = zip(arrangement.lanes, sizes, strict=True)
    lanes = [carried(topology.machine, lane, size) for lane, size in pairs]
    return replace(arrangement, lanes=tuple(lanes))


def _steady(composed: Composition) -> float:
    return composed.parts[0].finish - composed.parts[0].start


def _links(lane: Lane) -> frozenset[tuple[str, str]]:
    return frozenset((c.link, c.start) for c in lane.candidate.way.crossings)


def _all_links(arrangement: Arrangement) -> frozenset[tuple[str, str]]:
    return frozenset().union(*(_links(lane) for lane in arrangement.lanes))


def _in_one_piece(lane: Lane) -> bool:
    """Whether the lane moves bytes once only: a mapping before that moves none."""
    pairs = zip(lane.movements, lane.candidate.shapes, strict=True)
    return lane.streamed or sum(bool(m.stages(shape)) for m, shape in pairs) == 1


def _further_lanes(
    topology: Topology, need: Need, main: Lane, only: Collection[str] | None
) -> list[Lane]:
    """One lane for each other set of links, the fastest alone, fastest first."""
    found: dict[frozenset[tuple[str, str]], tuple[float, int, Lane]] = {}
    for order, way in enumerate(ways(topology, need)):
        taken = frozenset((c.link, c.start) for c in way.crossings)
        if taken <= _links(main) or way.lacks() or matches_pins(way, need):
            continue
        if only is not None and way.not_done(only):
            continue
        lane = _lane(topology, need, way)
        if lane is not None:
            row = lane.seconds, order, lane
            if taken not in found or row[:2] < found[taken][:2]:
                found[taken] = row
    return [row[2] for row in sorted(found.values(), key=lambda row: row[:2])]


def _lane(topology: Topology, need: Need, way: Way, wanted: int | None = None) -> Lane | None:
    """The way as a lane; streamed where its movements can hand over chunk by chunk."""
    movements = way.movements
    if len(movements) == 1:
        candidate = evaluate(topology.machine, need, way)
        return None if isinstance(candidate, str) else Lane(need, candidate)
    on_gpus = all(
        isinstance(topology.machine.nodes[m.crossings[0].start], Hbm) and m.single
        for m in movements[1:]
    )
    if not on_gpus:
        return None
    shape = _first_shape(way, need, wanted)
    if shape is None:
        return None
    shapes = (shape, *(Shape(shape.chunk, shape.depth) for _ in movements[1:]))
    setup = setup_of(topology.machine, need, way, shapes)
    lane = Lane(need, Candidate(way, shapes, 0.0, setup), streamed=True)
    return carried(topology.machine, lane)


def _first_moving(way: Way) -> int:
    """The number of the first movement that moves bytes: a mapping moves nothing by itself."""
    moving = (k for k, movement in enumerate(way.movements) if movement.stages(Shape(1)))
    return next(moving, 0)


def _first_shape(way: Way, need: Need, wanted: int | None = None) -> Shape | None:
    """The shape that the first movement takes; one copy of everything is cut into chunks.

    Such copies have the chunk that is `wanted`, the best by itself where none is.
    """
    first = _first_moving(way)
    movement = way.movements[first]
    if not movement.single:
        choice = choose_shape(movement, need)
        return None if isinstance(choice, str) else choice.shape
    pins = need.pins
    shapes = [
        shape
        for shape in (
            Shape(chunk, pins.depth or OUTSTANDING, pins.workers or 1)
            for chunk in ((pins.chunk,) if pins.chunk else CHUNKS)
        )
        if shape.ring <= min(STAGING, need.size)
    ]
    if wanted is not None:
        shapes = [shape for shape in shapes if shape.chunk == wanted]
    if not shapes:
        return None
    later = way.movements[first + 1 :]

    def seconds(shape: Shape) -> float:
        """The way's own time, the last chunk's further hops, and half a chunk of uneven end."""
        stages = [stage for m in later for stage in m.stages(shape)]
        last = sum(stage.seconds(shape.chunk) for stage in stages)
        half = max(stage.seconds(shape.chunk) for stage in movement.stages(shape)) / 2
        return movement.seconds(shape) + last + half

    return min(shapes, key=lambda shape: (seconds(shape), shape.chunk))


def _together(topology: Topology, need: Need, lanes: Sequence[Lane]) -> Arrangement | None:
    """All lanes side by side; copy engines take chunks of one size, the best for all together."""
    if any(_is_pooled(lane) for lane in lanes):
        return _side_by_side(topology, need, lanes)
    chunks = CHUNKS if need.pins.chunk is None else (need.pins.chunk,)
    found = [_side_by_side(topology, need, lanes, chunk) for chunk in chunks]
    there = [arrangement for arrangement in found if arrangement is not None]
    return min(there, key=_seconds, default=None)


def _is_pooled(lane: Lane) -> bool:
    return any(movement.has_pool or movement.has_ring for movement in lane.movements)


def _seconds(arrangement: Arrangement) -> float:
    return max(lane.seconds for lane in arrangement.lanes) + arrangement.unevenness


def _side_by_side(
    topology: Topology, need: Need, lanes: Sequence[Lane], wanted: int | None = None
) -> Arrangement | None:
    """The lanes with cores and pinned memory divided, whole copies cut into chunks."""
    own = replace(
        need,
        cores=max(1, need.cores // len(lanes)),
        pinned_budget=need.pinned_budget // len(lanes),
    )
    found = []
    for lane in lanes:
        pooled, way = _is_pooled(lane), lane.candidate.way
        if pooled and not lane.streamed:
            candidate = evaluate(topology.machine, own, way)
            if isinstance(candidate, str):
                return None
            found.append(Lane(need, candidate))
        elif pooled:
            fresh = _lane(topology, own, way)
            if fresh is None:
                return None
            found.append(Lane(need, fresh.candidate, streamed=True))
        elif lane.streamed:
            cut = _lane(topology, need, way, wanted)
            if cut is None:
                return None
            found.append(cut)
        else:
            shape = _first_shape(way, need, wanted)
            if shape is None:
                return None
            first, shapes = _first_moving(way), lane.candidate.shapes
            own_shapes = (*shapes[:first], shape, *shapes[first + 1 :])
            found.append(Lane(need, replace(lane.candidate, shapes=own_shapes)))
    arrangement = Arrangement(tuple(found))
    return shared_out(topology, need, arrangement, [need.size / lane.seconds for lane in found])


def _refused(wider: Arrangement, composed: Composition, took: float, seconds: float) -> Rejected:
    """Why a split was not taken: what binds all its ways together."""
    binds = max(
        zip(composed.load, composed.resources, strict=True), key=lambda row: (row[0], row[1])
    )[1]
    change = took - seconds
    gains = f"gains {format_time(-change)} only" if change < 0 else "gains nothing"
    shape = max((s for lane in wider.lanes for s in lane.candidate.shapes), key=lambda s: s.ring)
    return Rejected(
        strategies=tuple(name for lane in wider.lanes for name in lane.candidate.way.names),
        route=wider.lanes[-1].candidate.way.places,
        chunk_bytes=shape.chunk,
        depth=shape.depth,
        workers=shape.workers,
        duration_s=took,
        reason=f"split over {len(wider.lanes)} ways it {gains}: {binds} limits all together",
    )
