"""The two ends of a flow made ready: files, scratch files, buffers, and what must arrive."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psutil

from planner.engine.backends.base import Backend
from planner.engine.files import FileRanges, Sink
from planner.engine.memory import HostBuffer
from planner.engine.pattern import BLOCK, Pattern
from planner.engine.places import DevicePlace, FilePlace, HostPlace, MappedPlace, Place, SinkPlace
from planner.engine.scratch import Scratch, folder_of, require_space
from planner.engine.verify import Expected, from_files, from_pattern
from planner.errors import InfeasibleError
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.need import Need
from planner.plan.schema import FileSource, Flow
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


def make_ends(
    backend: Backend,
    machine: Machine,
    flow: Flow,
    need: Need,
    hops: tuple[Hop, ...],
    options: Options,
) -> Ends:
    """Make both ends of a flow ready; nothing is timed here.

    Raises
    ------
    InfeasibleError
        If disk or memory have no room for it.
    InputError
        If a file is missing, too short, or in the way.

    """
    undo = contextlib.ExitStack()
    with contextlib.ExitStack() as guard:
        guard.callback(undo.close)
        require_memory(backend, machine, need)
        pattern = Pattern(zlib.crc32(need.name.encode()))
        source, expected, files = _source(
            backend, machine, flow, need, hops, pattern, options, undo
        )
        target = _target(backend, machine, flow, need, hops, options, undo)
        guard.pop_all()
    return Ends(source, target, expected, files, undo)


def require_memory(backend: Backend, machine: Machine, need: Need) -> None:
    """Raise `InfeasibleError` where host memory has no room for the ends (and emulated GPUs)."""
    nodes = [machine.nodes[name] for name in (need.start, need.end)]
    held = sum(isinstance(node, Ram) for node in nodes)
    held += sum(isinstance(node, Hbm) for node in nodes) if backend.emulated else 0
    free = psutil.virtual_memory().available
    if held * need.size > free * ROOM:
        raise InfeasibleError(
            f"flow {need.name} needs {format_size(held * need.size)} of host memory, "
            f"{format_size(free)} are free",
            hint="take a smaller size (--set)",
        )
    for node in nodes:
        if isinstance(node, Hbm) and not backend.emulated:
            left = backend.free_memory(node.device)
            if left is not None and need.size > left:
                raise InfeasibleError(
                    f"flow {need.name} needs {format_size(need.size)} on gpu{node.device}, "
                    f"{format_size(left)} are free"
                )


def _source(
    backend: Backend,
    machine: Machine,
    flow: Flow,
    need: Need,
    hops: tuple[Hop, ...],
    pattern: Pattern,
    options: Options,
    undo: contextlib.ExitStack,
) -> tuple[Place, Expected, tuple[FileSource, ...]]:
    node = machine.nodes[need.start]
    if isinstance(node, Disk):
        files = flow.files
        if not files:
            scratch = Scratch(folder_of(node.path), need.name, need.size, pattern)
            options.note(f"writing {format_size(need.size)} to {scratch.path}")
            files = (scratch.write(sync=options.sync),)
            if not options.keep_scratch:
                undo.callback(scratch.remove)
        ranges = FileRanges(files)
        ranges.open(direct=any(hop.strategy == "direct" for hop in hops))
        undo.callback(ranges.close)
        place: Place = FilePlace(ranges)
        if hops[0].strategy == "mmap":
            place = MappedPlace(ranges)
        return place, from_pattern(pattern) if not flow.files else from_files(ranges), files
    if isinstance(node, Hbm):
        device = _on_device(backend, node, need.size, undo)
        _fill_device(backend, device, need.size, pattern)
        return device, from_pattern(pattern), ()
    memory = _in_memory(backend, need, pinned=need.first == "pinned", undo=undo)
    pattern.fill(memory.buffer.array, THREADS)
    return memory, from_pattern(pattern), ()


def _target(
    backend: Backend,
    machine: Machine,
    flow: Flow,
    need: Need,
    hops: tuple[Hop, ...],
    options: Options,
    undo: contextlib.ExitStack,
) -> Place:
    node = machine.nodes[need.end]
    if isinstance(node, Disk):
        if flow.sink is not None:
            sink = Sink(flow.sink, overwrite=options.overwrite)
            require_space(sink.path.parent, need.size)
        else:
            folder = folder_of(node.path)
            require_space(folder, need.size)
            name = Scratch(folder, need.name, need.size, Pattern(0)).path
            sink = Sink(str(name))
        undo.callback(sink.discard)
        return SinkPlace(sink)
    if isinstance(node, Hbm):
        return DevicePlace(node.device)
    lead = None
    if hops[-1].strategy == "direct" and flow.files:
        lead = flow.files[0].offset % 4096
    return _in_memory(backend, need, pinned=need.last == "pinned", undo=undo, lead=lead)


def _on_device(backend: Backend, node: Hbm, size: int, undo: contextlib.ExitStack) -> DevicePlace:
    backend.attach(node.device)
    buffer = backend.allocate(node.device, size)
    undo.callback(backend.release, buffer)
    return DevicePlace(node.device, buffer)


def _fill_device(backend: Backend, place: DevicePlace, size: int, pattern: Pattern) -> None:
    """Write the pattern into a GPU's memory, block by block."""
    if place.buffer is None:
        raise RuntimeError("the device memory is filled before it is allocated")
    block = HostBuffer(BLOCK)
    for at in range(0, size, BLOCK):
        part = block.array[: min(BLOCK, size - at)]
        pattern.write(part, at)
        backend.write(place.buffer, at, block.address, part.size)
        del part
    block.close()


def _in_memory(
    backend: Backend,
    need: Need,
    *,
    pinned: bool,
    undo: contextlib.ExitStack,
    lead: int | None = None,
) -> HostPlace:
    """Host memory, touched, and registered if the user's buffer is pinned."""
    buffer = HostBuffer(need.size, lead=lead)
    undo.callback(buffer.close)
    buffer.touch(THREADS)
    if pinned and need.size:
        backend.register(buffer.address, buffer.size)
        undo.callback(backend.unregister, buffer.address)
        buffer.pinned = True
    return HostPlace(buffer)
