"""Files and host memory: `buffered` and `direct` reads and writes, `mmap`."""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.aio import Read
from planner.engine.files import (
    read_aligned,
    read_exactly,
    start_writing,
    write_all,
    write_exactly,
)
from planner.engine.memory import PAGE, round_up
from planner.engine.places import FilePlace, HostPlace, SinkPlace
from planner.engine.sink import Sink
from planner.engine.strategies.base import Address, Asked, Bound, Hands, Operation, Stage, logged
from planner.errors import UnavailableError


def _views(bound: Bound, hands: Hands, *, room: int = 0) -> Callable[[int, int], memoryview]:
    """Where a worker's chunks lie in host memory, as bytes: in its slots or in a whole buffer."""
    lows, sizes = bound.chunks.lows, bound.chunks.sizes
    if bound.ring is not None:
        slots = bound.ring.views(hands.number)
        return lambda slot, chunk: slots[slot][: sizes[chunk] + room]
    place = bound.target if isinstance(bound.target, HostPlace) else bound.source
    if not isinstance(place, HostPlace):
        raise TypeError("a pool stage without a ring needs host memory at one side")
    return lambda _slot, chunk: place.buffer.view[lows[chunk] : lows[chunk] + sizes[chunk]]


def _places(bound: Bound) -> list[tuple[int, int]]:
    """File descriptor and offset in its file of each chunk; whoever comes first finds them."""
    with bound.guard:
        if bound.places is None:
            bound.places = _places_of(bound)
        return bound.places


def _places_of(bound: Bound) -> list[tuple[int, int]]:
    if not isinstance(bound.source, FilePlace):
        raise TypeError("a read needs a file as its source")
    ranges = bound.source.ranges
    found = []
    for low in bound.chunks.lows:
        _, number, offset, _ = next(ranges.segments(low, low + 1))
        found.append((ranges.fds[number], offset))
    return found


def _read(bound: Bound, hands: Hands, _before: Address | None, _after: Address | None) -> None:
    """`pread` through the page cache."""
    places, view = _places(bound), _views(bound, hands)

    sizes, release = bound.chunks.sizes, bound.terms.release

    def read(slot: int, chunk: int, done: int = 0) -> None:
        fd, offset = places[chunk]
        read_exactly(fd, view(slot, chunk), offset, done)
        if release is not None:
            release((fd, offset, sizes[chunk]))

    hands.pool = logged(read, hands, sizes)
    if bound.ring is None:
        return
    slots = bound.ring.addresses(hands.number)

    def ask(slot: int, chunk: int) -> Read:
        fd, offset = places[chunk]
        return Read(fd, slots[slot], sizes[chunk], offset)

    hands.asks = Asked(ask, read)


def _read_direct(
    bound: Bound, hands: Hands, _before: Address | None, _after: Address | None
) -> None:
    """`pread` around the page cache: whole blocks, so a chunk may begin inside its slot."""
    if not isinstance(bound.source, FilePlace):
        raise TypeError("a read needs a file as its source")
    align = bound.source.ranges.align
    places = _places(bound)
    operation = (
        _direct_into_slots(bound, hands, places, align)
        if bound.ring is not None
        else _direct_into_memory(bound, places, align)
    )
    hands.pool = logged(operation, hands, bound.chunks.sizes)


def _direct_into_slots(
    bound: Bound, hands: Hands, places: list[tuple[int, int]], align: int
) -> Operation:
    ring = bound.ring
    if ring is None:
        raise TypeError("there is no ring")
    sizes, slots = bound.chunks.sizes, ring.views(hands.number)
    addresses = ring.addresses(hands.number)

    def read(slot: int, chunk: int, done: int = 0) -> None:
        fd, offset = places[chunk]
        lead = offset % align
        needed = lead + sizes[chunk]
        read_aligned(fd, slots[slot][: round_up(needed, align)], offset - lead, needed, done)
        hands.leads[slot] = lead

    def ask(slot: int, chunk: int) -> Read:
        fd, offset = places[chunk]
        lead = offset % align
        return Read(fd, addresses[slot], round_up(lead + sizes[chunk], align), offset - lead)

    hands.asks = Asked(ask, read)
    return read


