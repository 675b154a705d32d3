"""A movement: the hops that run together, because a ring couples them, or one hop alone.

A flow is one movement after another; between two of them all its bytes rest in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.machine.schema import Ram, Setup
from planner.model.pipeline import Stage, Trace, exact, lengths, seconds, throughput
from planner.model.strategies import Crossing, Shape, Strategy
from planner.model.strategies.base import RINGS, step, steps
from planner.results import Hop, SetupStep


@dataclass(frozen=True)
class Movement:
    """Crossings and the strategy of each, in the order in which a byte meets them."""

    crossings: tuple[Crossing, ...]
    strategies: tuple[Strategy, ...]

    @property
    def size(self) -> int:
        """Bytes to move."""
        return self.crossings[0].size

    @cached_property
    def has_ring(self) -> bool:
        """Whether a ring of chunks takes part."""
        return any(s.own_ring for s in self.strategies) or any(
            c.after in RINGS for c in self.crossings
        )

    @cached_property
    def has_pool(self) -> bool:
        """Whether worker threads move bytes themselves (else engines do)."""
        return any(stage.kind == "pool" for stage in self.stages(Shape(max(self.size, 1))))

    @property
    def single(self) -> bool:
        """Whether all bytes go in one call."""
        return not self.has_ring and not self.has_pool

    def stages(self, shape: Shape) -> tuple[Stage, ...]:
        """The servers of the pipeline."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        return tuple(stage for strategy, c in pairs for stage in strategy.stages(c, shape))

    def seconds(self, shape: Shape) -> float:
        """Seconds of one repeat with everything set up, as the search sees it."""
        stages = self.stages(shape)
        if not stages or not self.size:
            return 0.0
        return seconds(stages, self.size, shape.chunk, shape.workers, shape.depth)

    def trace(self, shape: Shape) -> Trace:
        """Seconds and busy times of one repeat, chunk by chunk."""
        stages = self.stages(shape)
        if not stages or not self.size:
            return Trace(0.0, tuple(0.0 for _ in stages), 0.0)
        return exact(stages, lengths(self.size, shape.chunk), shape.workers, shape.depth)

    def throughput(self, shape: Shape) -> float:
        """Bytes per second once the pipeline is full."""
        stages = self.stages(shape)
        return throughput(stages, shape.chunk, shape.workers, shape.depth) if stages else 0.0

    def setup(self, shape: Shape) -> tuple[SetupStep, ...]:
        """What is paid once: the strategies' own steps and the ring."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        own = tuple(s for strategy, c in pairs for s in strategy.setup(c, shape))
        if not self.has_ring:
            return own
        host = self.crossings[0].ram
        return (*own, *ring_setup(host, shape.ring))

    def hops(self, shape: Shape) -> tuple[Hop, ...]:
        """The schedule of this movement."""
        last = len(self.crossings) - 1
        return tuple(
            Hop(
                link=c.link,
                start=c.start,
                end=c.end,
                strategy=s.name,
                chunk_bytes=shape.chunk,
                depth=shape.depth,
                workers=shape.workers,
                coupled=i < last,
            )
            for i, (c, s) in enumerate(zip(self.crossings, self.strategies, strict=True))
        )


def first_touch(setup: Setup) -> float | None:
    """Bytes/s of touching memory for the first time: fresh where known, else recycled."""
    return setup.touch_fresh or setup.touch_recycled


def ring_setup(host: Ram, ring: int) -> tuple[SetupStep, ...]:
    """Making a ring: workers start, touch their own slots together and register them."""
    setup = host.setup
    return steps(
        step("start the workers", 0, None, setup.workers),
        step("touch the ring", ring, first_touch(setup)),
        step("register the ring", ring, setup.register_rate, setup.register_latency),
    )


def buffer_setup(host: Ram, size: int, *, pinned: bool) -> tuple[SetupStep, ...]:
    """Making a host buffer that holds everything between two movements."""
    setup = host.setup
    pin = step("register the buffer", size, setup.register_rate, setup.register_latency)
    return steps(step("touch the buffer", size, first_touch(setup)), pin if pinned else None)
