"""The two ends of a flow made ready: files, scratch files, buffers, and what must arrive."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.engine.backends.base import Backend, DeviceBuffer
from planner.engine.files import FileRanges
from planner.engine.kept import Expected
from planner.engine.layout import Layout
from planner.engine.memory import PAGE, HostBuffer
from planner.engine.passing import sweep
from planner.engine.pattern import BLOCK, Pattern
from planner.engine.places import DevicePlace, FilePlace, HostPlace, MappedPlace, Place, SinkPlace
from planner.engine.room import managing_gpu, require_gathering, require_memory, require_pages
from planner.engine.scratch import Scratch, Space, folder_of, own_path
from planner.engine.sink import Sink
from planner.engine.task import Task
from planner.engine.verify import from_files, from_pattern
from planner.machine.schema import Disk, Hbm, Machine
from planner.model.strategies import Kind
from planner.plan.schema import FileSource
from planner.units import format_size

THREADS: Final = 8
"""Threads that touch and fill buffers before anything is timed."""


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
    renew: Callable[[], None] = lambda: None
    """Writes the source's bytes anew where the plan says that they were just written."""

    def turn(self, repeat: int) -> None:
        """Take the target's buffer for a repeat, where it has several."""
        if isinstance(self.target, (HostPlace, DevicePlace)):
            self.target.turn(repeat)

    def close(self) -> None:
        """Give everything back."""
        self.undo.close()


@dataclass(frozen=True, slots=True)
class Options:
    """How a run treats files; `space` is what is left on the disks, for all of its flows."""

    overwrite: bool = False
    keep_scratch: bool = False
    sync: bool = False
    note: Callable[[str], None] = lambda _text: None
    space: Space = field(default_factory=Space)


def make_ends(backend: Backend, machine: Machine, task: Task, options: Options) -> Ends:
    """Make both ends of a flow ready; nothing is timed here.

    Raises
    ------
    InfeasibleError
        If disk or memory have no room for it.
    InputError
        If a file is missing, too short, or in the way.
    UnavailableError
        If the bytes lie in pieces, which the strategy does not gather.

    """
    require_gathering(task)
    with contextlib.ExitStack() as undo:
        require_memory(backend, machine, task.need, task.kept, task.source_bytes)
        require_pages(backend, machine, task)
        maker = _Maker(backend, machine, task, options, undo)
        target = maker.target()  # first: a sink in the way is told before a scratch file is written
        source, expected = maker.source()
        refill = partial(fill_device, backend, pattern=maker.pattern)
        ends = Ends(source, target, expected, maker.files, undo.pop_all(), refill)
        if task.flow.host_source == "hot" and isinstance(source, HostPlace):
            ends.renew = partial(maker.write, source)
        return ends


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
            buffer = self.backend.allocate(node.device, self.task.source_bytes)
            self.undo.callback(self.backend.release, buffer)
            fill_device(self.backend, buffer, self.pattern, self.task.layout)
            return DevicePlace(node.device, buffer, layout=self.task.layout), expected
        place = self._memory(need.first, size=self.task.source_bytes)
        place.layout = self.task.layout
        self.write(place)
        return place, expected

    def write(self, place: HostPlace) -> None:
        """Write the flow's bytes into host memory."""
        if place.layout is None:
            self.pattern.fill(place.buffer.array, THREADS)
        else:
            place.layout.write(place.buffer.put, self.pattern)

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
                space=self.options.space,
            )
            self.options.note(f"writing {format_size(need.size)} to {scratch.path}")
            self.undo.callback(scratch.close)
            self.files = (scratch.write(sync=self.options.sync),)
        ranges = FileRanges(self.files)
        self.undo.callback(ranges.close)
        ranges.open(direct=hops[0].strategy == "direct")
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
            path, overwrite = flow.sink, self.options.overwrite
            if path is None:
                folder = folder_of(node.path)
                sweep(folder)
                path, overwrite = str(own_path(folder, need.name)), True
            sink = Sink(path, size=need.size, overwrite=overwrite, durable=flow.fsync)
            self.options.space.require(sink.path.parent, need.size, later=True)
            self.undo.callback(sink.discard)
            return SinkPlace(sink)
        if isinstance(node, Hbm):
            return DevicePlace(node.device, kept=self.task.kept)
        lead = lead_of(self.task.hops[-1].strategy, self.task.files)
        return self._memory(need.last, lead=lead, count=self.task.kept)

    def _memory(
        self, kind: Kind, *, lead: int | None = None, count: int = 1, size: int | None = None
    ) -> HostPlace:
        """Host memory of a kind, touched, and registered if the user's buffer is pinned or mapped.

        Registered memory is mapped for all GPUs, too.
        """
        every = []
        size = self.task.need.size if size is None else size
        for _ in range(count):
            if kind == "managed":
                gpu = managing_gpu(self.machine, self.task.hops)
                buffer = self.backend.managed(gpu, size)
            else:
                buffer = HostBuffer(size, lead=lead, huge=lead is not None)
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


def fill_device(
    backend: Backend, target: DeviceBuffer, pattern: Pattern, layout: Layout | None = None
) -> None:
    """Write the pattern into a GPU's memory, block by block or where its pieces lie."""
    if layout is not None:

        def put(offset: int, found: NDArray[np.uint8]) -> None:
            backend.write(target, offset, int(found.ctypes.data), found.size)

        layout.write(put, pattern)
        return
    block = HostBuffer(BLOCK)
    try:
        for at in range(0, target.size, BLOCK):
            length = min(BLOCK, target.size - at)
            pattern.write(block.array[:length], at)
            backend.write(target, at, block.address, length)
    finally:
        block.close()
