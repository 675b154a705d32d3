"""What a backend offers: memory, copy engines, clocks. How a strategy uses them is not its matter.

Addresses are plain integers, so that the cost of a chunk in the interpreter stays at a few
microseconds. All calls may come from any thread unless said otherwise; each worker thread calls
`attach` for every GPU it uses before anything else, and owns the lanes that it made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from planner.engine.memory import HostBuffer

if TYPE_CHECKING:
    from planner.engine.touch import Touch

Name = Literal["null", "host", "cuda"]
EngineKind = Literal["h2d", "d2h", "peer", "local", "kernel", "pages_in", "pages_out"]
"""Copy engines, the multiprocessors, and the driver's moves of managed pages to a GPU and back."""
Part = tuple[int, int, int]
"""(target address, source address, bytes)"""
SlotCopy = tuple[int, int, int, int]
"""(slot, target address, source address, bytes)"""


Server = tuple[str, int]
"""What serves one copy after another: an engine's kind and its GPU."""


class Engine(NamedTuple):
    """What serves copies in turn. `gpu` is the driver's index; `peer` where a peer copy goes to."""

    kind: EngineKind
    gpu: int
    peer: int | None = None

    @property
    def server(self) -> Server:
        """What serves it: all peer copies that leave a GPU share one server."""
        return self.kind, self.gpu


@dataclass(slots=True)
class DeviceBuffer:
    """Memory of a GPU or its emulation: `address` is the first byte, `owner` the backend's own."""

    gpu: int
    address: int
    size: int
    owner: Any = None


@dataclass(frozen=True, slots=True)
class Description:
    """What the backend runs on: names of its GPUs, the driver, versions of libraries."""

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    libraries: dict[str, str] = field(default_factory=dict)


class Lane(Protocol):
    """One worker's way to one copy engine: a stream, and an event for each of its slots.

    `log` holds (issue, end) of each chunk in turn, on the clock of `time.perf_counter`.
    """

    engine: Engine

    @property
    def log(self) -> list[float]:
        """What was logged and not cleared; asked for between runs, by one thread."""

    def copy(self, slot: int, target: int, source: int, length: int) -> None:
        """Queue one copy and mark the slot; returns at once. The slot has nothing in flight."""

    def copy_parts(self, slot: int, parts: Sequence[Part]) -> None:
        """Queue several copies and mark the slot behind the last."""

    def copy_slots(self, copies: Sequence[SlotCopy]) -> None:
        """Queue a copy for each of several slots, in turn; they may arrive all at once."""

    def copy_now(self, target: int, source: int, length: int) -> None:
        """The driver's blocking copy, of ordinary memory; returns when the bytes have arrived."""

    def follow(self, slot: int, other: Lane) -> None:
        """The slot's next copy starts only when the same slot of `other` has arrived."""

    def wait(self, slot: int) -> None:
        """Block until the slot's copy has arrived, and log it; nothing where none is in flight.

        Raises whatever the copy failed with.
        """

    def landed(self, slot: int) -> bool:
        """What `wait` does, without blocking: whether the slot's copy has arrived, or none flies.

        Raises whatever the copy failed with.
        """

    def arrived(self, slot: int) -> None:
        """Block until what was last queued in the slot has arrived; any thread may ask.

        Changes nothing, and returns at once where nothing was queued.
        """

    def settle(self) -> None:
        """Wait for all slots and never raise: the memory may be given back after it."""

    def close(self) -> None:
        """Give stream and events back; nothing is in flight."""


def settle_all(lanes: Iterable[Lane]) -> None:
    """Leave nothing in flight: the memory is about to be given back."""
    for lane in lanes:
        lane.settle()


class KernelLane(Lane, Protocol):
    """A lane whose work is done by kernels that read or write memory where it lies."""

    def touch(self, slot: int, touch: Touch, reads: int = 1) -> None:
        """Queue `reads` passes of a kernel and mark the slot; returns at once.

        Every pass reads again what it touches; only the first keeps it, so that further passes
        over a GPU's own memory cost one read each.
        """


