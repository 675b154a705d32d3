"""What a flow needs whose bytes a GPU reads where they lie, or that the driver moves by page.

Managed memory is made and filled before the first run, and brought back to where it came from
before every further one; what a kernel touched is kept on the GPU, to be verified; and what the
plan says that the GPU reads afterwards from its own memory is read.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final

from planner.engine.backends.base import Backend, KernelLane
from planner.engine.ends import THREADS, Ends
from planner.engine.kept import Kept
from planner.engine.lines import pinned_in_place
from planner.engine.memory import HostBuffer, copy_memory, round_up
from planner.engine.places import DevicePlace, HostPlace, MappedPlace
from planner.engine.strategies.base import cut_source
from planner.engine.terms import Terms
from planner.engine.transfer import Moved, Transfer
from planner.results import FlowSchedule, SetupStep

KERNELS: Final = frozenset({"zero_copy", "managed", "managed_host"})
"""Strategies in which a kernel is what brings the bytes to the GPU."""
MANAGED: Final = frozenset({"managed", "prefetch", "managed_host"})
"""Strategies that need managed memory at the host's side."""
EVERY_TIME: Final = frozenset({"zero_copy", "managed_host"})
"""Strategies that leave the bytes on the host: each read of the plan is part of the movement."""


@dataclass
class InPlace:
    """That part of one flow.

    `lane` reads what has arrived, `reads` times after each run.
    """

    backend: Backend
    schedule: FlowSchedule
    ends: Ends
    terms: Terms
    undo: contextlib.ExitStack
    made: list[HostBuffer] = field(default_factory=list)
    lane: KernelLane | None = None
    reads: int = 0

    def open(self) -> None:
        """Compile kernels and make room for what they keep; nothing is timed here."""
        hop, target, source = self.schedule.hops[-1], self.ends.target, self.ends.source
        inward = isinstance(target, DevicePlace)
        if hop.strategy in KERNELS:
            place = target if inward else source
            if isinstance(place, DevicePlace):
                self.backend.compile(place.gpu)
        if not isinstance(target, DevicePlace):
            return
        if hop.strategy in KERNELS:
            self._keep(target, hop.chunk_bytes)
        use = self.terms.use
        if use is not None and hop.strategy not in EVERY_TIME:
            self.reads = use.reads - (hop.strategy == "managed")
        if self.reads:
            self.backend.attach(target.gpu)
            self.lane = self.backend.kernel_lane(target.gpu, 1)
            self.undo.callback(self.lane.close)

    def _keep(self, target: DevicePlace, chunk: int) -> None:
        """Make room for the bytes that kernels touch."""
        source = self.ends.source
        borders = source if isinstance(source, MappedPlace) else target
        chunks = cut_source(borders, self.schedule.size_bytes, chunk)
        target.touched = Kept(self.terms.touching, chunks.lows, chunks.sizes)
        for _ in range(target.kept):
            memory = self.backend.allocate(target.gpu, target.touched.size)
            self.undo.callback(self.backend.release, memory)
            target.add(memory)

    def before(self, transfer: Transfer) -> list[SetupStep]:
        """Have the bytes in managed memory where the movement's strategy wants them there."""
        line, hop = transfer.line, transfer.hops[-1]
        source, target = line.source, line.target
        if hop.strategy not in MANAGED or not isinstance(target, DevicePlace):
            return []
        if not isinstance(source, HostPlace):
            raise TypeError("managed memory is filled from host memory")
        steps: list[SetupStep] = []
        buffer = source.buffer
        if not buffer.managed:
            buffer = self._managed_copy(transfer, target.gpu, buffer, steps)
        elif hop.strategy == "managed_host":
            start = perf_counter()
            self.backend.keep_on_host(buffer, target.gpu)
            steps.append(_step("map the managed memory", perf_counter() - start, buffer.size))
        self.made.append(buffer)
        if hop.strategy == "prefetch" and target.buffer is None:
            target.add(self.backend.seen_by(target.gpu, buffer))
        return steps

    def _managed_copy(
        self, transfer: Transfer, gpu: int, source: HostBuffer, steps: list[SetupStep]
    ) -> HostBuffer:
        """The caller's bytes in managed memory; the movement takes them from there."""
        start = perf_counter()
        buffer = self.backend.managed(gpu, source.size)
        self.undo.callback(buffer.close)
        if transfer.hops[-1].strategy == "managed_host":
            self.backend.keep_on_host(buffer, gpu)
        buffer.touch(THREADS)
        touched = perf_counter()
        copy_all(buffer, source)
        steps.append(_step("touch the managed buffer", touched - start, buffer.size))
        steps.append(_step("copy into it", perf_counter() - touched, buffer.size))
        transfer.line = replace(transfer.line, source=HostPlace(buffer))
        return buffer

    def rewind(self) -> None:
        """Bring everything to where it is before a run; never timed."""
        source = self.ends.source
        for buffer in self.made:
            self.backend.bring(buffer, None)
        whole = pinned_in_place(self.schedule.hops)  # and for good
        if not whole and isinstance(source, MappedPlace) and source.mapped is not None:
            for one in source.mapped.maps:
                one.forget()

    def refresh(self) -> None:
        """Have the source on the GPU where it is the same memory as the target; never timed."""
        source, target = self.ends.source, self.ends.target
        out = self.schedule.hops[0].strategy == "prefetch" and isinstance(source, DevicePlace)
        if out and isinstance(source, DevicePlace) and isinstance(target, HostPlace):
            self.backend.bring(target.buffer, source.gpu)
            source.buffer = self.backend.seen_by(source.gpu, target.buffer)
            self.ends.refill(source.buffer)

    @property
    def touches(self) -> bool:
        """Whether a kernel reads what has come, which `after` does."""
        return self.lane is not None

    def after(self, transfer: Transfer, moved: Moved) -> Moved:
        """Read from the GPU's own memory what the plan says that it uses; returns the later end."""
        target, source = transfer.line.target, transfer.line.source
        if self.lane is None or not isinstance(target, DevicePlace):
            return moved
        address = target.address
        if transfer.hops[-1].strategy == "managed" and isinstance(source, HostPlace):
            address = source.buffer.address
        self.lane.touch(0, self.terms.touching.of(transfer.line.size, address), self.reads)
        self.lane.wait(0)
        self.lane.log.clear()
        return replace(moved, end=perf_counter())


def copy_all(target: HostBuffer, source: HostBuffer) -> None:
    """Copy a whole buffer by several threads."""
    share = round_up(max(1, -(-source.size // THREADS)), 1 << 20)

    def part(low: int) -> None:
        copy_memory(target.address + low, source.address + low, min(share, source.size - low))

    starts = range(0, source.size, share)
    if len(starts) <= 1:
        part(0)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(part, starts))


def _step(name: str, seconds: float, size: int) -> SetupStep:
    return SetupStep(name=name, duration_s=seconds, size_bytes=size)