def _direct_into_memory(bound: Bound, places: list[tuple[int, int]], align: int) -> Operation:
    """Into a whole buffer whose addresses agree with the file's offsets in their low bits."""
    if not isinstance(bound.target, HostPlace):
        raise TypeError("a direct read without a ring needs host memory as its target")
    if len({fd for fd, _ in places}) > 1:
        raise UnavailableError(
            "direct: several files cannot be read around the page cache into one buffer",
            hint="pin the strategy buffered for disk -> host",
        )
    lows, sizes, place = bound.chunks.lows, bound.chunks.sizes, bound.target

    def read(_slot: int, chunk: int) -> None:
        fd, offset = places[chunk]
        lead = offset % align
        needed = lead + sizes[chunk]
        view = place.buffer.around(lows[chunk] - lead, round_up(needed, align))
        read_aligned(fd, view, offset - lead, needed)

    return read


def _write(bound: Bound, hands: Hands, _before: Address | None, _after: Address | None) -> None:
    """`pwrite` into the page cache; the kernel writes it to the disk later, for `fsync` at once."""
    if not isinstance(bound.target, SinkPlace):
        raise TypeError("a write needs a file as its target")
    sink, lows, sizes = bound.target.sink, bound.chunks.lows, bound.chunks.sizes
    write = operation = _writer(bound, hands, sink)
    if sink.durable:
        begin = start_writing()

        def write_out(slot: int, chunk: int) -> None:
            write(slot, chunk)
            begin(sink.fd, lows[chunk], sizes[chunk])

        operation = write_out
    hands.pool = logged(operation, hands, sizes)


def _writer(bound: Bound, hands: Hands, sink: Sink) -> Operation:
    """`pwrite` of a chunk, or of all of its pieces by one call."""
    lows, sizes, place = bound.chunks.lows, bound.chunks.sizes, bound.source
    if bound.ring is None and isinstance(place, HostPlace) and place.layout is not None:
        runs, memory = place.layout.runs, place.buffer.view

        def write_pieces(_slot: int, chunk: int) -> None:
            low = lows[chunk]
            pieces = [memory[at : at + n] for _, at, n in runs(low, low + sizes[chunk])]
            write_all(sink.fd, pieces, low)

        return write_pieces
    view = _views(bound, hands)

    def write(slot: int, chunk: int) -> None:
        write_exactly(sink.fd, view(slot, chunk), lows[chunk])

    return write


def _write_direct(
    bound: Bound, hands: Hands, _before: Address | None, _after: Address | None
) -> None:
    """`pwrite` around the page cache of whole pages; what is left of a chunk goes through it.

    So any chunk and any size will do: no page is written in both ways.
    """
    if not isinstance(bound.target, SinkPlace):
        raise TypeError("a write needs a file as its target")
    sink, lows, sizes = bound.target.sink, bound.chunks.lows, bound.chunks.sizes
    sink.go_around()
    view, address = _views(bound, hands), _addresses(bound, hands)

    def write(slot: int, chunk: int) -> None:
        data, low = view(slot, chunk), lows[chunk]
        fits = low % PAGE == 0 and address(slot, chunk) % PAGE == 0
        whole = len(data) - len(data) % PAGE if fits else 0
        if whole:
            write_exactly(sink.direct_fd, data[:whole], low)
        if whole < len(data):
            write_exactly(sink.fd, data[whole:], low + whole)

    hands.pool = logged(write, hands, sizes)


def _addresses(bound: Bound, hands: Hands) -> Callable[[int, int], int]:
    """Where a worker's chunks lie, as `_views` shows them."""
    ring, place, lows = bound.ring, bound.source, bound.chunks.lows
    if ring is not None:
        slots = ring.addresses(hands.number)
        return lambda slot, _chunk: slots[slot]
    if not isinstance(place, HostPlace) or place.layout is not None:
        raise UnavailableError(
            "direct: what lies in pieces is not written around the page cache",
            hint="pin the strategy buffered for host -> disk",
        )
    return lambda _slot, chunk: place.buffer.address + lows[chunk]


READS: dict[str, tuple[Stage, ...]] = {
    "buffered": (Stage("pool", _read, reads=True),),
    "direct": (Stage("pool", _read_direct, reads=True),),
    "mmap": (),
}
"""Disk to host memory; a mapping moves nothing, it only makes bytes reachable."""
WRITES: dict[str, tuple[Stage, ...]] = {
    "buffered": (Stage("pool", _write),),
    "direct": (Stage("pool", _write_direct),),
}
"""Host memory to disk."""
