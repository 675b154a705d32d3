"""The best chunk, depth and workers of a movement, found over the curves by enumeration.

Chunks are 2^k and 1.5 * 2^k: over tabulated stage times the optimum is so flat that a finer grid
gains less than one per cent. Every shape within `FLAT` of the best counts as equal, and of those
the one with the smallest ring wins: pinned memory is dear and small rings stay in cache. The
quickest steady run is looked for; a ring that touching and registering cost less, so that the whole
flow ends sooner, wins only where that saves more than the formula can be trusted with (`SAVED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.pipeline import FEW_WAVES, closed_form
from planner.model.spacing import most_chunk, spaced
from planner.model.strategies import Shape
from planner.units import format_size
from planner.wording import counted

MIB = 1 << 20
CHUNKS: tuple[int, ...] = tuple(
    sorted({MIB << k for k in range(8)} | {(3 * MIB << k) // 2 for k in range(1, 7)} | {256 * 1024})
)
"""Bytes: 256 KiB, 1 to 128 MiB. Smaller chunks drown in the interpreter's cost of each."""
WORKERS: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
DEPTHS: tuple[int, ...] = (1, 2, 3)
COARSE_CHUNKS: frozenset[int] = frozenset({256 * 1024} | {MIB << k for k in range(8)})
COARSE_WORKERS: frozenset[int] = frozenset({1, 2, 4, 8, 12, 16, 24, 32, 64})
FEW_SHAPES = 64
"""So many shapes are all looked at."""
CENTRES = 3
"""Shapes of the coarse grid whose neighbours are looked at."""
FLAT = 0.005
"""Shapes within half a per cent of the best are as good: far below what any prediction resolves."""
SAVED = 0.05
"""Share of all the time, setup included, that a ring cheaper to set up must save to be taken before
the one with the quickest steady run: the pipeline's formula knows no jitter, so where copies and
wire balance, as they do in small rings, it promises some per cent too much. A tenth of the joint
runs on an H200 (measured 2026-11-29) were more than 3 % off it. Engines alone keep to it."""
CACHE_SHARE = 0.43
"""Share of the last-level cache that a ring may take: the knee was found at 0.4 to 0.6 of it on two
machines (32 MiB, 2-core guest; 300 MiB, H200 guest; measured 2026-11-29). On two guests with two
H200s rings of 0.48 brought 34 and 36 GB/s where 46 and 50 were predicted, while those of up to 0.43
lost nothing more than smaller ones (4 and 8 GB, measured 2026-11-29 and -30)."""
JITTER = 0.10
KNOWN_JITTER = 0.03
"""Shares of the time that one slot a worker must save on paper to be taken before two, and where it
is measured what one slot loses (`one_slot`, `late`). There rings of one that came out best on paper
were within 1 % of the best of 30 measured in five of five plans; held to a tenth, the choice was up
to 1.33 of it (three H200s, measured 2026-11-30 and 2026-12-01)."""
SHORT_LIST = 12
"""Shapes that are followed chunk by chunk after the formula has ranked all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen shape of a movement, and its seconds."""

    shape: Shape
    seconds: float


def choose_shape(movement: Movement, need: Need) -> Choice | str:
    """The best shape within the flow's budgets, or the reason why there is none."""
    if movement.single:
        shape = Shape(need.pins.chunk or max(movement.size, 1), need.pins.depth or 1)
        shape = spaced(need, _names(movement), shape)
        return Choice(shape, movement.seconds(shape))
    fitting = allowed(movement, need)
    if isinstance(fitting, str):
        return fitting
    # Under a cap all shapes that reach it are as good, so the smallest ring among them wins.
    capped = movement.size / need.rate if need.rate else 0.0
    scored = _scored(movement, fitting, capped)
    fast = _best(movement, scored, _free, capped)
    double = [(t, s) for t, s in scored if s.depth > 1]
    if fast.shape.depth == 1 and need.pins.depth is None and double:
        scored = double
        fast = steadier(movement, fast, _best(movement, double, _free, capped))
        if fast.shape.depth == 1:
            return fast
    once = _once(movement, need.repeat)
    if once is None:
        return fast
    # Engines alone take turns with one slot each: a ring of two hides what one does not.
    paired = scored if movement.has_pool else double or scored
    cheap = _best(movement, paired, once, capped)
    saved = 1 - (cheap.seconds + once(cheap.shape)) / (fast.seconds + once(fast.shape))
    return cheap if saved > (SAVED if movement.has_pool else 0.0) else fast


