"""The two ends of a flow made ready: files, scratch files, buffers, and what must arrive."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import psutil

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.backends.managed_limit import require_managed
from planner.engine.files import FileRanges, Sink
from planner.engine.kept import Expected
from planner.engine.memory import PAGE, HostBuffer
from planner.engine.pattern import BLOCK, Pattern
from planner.engine.places import DevicePlace, FilePlace, HostPlace, MappedPlace, Place, SinkPlace
from planner.engine.scratch import Scratch, folder_of, require_space
from planner.engine.verify import from_files, from_pattern
from planner.errors import InfeasibleError
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.need import Need
from planner.model.needs import Demand, host_of
from planner.model.strategies import Kind
from planner.plan.schema import FileSource, Flow, Plan
from planner.results import Hop
from planner.units import format_size

THREADS: Final = 8
"""Threads that touch and fill buffers before anything is timed."""
ROOM: Final = 0.9
"""Share of the free memory that a run may take: the rest of the computer needs some too."""


@dataclass
class Ends:
    """Source and target of a flow, the files behind them, and how to undo it all."""

    source: Place
    target: Place
    expected: Expected
    files: tuple[FileSource, ...] = ()
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    refill: Callable[[DeviceBuffer], None] = lambda _memory: None
    """Writes the source's bytes anew where a GPU's memory is source and target in one."""

    def turn(self, repeat: int) -> None:
        """Take the target's buffer for a repeat, where it has several."""
        if isinstance(self.target, (HostPlace, DevicePlace)):
            self.target.turn(repeat)

    def close(self) -> None:
        """Give everything back."""
        self.undo.close()


@dataclass(frozen=True, slots=True)
class Options:
    """How a run treats files."""

    overwrite: bool = False
    keep_scratch: bool = False
    sync: bool = False
    note: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True, slots=True)
class Task:
    """What a flow asks of its ends.

    `offset` is where its bytes begin in the flow of the plan: not 0 for the later shares of a flow
    that is split over several destinations. `kept` is how many repeats the target holds at once.
    """

    flow: Flow
    need: Need
    hops: tuple[Hop, ...]
    offset: int = 0
    kept: int = 1

    @property
    def files(self) -> tuple[FileSource, ...]:
        """The ranges of the plan's files that belong to this share."""
        return share_of(self.flow.files, self.offset, self.need.size)


def share_of(files: Sequence[FileSource], offset: int, size: int) -> tuple[FileSource, ...]:
    """The bytes `offset` to `offset + size` of the files one after another."""
    found, start = [], 0
    for source in files:
        low, high = max(offset - start, 0), min(offset + size - start, source.size_bytes)
        if low < high:
            part = {"offset": source.offset + low, "size_bytes": high - low}
            found.append(source.model_copy(update=part))
        start += source.size_bytes
    return tuple(found)


def make_ends(backend: Backend, machine: Machine, task: Task, options: Options) -> Ends:
    """Make both ends of a flow ready; nothing is timed here.

    Raises
    ------
    InfeasibleError
        If disk or memory have no room for it.
    InputError
        If a file is missing, too short, or in the way.

    """
    with contextlib.ExitStack() as undo:
        require_memory(backend, machine, task.need, task.kept)
        require_pages(backend, machine, task)
        maker = _Maker(backend, machine, task, options, undo)
        target = maker.target()  # first: a sink in the way is told before a scratch file is written
        source, expected = maker.source()
        refill = partial(fill_device, backend, pattern=maker.pattern)
        return Ends(source, target, expected, maker.files, undo.pop_all(), refill)


def require_memory(backend: Backend, machine: Machine, need: Need, kept: int = 1) -> None:
    """Raise `InfeasibleError` where host memory has no room for the ends (and emulated GPUs).

    The target holds `kept` repeats.
    """
    nodes = [machine.nodes[name] for name in (need.start, need.end)]
    times = (1, kept)
    in_ram = (Ram, Hbm) if backend.emulated else (Ram,)
    held = sum(n for n, node in zip(times, nodes, strict=True) if isinstance(node, in_ram))
    free = free_memory(host_of(machine, need.start, need.end))
    if held * need.size > free * ROOM:
        raise InfeasibleError(
            f"flow {need.name} needs {format_size(held * need.size)} of host memory, "
            f"{format_size(free)} are free",
            hint="take a smaller size (--set)",
        )
    for n, node in zip(times, nodes, strict=True):
        if isinstance(node, Hbm) and not backend.emulated:
            left = backend.free_memory(node.device)
            if left is not None and n * need.size > left:
                raise InfeasibleError(
                    f"flow {need.name} needs {format_size(n * need.size)} on gpu{node.device}, "
                    f"{format_size(left)} are free"
                )


def require_pages(backend: Backend, machine: Machine, task: Task) -> None:
    """Raise `InfeasibleError` where more managed memory is asked for than a GPU should hold."""
    ends = {task.need.first, task.need.last}
    names = {hop.strategy for hop in task.hops}
    if "managed" in ends or names & {"managed", "prefetch", "managed_host"}:
        gpu = _managing(machine, task.hops)
        require_managed(gpu, task.need.size * task.kept, backend.free_memory(gpu))


def _managing(machine: Machine, hops: Sequence[Hop]) -> int:
    """The GPU for which managed memory is made: one on the way, else the machine's first."""
    nodes = [machine.nodes[name] for hop in hops for name in (hop.start, hop.end)]
    gpus = [node.device for node in (*nodes, *machine.nodes.values()) if isinstance(node, Hbm)]
    if not gpus:
        raise InfeasibleError(f"{machine.name} has no GPU: there is no managed memory")
    return gpus[0]