class Storage(Protocol):
    """One file that a GPU reads or writes without host memory."""

    def read(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """Fill `length` bytes of the buffer from `at` on with the file's from `offset` on."""

    def write(self, buffer: DeviceBuffer, at: int, offset: int, length: int) -> None:
        """Write them the other way."""

    def close(self) -> None:
        """Close the file."""


class Backend(Protocol):
    """Primitives; see `host` and `cuda`.

    Raises of all methods: the driver's own errors, which the caller wraps with what it was doing;
    `UnavailableError` and `InfeasibleError` where they are named.
    """

    @property
    def name(self) -> Name:
        """What it is called in results."""

    @property
    def emulated(self) -> bool:
        """Whether its GPUs are not real."""

    def describe(self, gpus: Sequence[int]) -> Description:
        """Names and versions for the record."""

    def lacks(self, strategy: str, across: tuple[str, str], gpus: Sequence[int]) -> str | None:
        """Why the strategy cannot run on these GPUs, or `None`."""

    def attach(self, gpu: int) -> None:
        """Make the calling thread ready to use the GPU (the first call makes its context)."""

    def free_memory(self, gpu: int) -> int | None:
        """Bytes that can still be allocated, `None` where the backend cannot know."""

    def allocate(self, gpu: int, size: int) -> DeviceBuffer:
        """Memory of the GPU, contents undefined."""

    def release(self, buffer: DeviceBuffer) -> None:
        """Give it back; it is used by no copy any more."""

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        """Page-lock touched memory so that copy engines reach it; `read_only` for file mappings."""

    def unregister(self, address: int) -> None:
        """Undo `register`."""

    def lane(self, engine: Engine, slots: int, *, spin: bool = True, timed: bool = True) -> Lane:
        """A lane of the calling worker; `spin` burns a core in `wait` for a quicker answer.

        One that is not `timed` logs nothing and costs less a chunk.
        """

    def kernel_lane(self, gpu: int, slots: int, *, spin: bool = True) -> KernelLane:
        """A lane of kernels on the GPU; it reaches registered, managed and its own memory."""

    def page_lane(self, gpu: int, slots: int, *, inward: bool, spin: bool = True) -> Lane:
        """A lane that moves managed memory ahead of its use; copies name the same bytes twice."""

    def compile(self, gpu: int) -> None:
        """Make the kernels of `kernel_lane` ready: what they cost once is never timed."""

    def combined(self, size: int) -> HostBuffer:
        """Page-locked host memory that is write-combined where the computer has that."""

    def managed(self, gpu: int, size: int) -> HostBuffer:
        """Memory that the driver moves between host and GPU by page; not touched yet.

        Raises `InfeasibleError` for more than half of the GPU's free memory.
        """

    def seen_by(self, gpu: int, buffer: HostBuffer) -> DeviceBuffer:
        """Managed memory as the GPU sees it; it belongs to `buffer` and is never released."""

    def bring(self, buffer: HostBuffer, gpu: int | None) -> None:
        """Move all of managed memory to the GPU, or to the host (`None`), and wait; never timed."""

    def keep_on_host(self, buffer: HostBuffer, gpu: int) -> None:
        """Advise managed memory to stay on the host, mapped by the GPU."""

    def storage(self, path: str, *, writes: bool = False) -> Storage:
        """A file that GPUs read or write directly."""

    def open_peer(self, gpu: int, peer: int) -> None:
        """Let the two GPUs reach each other's memory; undone by `close_peer` and `close`."""

    def close_peer(self, gpu: int, peer: int) -> None:
        """Undo `open_peer`, as far as it was this backend that let them; nothing copies there."""

    def peer_is_open(self, gpu: int, peer: int) -> bool:
        """Whether one of the two GPUs reaches the other's memory."""

    def numa_node(self, gpu: int) -> int | None:
        """The NUMA node beside the GPU, `None` where it has none or nobody knows."""

    def start_clock(self) -> None:
        """Tie the engines' clocks to `time.perf_counter` for the sample that begins."""

    def fill(self, buffer: DeviceBuffer, value: int) -> None:
        """Set every byte, and wait."""

    def read(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Copy from the GPU to host memory, and wait; never timed."""

    def write(self, buffer: DeviceBuffer, offset: int, address: int, length: int) -> None:
        """Copy from host memory to the GPU, and wait; never timed."""

    def compute(self, gpu: int, check: Callable[[], None]) -> Callable[[float], None]:
        """A stand-in for work: keeps the GPU busy for so many seconds, and waits.

        `check` is called now and then and raises where the run is called off.
        """

    def close(self) -> None:
        """Give everything back that is left."""
