"""A movement: the hops that run together, because a ring couples them, or one hop alone.

A flow is one movement after another; between two of them all its bytes rest in one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from planner.machine.schema import Ram, Setup
from planner.model.one_slot import in_turn
from planner.model.pipeline import Stage, Trace, exact, lengths, nearly, seconds, throughput
from planner.model.strategies import Crossing, Shape, Strategy
from planner.model.strategies.base import PASSING, RINGS, step, steps
from planner.model.touched import of_hbm
from planner.native import native
from planner.results import Hop, SetupStep

START: Final = "start the workers"
"""Name of the step that every flow pays, with a ring or without."""
WAKE: Final = "wake engine and link"
"""Name of the step that the first run after a pause pays; measured it is in the first copy."""
READY: Final = "make the movement ready"
"""Name of the step between the others: what the program does before the first byte moves."""
READS: Final = frozenset({"buffered", "direct"})
"""Strategies that read a file."""
LANES: Final = "open the lanes"
TOUCH: Final = "touch the ring"
REGISTER: Final = "register the ring"
STAGING: Final = "allocate staging on {}"
"""Name of the step that makes slots on a GPU which chunks only pass."""
MOST_FOLLOWED: Final = 1 << 22
"""Chunks that are followed one by one: 16 TiB of 4 MiB. Beyond, the last ones change nothing."""


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

    @cached_property
    def ahead(self) -> bool:
        """Whether one thread prepares each chunk ahead of its copy."""
        return any(s.ahead for s in self.strategies)

    @cached_property
    def streams(self) -> bool:
        """Whether the bytes pass through network adapters."""
        return any(c.after in PASSING and c.after != "mapping" for c in self.crossings) or any(
            c.link and c.wire.kind == "network" for c in self.crossings
        )

    @cached_property
    def least(self) -> float:
        """Seconds of one repeat that no shape goes below; the hops run together."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        return max(strategy.least(crossing) for strategy, crossing in pairs)

    @cached_property
    def single(self) -> bool:
        """Whether all bytes go in one call."""
        return not (self.has_ring or self.has_pool or self.ahead)

    @cached_property
    def ring_hosts(self) -> tuple[str, ...]:
        """The host nodes that hold a ring each."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        hosts = [
            c.end if c.after in RINGS else c.host
            for s, c in pairs
            if c.after in RINGS or s.own_ring
        ]
        return tuple(dict.fromkeys(hosts))

    @cached_property
    def reads_into_ring(self) -> bool:
        """Whether its first stage reads a file into a ring."""
        return self.strategies[0].name in READS and self.crossings[0].after == "fill"

    def hands(self, shape: Shape) -> int:
        """How many threads queue its chunks: one where the C library's read them."""
        cores = self.crossings[0].cores
        apart = self.reads_into_ring and native(shape.workers, shape.chunk, cores)
        return 1 if apart else shape.workers

    def crew(self, shape: Shape) -> tuple[float, float]:
        """Seconds until its workers are started and have a lane each to every engine.

        The first worker's start is not in it. Workers are woken one after another to open theirs.
        """
        setup, hands = self.crossings[0].ram.setup, self.hands(shape)
        lanes = hands * self.engines
        opened = lanes * setup.lane + (hands - 1) * setup.wake if lanes else 0.0
        return (shape.workers - 1) * setup.worker, opened

    @cached_property
    def engines(self) -> int:
        """How many engines its chunks go through."""
        stages = self.stages(Shape(max(self.size, 1)))
        return sum(stage.kind == "engine" for stage in stages)

    @cached_property
    def memlock(self) -> int | None:
        """Bytes that the hosts let a network adapter pin, `None` where nothing is bounded."""
        if not any(s.name == "rdma" for s in self.strategies):
            return None
        hosts = [self.crossings[0].machine.nodes[name] for name in self.ring_hosts]
        limits = [h.memlock for h in hosts if isinstance(h, Ram) and h.memlock is not None]
        return min(limits, default=None)

    @cached_property
    def tail(self) -> float:
        """Seconds in which the GPU reads from its own memory what it uses, once it is there."""
        last, strategy = self.crossings[-1], self.strategies[-1]
        if last.use is None:
            return 0.0
        later = replace(last.use, reads=strategy.later_reads(last.use))
        return of_hbm(self.size, later, last.gpu.rate) if later.reads else 0.0

    def lead(self, shape: Shape) -> float:
        """Seconds that a run loses around its copies, and until all workers are at it."""
        return self.overhead + self.waking(shape)

    @cached_property
    def overhead(self) -> float:
        """Seconds of the caller before the first copy and behind the last, the engines awake."""
        stages = self.stages(Shape(max(self.size, 1)))
        return max((stage.overhead for stage in stages), default=0.0)

    @cached_property
    def idle(self) -> float:
        """Seconds that the first run takes longer because caller, engine and link were idle.

        A steady run follows another one, so it finds them awake. With several engines in a row
        that is counted once: the caller wakes up once, and each engine while the one before it
        works.
        """
        stages = self.stages(Shape(max(self.size, 1)))
        return max((stage.idle for stage in stages), default=0.0)

    def waking(self, shape: Shape) -> float:
        """Seconds until all workers are at it.

        Threads are woken one after another, and each wants the interpreter's lock; a movement by
        one worker is done by the caller. Where runs of the ring were measured, that is what they
        take longer than their pace.
        """
        if not self.has_pool:
            return 0.0
        pairs = zip(self.strategies, self.crossings, strict=True)
        stages = (stage for strategy, c in pairs for stage in strategy.stages(c, shape))
        known = [stage.waking for stage in stages if stage.waking is not None]
        if known:
            return max(known)
        if shape.workers == 1:
            return 0.0
        return (shape.workers - 1) * self.crossings[0].ram.setup.wake

    def stages(self, shape: Shape) -> tuple[Stage, ...]:
        """The servers of the pipeline."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        stages = tuple(stage for strategy, c in pairs for stage in strategy.stages(c, shape))
        return in_turn(stages, shape.workers) if shape.depth == 1 else stages

    def seconds(self, shape: Shape) -> float:
        """Seconds of one repeat with everything set up, as the search sees it."""
        stages = self.stages(shape)
        if not stages or not self.size:
            return 0.0
        moved = seconds(stages, self.size, shape.chunk, shape.workers, shape.depth)
        return moved + self.lead(shape) + self.tail

    def trace(self, shape: Shape) -> Trace:
        """Seconds and busy times of one repeat, chunk by chunk; found once for each shape."""
        if shape not in self._traces:
            self._traces[shape] = self._trace(shape)
        return self._traces[shape]

    @cached_property
    def _traces(self) -> dict[Shape, Trace]:
        return {}

    def _trace(self, shape: Shape) -> Trace:
        stages = self.stages(shape)
        if not stages or not self.size:
            return Trace(0.0, tuple(0.0 for _ in stages), 0.0)
        if self.size > MOST_FOLLOWED * shape.chunk:
            return self.nearly(shape)
        trace = exact(stages, lengths(self.size, shape.chunk), shape.workers, shape.depth)
        return self._around(trace, shape)

    def nearly(self, shape: Shape) -> Trace:
        """What `trace` answers, from the first chunks only where there are many."""
        stages = self.stages(shape)
        if not stages or not self.size:
            return Trace(0.0, tuple(0.0 for _ in stages), 0.0)
        chunk = min(shape.chunk, self.size)
        trace = nearly(stages, self.size, chunk, shape.workers, shape.depth)
        return self._around(trace, shape)

    def _around(self, trace: Trace, shape: Shape) -> Trace:
        """The trace with what comes before and behind the pipeline."""
        more = self.lead(shape) + self.tail
        return replace(trace, total_s=trace.total_s + more) if more else trace

    def throughput(self, shape: Shape) -> float:
        """Bytes per second once the pipeline is full."""
        stages = self.stages(shape)
        return throughput(stages, shape.chunk, shape.workers, shape.depth) if stages else 0.0

    def setup(self, shape: Shape) -> tuple[SetupStep, ...]:
        """What is paid once: the strategies' own steps and the ring."""
        pairs = zip(self.strategies, self.crossings, strict=True)
        own = tuple(s for strategy, c in pairs for s in strategy.setup(c, shape))
        nodes = self.crossings[0].machine.nodes
        combined = any(s.name == "write_combined" for s in self.strategies)
        found = [*own, *([SetupStep(name=WAKE, duration_s=self.idle)] if self.idle else [])]
        for name in self.ring_hosts:
            host = nodes[name]
            if isinstance(host, Ram):
                found.extend(ring_setup(host, shape.ring, shape.workers, combined=combined))
        return tuple(found)

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


