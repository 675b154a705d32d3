"""Kernels that touch memory where it lies: of the host, managed, or the GPU's own.

`planner.engine.touch` says which places; the arithmetic here is the same. Loads go by 16 bytes per
thread, neighbouring threads next to each other, so that a warp asks for whole lines.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Engine
from planner.engine.backends.cuda_lane import CudaLane, Owner
from planner.engine.touch import SCATTER, Touch
from planner.errors import UnavailableError

SOURCE: Final = r"""
typedef unsigned long long u64;

__device__ __forceinline__ u64 mixed(u64 z) {
    z = (z + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

__device__ __forceinline__ unsigned folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

/* Keep 16 bytes; the places in the GPU's own memory need not be aligned. */
__device__ __forceinline__ void keep(unsigned char* to, uint4 v) {
    if (((u64)to & 15) == 0) { *(uint4*)to = v; return; }
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 16; ++k) to[k] = (unsigned char)(words[k >> 2] >> (8 * (k & 3)));
}

extern "C" __global__ void dense(u64 target, u64 source, u64 size, u64 sink) {
    unsigned char* to = (unsigned char*)target;
    const unsigned char* from = (const unsigned char*)source;
    const u64 me = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 all = (u64)gridDim.x * blockDim.x;
    u64 head = (16 - (source & 15)) & 15;
    if (head > size) head = size;
    const u64 body = (size - head) / 16;
    const uint4* rows = (const uint4*)(from + head);
    unsigned seen = 0;
    for (u64 i = me; i < body; i += all) {
        const uint4 v = rows[i];
        if (to) keep(to + head + i * 16, v); else seen ^= folded(v);
    }
    /* What is left before the first whole row and behind the last: fewer than 32 bytes. */
    const u64 rest = size - body * 16;
    for (u64 i = me; i < rest; i += all) {
        const u64 at = i < head ? i : i + body * 16;
        if (to) to[at] = from[at]; else seen ^= from[at];
    }
    if (!to && seen) atomicXor((unsigned*)sink, seen);
}

extern "C" __global__ void sparse(
    u64 target, u64 source, u64 unit, u64 count, u64 total, u64 scatter, u64 sink
) {
    unsigned char* to = (unsigned char*)target;
    const unsigned char* from = (const unsigned char*)source;
    const u64 me = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 all = (u64)gridDim.x * blockDim.x;
    const u64 step = (unit % 16 == 0 && source % 16 == 0) ? 16 : 1;
    const u64 parts = unit / step;
    unsigned seen = 0;
    for (u64 j = me; j < count * parts; j += all) {
        const u64 turn = j / parts, part = (j % parts) * step;
        const u64 piece = scatter ? turn * scatter % count : turn;
        u64 place = piece * total / count;
        if (scatter) place += mixed(piece) % ((piece + 1) * total / count - place);
        const unsigned char* at = from + place * unit + part;
        if (step == 16) {
            const uint4 v = *(const uint4*)at;
            if (to) keep(to + piece * unit + part, v); else seen ^= folded(v);
        } else if (to) to[piece * unit + part] = *at;
        else seen ^= *at;
    }
    if (!to && seen) atomicXor((unsigned*)sink, seen);
}
"""
THREADS: Final = 256
BLOCKS_PER_PROCESSOR: Final = 8
"""8 x 256 threads fill a multiprocessor (2048); each has one load of 16 bytes on the way, 4 MB for
132 of them, and 50 GB/s over a round trip of a few microseconds need far less."""


def scatter_of(touch: Touch) -> int:
    """The step from one thread's piece to the next one's; 0 for rising order.

    A prime shares no factor with any count but its own multiples.
    """
    if not touch.scattered:
        return 0
    return 1 if touch.pieces % SCATTER == 0 else SCATTER % touch.pieces or 1


def imported_cupy() -> Any:
    """CuPy, which compiles and launches kernels; it is imported where the first one is made.

    Raises `UnavailableError` where it is broken, with what it says.
    """
    try:
        import cupy
    except Exception as error:  # a broken library raises whatever its parts do
        raise UnavailableError(
            f"CuPy cannot be imported: {error}",
            hint="install the extra cuda12 or cuda13 anew; --backend host emulates the GPU in RAM",
        ) from error
    if not hasattr(cupy.cuda.Stream, "from_external"):
        raise UnavailableError(
            f"CuPy {cupy.__version__} is too old", hint="the extras cuda12 and cuda13 take 14.2"
        )
    return cupy


class _Handle:
    """A stream by its handle, as CUDA's Python libraries hand streams to each other."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol, and the handle."""
        return 0, self.handle


class Kernels:
    """The kernels, compiled and launched once on a device, which is current afterwards."""

    def __init__(self, gpu: int) -> None:
        cupy = imported_cupy()
        cupy.cuda.Device(gpu).use()
        self._foreign = cupy.cuda.Stream.from_external
        self._u64 = cupy.uint64
        processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._blocks = processors * BLOCKS_PER_PROCESSOR
        self._dense = cupy.RawKernel(SOURCE, "dense")
        self._sparse = cupy.RawKernel(SOURCE, "sparse")
        # What passes that keep nothing leave behind, so that the compiler cannot drop the loads.
        self._sink = cupy.cuda.Memory(256)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            for touch in (Touch(0, 0, 0, 0, 0), Touch(0, 0, 16, 0, 1)):
                self.launch(touch)
        stream.synchronize()

    def stream(self, handle: int) -> Any:
        """CuPy's view of a stream, to launch kernels in; the stream stays whose it is."""
        return self._foreign(_Handle(handle))

    def launch(self, touch: Touch) -> None:
        """Queue one pass on the current stream."""
        u64, sink = self._u64, self._sink.ptr
        if touch.unit:
            numbers = [touch.unit, touch.pieces, touch.total, scatter_of(touch)]
            call, rows = self._sparse, touch.pieces * max(1, touch.unit // 16)
        else:
            numbers = [touch.pieces]
            call, rows = self._dense, touch.pieces // 16 + 32
        blocks = max(1, min(self._blocks, -(-rows // THREADS)))
        ends = (u64(touch.target), u64(touch.source))
        call((blocks,), (THREADS,), (*ends, *(u64(n) for n in numbers), u64(sink)))


class CudaKernelLane(CudaLane):
    """See `backends.base.KernelLane`."""

    __slots__ = ("_kernels", "_reached", "_stream")

    def __init__(
        self, owner: Owner, kernels: Kernels, engine: Engine, slots: int, *, spin: bool
    ) -> None:
        super().__init__(owner, engine, slots, spin=spin)
        self._kernels = kernels
        self._reached: dict[int, int] = {}
        try:
            self._stream = kernels.stream(self._ptr)
        except BaseException:
            self.close()
            raise

    def touch(self, slot: int, touch: Touch, reads: int = 1) -> None:
        """Launch the passes, one behind the other."""
        self._backend.attach(self.engine.gpu)
        touch = touch._replace(source=self._reach(touch.source), target=self._reach(touch.target))
        self._issued[slot] = perf_counter()
        with self._stream:
            for turn in range(reads):
                self._kernels.launch(touch if turn == 0 else touch._replace(target=0))
        self._mark(slot)

    def _reach(self, address: int) -> int:
        """The address by which the device reaches host memory: the same on nearly all computers."""
        if not address:
            return 0
        found = self._reached.get(address)
        if found is None:
            found = self._driver.pointer(address).on_device or address
            self._reached[address] = found
        return found
