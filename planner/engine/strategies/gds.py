"""A disk and a GPU without host memory between them: GPUDirect Storage."""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.backends.base import DeviceBuffer, Storage
from planner.engine.places import DevicePlace, FilePlace, SinkPlace
from planner.engine.strategies.base import Address, Bound, Hands, Stage, logged


def _memory(place: object) -> Callable[[], DeviceBuffer]:
    """The GPU's memory that a place has when it is used."""
    if not isinstance(place, DevicePlace):
        raise TypeError("GPUDirect Storage needs a GPU's memory at one side")

    def found() -> DeviceBuffer:
        if place.buffer is None:
            raise RuntimeError("the device memory is used before it is allocated")
        return place.buffer

    return found


def _read(bound: Bound, hands: Hands, _before: Address | None, _after: Address | None) -> None:
    """Each worker reads its chunks by requests of its own, from files that it opened itself."""
    if not isinstance(bound.source, FilePlace):
        raise TypeError("a read needs a file as its source")
    ranges, memory = bound.source.ranges, _memory(bound.target)
    lows, sizes = bound.chunks.lows, bound.chunks.sizes
    files: list[Storage] = []
    for source in ranges.sources:
        files.append(bound.backend.storage(source.path))
        hands.undo.callback(files[-1].close)
    places = [next(ranges.segments(low, low + 1))[1:3] for low in lows]

    def read(_slot: int, chunk: int) -> None:
        number, offset = places[chunk]
        files[number].read(memory(), lows[chunk], offset, sizes[chunk])

    hands.pool = logged(read, hands, sizes)


def _write(bound: Bound, hands: Hands, _before: Address | None, _after: Address | None) -> None:
    """Each worker writes its chunks; the file is a new one in every run."""
    if not isinstance(bound.target, SinkPlace):
        raise TypeError("a write needs a file as its target")
    sink, memory = bound.target.sink, _memory(bound.source)
    lows, sizes = bound.chunks.lows, bound.chunks.sizes
    opened: list[Storage] = []

    def close() -> None:
        while opened:
            opened.pop().close()

    def begin() -> None:
        close()
        opened.append(bound.backend.storage(str(sink.part), writes=True))

    def write(_slot: int, chunk: int) -> None:
        opened[0].write(memory(), lows[chunk], lows[chunk], sizes[chunk])

    hands.begin.append(begin)
    hands.undo.callback(close)
    hands.pool = logged(write, hands, sizes)


GDS_IN: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "gds": lambda _gpu: (Stage("pool", _read),)
}
GDS_OUT: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "gds": lambda _gpu: (Stage("pool", _write),)
}