def added(one: SetupStep, other: SetupStep, saved: float = 0.0) -> SetupStep:
    """Two steps of one name as one, the other `saved` seconds shorter."""
    sizes = [step.size_bytes for step in (one, other) if step.size_bytes is not None]
    update = {
        "duration_s": one.duration_s + max(0.0, other.duration_s - saved),
        "size_bytes": sum(sizes) if sizes else None,
    }
    return one.model_copy(update=update)


def first_touch(setup: Setup) -> float | None:
    """Bytes/s of touching memory for the first time: fresh where known, else recycled."""
    return setup.touch_fresh or setup.touch_recycled


def ring_setup(
    host: Ram, ring: int, workers: int = 1, *, combined: bool = False
) -> tuple[SetupStep, ...]:
    """Making a ring: workers start, touch their own slots together and register them.

    They are woken for it one after another, which is most of the time of a small ring, and a few of
    them touch no more than each can alone. A write-combined ring only the driver can allocate,
    which touches it with one thread.
    """
    setup = host.setup
    start = step(START, 0, None, setup.workers)
    if combined and setup.host_alloc is not None:
        made = "allocate the write-combined ring"
        return steps(start, step(made, ring, setup.host_alloc, setup.host_alloc_latency))
    if setup.register_rate is None and setup.host_alloc is not None:
        return steps(start, *_pinned(setup, ring, "ring"))
    alone = None if setup.touch_worker is None else workers * setup.touch_worker
    touched = min((rate for rate in (first_touch(setup), alone) if rate), default=None)
    pinned = setup.register_ring or setup.register_rate
    return steps(
        start,
        step(TOUCH, ring, touched, (workers - 1) * setup.wake),
        step(REGISTER, ring, pinned, setup.register_latency),
    )


def buffer_setup(host: Ram, size: int, *, pinned: bool) -> tuple[SetupStep, ...]:
    """Making a host buffer that holds everything between two movements."""
    if pinned:
        return steps(*_pinned(host.setup, size, "buffer"))
    return steps(step("touch the buffer", size, first_touch(host.setup)))


def _pinned(setup: Setup, size: int, what: str) -> tuple[SetupStep | None, ...]:
    """Pinned memory: touched by all and registered, or the driver's own where that is all known."""
    if setup.register_rate is None and setup.host_alloc is not None:
        made = f"allocate the pinned {what}"
        return (step(made, size, setup.host_alloc, setup.host_alloc_latency),)
    return (
        step(f"touch the {what}", size, first_touch(setup)),
        step(f"register the {what}", size, setup.register_rate, setup.register_latency),
    )
