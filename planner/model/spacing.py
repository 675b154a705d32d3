"""Chunks under a cap on a flow's rate: so small that the cap holds within a tenth of a second.

The engine spaces the chunks of a capped flow. Whole chunks go at once, so in any 100 ms a flow may
be ahead of its cap by one chunk: a millisecond's worth of it is 1 %.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from planner.model.need import Need
from planner.model.strategies import Shape
from planner.plan.schema import LEAST_CHUNK

WORTH_S: Final = 1e-3
"""Seconds of the cap that a chunk is worth at most."""
IN_CHUNKS: Final = frozenset(
    {
        "buffered",
        "direct",
        "pinned",
        "registered",
        "staged",
        "pageable",
        "peer",
        "host_staged",
        "local",
    }
)
"""Strategies that move any bytes by themselves, so that one copy may as well be several."""


def chunk_of(rate: float) -> int:
    """The largest power of two that is worth no more than `WORTH_S`, a page at the least.

    >>> chunk_of(10e9), chunk_of(1e9), chunk_of(1e6), chunk_of(1.0)
    (8388608, 524288, 4096, 4096)
    """
    worth = max(LEAST_CHUNK, int(rate * WORTH_S))
    return 1 << (worth.bit_length() - 1)


def most_chunk(need: Need, strategies: Collection[str]) -> int | None:
    """The largest chunk that the flow's cap allows; `None` where it has none or may not be cut."""
    if need.rate is None or need.pins.chunk is not None or not IN_CHUNKS.issuperset(strategies):
        return None
    return chunk_of(need.rate)


def spaced(need: Need, strategies: Collection[str], shape: Shape) -> Shape:
    """The shape in chunks that suit the cap: two slots, so that a copy is queued behind another."""
    most = most_chunk(need, strategies)
    if most is None or shape.chunk <= most:
        return shape
    return replace(shape, chunk=most, depth=max(2, shape.depth))
