"""What a ring of one slot a worker loses where copies, locks and engine are about equally fast.

With one slot a worker copies, waits for its turn at the locks and for the engine, and cannot begin
its next chunk meanwhile. Three bounds hold the pace: the engine, the locks, and the round trip of
all slots. Each alone would be met, were it not for jitter: who comes late at one leaves it idle,
and nothing makes up for it. That costs most where two bounds are equal and nothing where they are
far apart, so the bounds add up in a high power: 1/X^k = sum of 1/X_i^k. Two equal ones leave
2^(-1/k) of their pace, which is the measured `one_slot`. Where another thread hands the slots on,
each stands idle until that thread has seen to it (`late`): a longer round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf, log

from planner.model.stage import Stage, Turns


def in_turn(stages: Sequence[Stage], workers: int) -> tuple[Stage, ...]:
    """The stages of a pipeline with one slot a worker: the copies beside an engine take longer.

    Parameters
    ----------
    stages
        In the order in which a byte meets them; those without `turns` stay as they are.
    workers
        Workers of the ring, each with one slot.

    """
    found = list(stages)
    for k, stage in enumerate(stages):
        if stage.turns is None or (stage.turns.one_slot >= 1 and not stage.turns.late):
            continue
        beside = [j for j in (k + 1, k - 1) if 0 <= j < len(stages)]
        engine = next((stages[j] for j in beside if stages[j].kind == "engine"), None)
        if engine is not None:
            found[k] = replace(stage, seconds=_slower(stage.turns, engine, workers))
    return tuple(found)


def _slower(turns: Turns, engine: Stage, workers: int) -> Callable[[int], float]:
    """Seconds of a chunk on one worker that make the pipeline as slow as jitter leaves it."""
    # In the first power nothing overlaps: one slot cannot lose more than that.
    power = inf if turns.one_slot >= 1 else max(1.0, log(2) / -log(turns.one_slot))

    @lru_cache(maxsize=64)
    def seconds(length: int) -> float:
        served = engine.seconds(length)
        behind = served + engine.lag
        trip = (turns.alone(length) + behind + turns.late) / workers
        pace = together((served, turns.turn(length), trip), power)
        return max(turns.alone(length), workers * pace - behind)

    return seconds


def together(bounds: Sequence[float], power: float) -> float:
    """Seconds of a chunk under several bounds, each in seconds of a chunk, that add up in a power.

    >>> round(together((1.0, 1.0), 2.0), 3)
    1.414
    """
    most = max(bounds)
    if most <= 0 or power == inf:
        return most
    summed: float = sum((bound / most) ** power for bound in bounds)
    return most * float(summed ** (1 / power))