def allowed(movement: Movement, need: Need) -> list[Shape] | str:
    """The shapes within the flow's budgets and the cache, or the reason why there is none."""
    shapes = list(_shapes(movement, need))
    room = need.pinned_budget
    if movement.memlock is not None:
        room = min(room, movement.memlock)
    pins = movement.has_ring or movement.ahead
    fitting = [s for s in shapes if not pins or s.ring <= max(room, 0)]
    return _in_cache(movement, fitting) or _too_small(movement, need, shapes, room)


def _in_cache(movement: Movement, fitting: list[Shape]) -> list[Shape]:
    """The shapes whose ring stays in the CPU's cache, if there are any.

    Copies slow down once the ring of all workers passes two fifths to a half of the last-level
    cache, beside DMA sooner than alone, and tables with few rings show the knee too late.
    """
    cache = movement.crossings[0].ram.cache
    if cache is None or not movement.has_pool or not movement.has_ring:
        return fitting
    return [s for s in fitting if s.ring <= CACHE_SHARE * cache] or fitting


def steadier(movement: Movement, one: Choice, two: Choice) -> Choice:
    """One slot a worker only where two promise clearly less: one hides no jitter.

    With the same promise one slot gave 31 to 46 GB/s where two gave 51 (12 workers on one H200,
    measured 2026-11-29), before its loss was measured.
    """
    turns = [stage.turns for stage in movement.stages(one.shape) if stage.turns]
    known = any(turn.one_slot < 1 or turn.late for turn in turns)
    jitter = KNOWN_JITTER if known else JITTER
    return two if two.seconds <= one.seconds * (1 + jitter) else one


def _scored(
    movement: Movement, fitting: Sequence[Shape], least: float
) -> list[tuple[float, Shape]]:
    """The shapes with their seconds: every other chunk and worker, then all around the best.

    None takes less than `least`.

    The time is flat around its optimum and rises on both sides, so the coarse grid cannot miss it
    by more than a step.
    """
    depths = {s.depth for s in fitting}
    depth = 2 if 2 in depths else min(depths)
    coarse = [
        s
        for s in fitting
        if s.depth == depth and s.chunk in COARSE_CHUNKS and s.workers in COARSE_WORKERS
    ]
    if len(fitting) <= FEW_SHAPES or not coarse:
        return [(max(_score(movement, s), least), s) for s in fitting]
    found = {s: max(_score(movement, s), least) for s in coarse}
    for _, _, centre in sorted((t, _taste(s), s) for s, t in found.items())[:CENTRES]:
        for shape in fitting:
            if _near(shape, centre) and shape not in found:
                found[shape] = max(_score(movement, shape), least)
    return [(t, s) for s, t in found.items()]


def _near(shape: Shape, centre: Shape) -> bool:
    """Whether both numbers are within a step of the coarse grid."""
    return (
        centre.chunk / 2 <= shape.chunk <= centre.chunk * 2
        and centre.workers * 0.6 <= shape.workers <= centre.workers * 1.6
    )


def _best(
    movement: Movement,
    scored: list[tuple[float, Shape]],
    once: Callable[[Shape], float],
    least: float,
) -> Choice:
    """The best shape when each costs `once` seconds beside the steady time."""
    ranked = sorted((t + once(s), _taste(s), s) for t, s in scored)
    exact = [(max(movement.seconds(s), least), s) for _, _, s in ranked[:SHORT_LIST]]
    best = min(t + once(s) for t, s in exact)
    equal = [(_taste(s), t, s) for t, s in exact if t + once(s) <= best * (1 + FLAT)]
    _, seconds, shape = min(equal, key=lambda row: row[0])
    return Choice(shape, seconds)


def _free(_shape: Shape) -> float:
    return 0.0


def _once(movement: Movement, repeat: int) -> Callable[[Shape], float] | None:
    """Seconds of setup that a ring of some shape costs each repeat; `None` where it costs nothing.

    Each worker is started and opens its lanes. Touching and registering cost the ring's bytes, and
    many workers touch them faster than one: for each number of workers it is a line.
    """
    if not movement.has_ring:
        return None
    lines: dict[int, tuple[float, float]] = {}

    def cost(shape: Shape) -> float:
        # What starting one takes is not in the setup of a movement: all of a flow share a team.
        crew = sum(movement.crew(shape))
        if shape.workers not in lines:
            chunk = _SAMPLE // shape.workers
            big, none = (_setup(movement, Shape(size, 1, shape.workers)) for size in (chunk, 0))
            lines[shape.workers] = none, (big - none) / (chunk * shape.workers)
        start, each = lines[shape.workers]
        return (start + each * shape.ring + crew) / repeat

    return cost


def _setup(movement: Movement, shape: Shape) -> float:
    return sum(step.duration_s for step in movement.setup(shape))