def free_memory(host: Ram) -> int:
    """Bytes of host memory that may still be taken.

    A guest whose memory grows with use shows less than it may have (31 GB total where 255 GB could
    be used, measured 2026-11-29), so a larger limit that the machine file has seen is believed.
    """
    memory = psutil.virtual_memory()
    limit = host.limit if host.limit is not None else memory.total
    return int(max(0, max(limit, memory.total) - (memory.total - memory.available)))


@dataclass
class _Maker:
    """Makes the ends of one flow; whatever it makes is undone by `undo`."""

    backend: Backend
    machine: Machine
    task: Task
    options: Options
    undo: contextlib.ExitStack
    files: tuple[FileSource, ...] = ()

    @property
    def pattern(self) -> Pattern:
        return Pattern(zlib.crc32(self.task.need.name.encode()))

    def source(self) -> tuple[Place, Expected]:
        """Where the bytes are, and what they are."""
        need, expected = self.task.need, from_pattern(self.pattern)
        node = self.machine.nodes[need.start]
        if isinstance(node, Disk):
            return self._files(node)
        if isinstance(node, Hbm) and need.last == "managed" and _prefetched(self.task):
            return DevicePlace(node.device), expected  # it lies in the target's own memory
        if isinstance(node, Hbm):
            self.backend.attach(node.device)
            buffer = self.backend.allocate(node.device, need.size)
            self.undo.callback(self.backend.release, buffer)
            fill_device(self.backend, buffer, self.pattern)
            return DevicePlace(node.device, buffer), expected
        place = self._memory(need.first)
        self.pattern.fill(place.buffer.array, THREADS)
        return place, expected

    def _files(self, node: Disk) -> tuple[Place, Expected]:
        """The plan's files, or a scratch file."""
        need, hops = self.task.need, self.task.hops
        self.files = self.task.files
        if not self.task.flow.files:
            scratch = Scratch(
                folder_of(node.path),
                need.name,
                need.size,
                self.pattern,
                keep=self.options.keep_scratch,
            )
            self.options.note(f"writing {format_size(need.size)} to {scratch.path}")
            self.undo.callback(scratch.close)
            self.files = (scratch.write(sync=self.options.sync),)
        ranges = FileRanges(self.files)
        self.undo.callback(ranges.close)
        ranges.open(direct=any(hop.strategy == "direct" for hop in hops))
        place = MappedPlace(ranges) if hops[0].strategy == "mmap" else FilePlace(ranges)
        if not self.task.flow.files:
            return place, from_pattern(self.pattern)
        plain = FileRanges(self.files)
        self.undo.callback(plain.close)
        plain.open()
        return place, from_files(plain)

    def target(self) -> Place:
        """Where the bytes go."""
        need, flow = self.task.need, self.task.flow
        node = self.machine.nodes[need.end]
        if isinstance(node, Disk):
            if flow.sink is not None:
                sink = Sink(flow.sink, overwrite=self.options.overwrite, durable=flow.fsync)
            else:
                name = Scratch(folder_of(node.path), need.name, need.size, self.pattern).path
                sink = Sink(str(name), overwrite=True, durable=flow.fsync)
            require_space(sink.path.parent, need.size)
            self.undo.callback(sink.discard)
            return SinkPlace(sink)
        if isinstance(node, Hbm):
            return DevicePlace(node.device, kept=self.task.kept)
        lead = lead_of(self.task.hops[-1].strategy, self.task.files)
        return self._memory(need.last, lead=lead, count=self.task.kept)

    def _memory(self, kind: Kind, *, lead: int | None = None, count: int = 1) -> HostPlace:
        """Host memory of a kind, touched, and registered if the user's buffer is pinned or mapped.

        Registered memory is mapped for all GPUs, too.
        """
        every = []
        for _ in range(count):
            if kind == "managed":
                gpu = _managing(self.machine, self.task.hops)
                buffer = self.backend.managed(gpu, self.task.need.size)
            else:
                buffer = HostBuffer(self.task.need.size, lead=lead)
            self.undo.callback(buffer.close)
            buffer.touch(THREADS)
            if kind in ("pinned", "mapped") and buffer.size:
                self.backend.register(buffer.address, buffer.size)
                self.undo.callback(self.backend.unregister, buffer.address)
                buffer.pinned = True
            every.append(buffer)
        return HostPlace(every[0], every)


def _prefetched(task: Task) -> bool:
    """Whether the flow's only hop moves managed memory by page."""
    return [hop.strategy for hop in task.hops] == ["prefetch"]


def lead_of(strategy: str, files: Sequence[FileSource]) -> int | None:
    """How far behind a page a buffer begins that is read into around the page cache, if it is."""
    if strategy != "direct":
        return None
    return files[0].offset % PAGE if files else 0


def fill_device(backend: Backend, target: DeviceBuffer, pattern: Pattern) -> None:
    """Write the pattern into a GPU's memory, block by block."""
    block = HostBuffer(BLOCK)
    try:
        for at in range(0, target.size, BLOCK):
            length = min(BLOCK, target.size - at)
            pattern.write(block.array[:length], at)
            backend.write(target, at, block.address, length)
    finally:
        block.close()


def over(limit: int | None, size: int) -> bool:
    """Whether so many bytes are more than the limit, if there is one."""
    return limit is not None and size > limit


def shares(plan: Plan, listed: Sequence[Demand]) -> list[int]:
    """Where each demand's bytes begin in its flow: the shares of a split flow follow each other."""
    found: list[int] = []
    seen: dict[str, int] = {}
    at = 0
    for demand in listed:
        flow = plan.flows[demand.flow]
        turn = seen.get(demand.flow, 0)
        seen[demand.flow] = turn + 1
        if flow.copy_mode != "shard" or turn % len(flow.destinations) == 0:
            at = 0
        found.append(at)
        at += demand.need.size
    return found