_SAMPLE = 1 << 30
"""Any ring: what it costs grows with its bytes."""


def _shapes(movement: Movement, need: Need) -> tuple[Shape, ...]:
    """The grid, or what of it the plan's pins leave."""
    pins = need.pins
    most = most_chunk(need, _names(movement))
    grid = CHUNKS if most is None else [c for c in CHUNKS if c <= most] or [most]
    chunks = _pinned(pins.chunk, (c for c in grid if c < movement.size)) or [max(movement.size, 1)]
    # Without a ring only a stream, or a thread that works ahead, has a second chunk on the way.
    alone = (2,) if movement.ahead or movement.streams else (1,)
    depths = _pinned(pins.depth, DEPTHS if movement.has_ring else alone)
    workers = _pinned(pins.workers, (w for w in WORKERS if w <= need.cores))
    if movement.ahead:
        workers = _pinned(
            pins.workers, (1,)
        )  # registration takes a lock of the driver: more threads do not help
    elif not movement.has_pool:
        workers = _pinned(pins.workers, (1, 2))  # engines need no more than somebody who issues
    # Beyond what the largest grid point needs more bytes make no difference.
    enough = min(movement.size, max(chunks) * max(workers, default=1) + 1)
    return _grid(tuple(chunks), tuple(depths), tuple(workers), enough)


@lru_cache(maxsize=64)
def _grid(
    chunks: tuple[int, ...], depths: tuple[int, ...], workers: tuple[int, ...], size: int
) -> tuple[Shape, ...]:
    """Every shape of the grid but those with workers, or slots of a lone chunk, that stay empty."""
    return tuple(
        Shape(chunk, depth, count)
        for chunk in chunks
        for depth in depths
        for count in workers
        if (count == 1 or (count - 1) * chunk < size) and (depth == min(depths) or chunk < size)
    )


def _names(movement: Movement) -> list[str]:
    return [strategy.name for strategy in movement.strategies]


def _pinned(value: int | None, grid: Iterable[int]) -> list[int]:
    return list(grid) if value is None else [value]


def _score(movement: Movement, shape: Shape) -> float:
    """Seconds by the formula, or chunk by chunk where that is as quick, with what a run loses."""
    chunks = -(-movement.size // shape.chunk)
    if chunks <= FEW_WAVES * 2:
        return movement.seconds(shape)
    stages = movement.stages(shape)
    formula = closed_form(stages, movement.size, shape.chunk, shape.workers, shape.depth)
    return movement.lead(shape) + formula


def _taste(shape: Shape) -> tuple[int, int, int, int]:
    """The order of shapes that are equally fast: small ring, few workers, big chunk."""
    return (shape.ring, shape.workers, -shape.chunk, shape.depth)


def _too_small(movement: Movement, need: Need, shapes: list[Shape], room: int) -> str:
    """Why no ring fits, with the number that would."""
    pins = need.pins
    if not shapes:
        return _too_few(movement, need)
    smallest = min(shapes, key=lambda s: (s.ring, s.workers))
    where = movement.ring_hosts[0] if movement.has_ring else movement.crossings[-1].host
    what = "its ring needs" if movement.has_ring else "it needs"
    fits = ""
    if (pins.chunk or pins.workers or pins.depth) and room >= CHUNKS[0]:
        # What the plan pins is too much; the same budget holds something smaller.
        slots = smallest.workers * smallest.depth
        if room // slots >= CHUNKS[0]:
            most = min(room // slots // CHUNKS[0] * CHUNKS[0], movement.size)
            fits = f"; chunks of {format_size(most)} would fit"
        elif pins.workers and room >= smallest.chunk:
            fewer = counted(room // smallest.chunk, "worker")
            fits = f"; {fewer} with one slot each would fit"
    limit = "memlock" if room < need.pinned_budget else "the budget"
    return (
        f"{what} at least {format_size(smallest.ring)} pinned on {where}, "
        f"{limit} is {format_size(room)}{fits}"
    )


def _too_few(movement: Movement, need: Need) -> str:
    """Why there is no shape at all: of the workers that the plan pins some would have no chunk."""
    pinned = need.pins.workers
    if pinned is None:
        return f"no number of workers fits into {counted(need.cores, 'core')}"
    chunk = need.pins.chunk or min(CHUNKS[0], movement.size)
    chunks = -(-movement.size // chunk)
    what = f"are {chunks} chunks" if chunks > 1 else "fit into one chunk"
    return (
        f"its {format_size(movement.size)} {what} of {format_size(chunk)}, "
        f"too few for {counted(pinned, 'worker')}"
    )
