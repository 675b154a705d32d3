"""What a load returns: names to tensors, each a view made when it is asked for."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from planner.engine.backends.base import Engine
from planner.engine.serving import dlpack
from planner.engine.serving.bank import Memory
from planner.engine.serving.report import LoadReport
from planner.plan.safetensors import Tensor as Entry


class Tensor:
    """One tensor where it was loaded: a view, and a holder, of its file's memory.

    Other libraries take it without a copy: `torch.from_dlpack(tensor)`, `cupy.from_dlpack(tensor)`,
    `numpy.asarray(tensor)` where it lies in host memory. The memory is freed when the last view of
    it is gone, theirs included.

    Parameters
    ----------
    name, dtype, shape
        As the file's header has them: `BF16`, `F8_E4M3`, …
    memory, offset, nbytes
        Where its bytes lie.

    """

    __slots__ = ("_memory", "_offset", "dtype", "name", "nbytes", "shape")

    def __init__(
        self, entry: tuple[str, str, tuple[int, ...]], memory: Memory, offset: int, nbytes: int
    ) -> None:
        self.name, self.dtype, self.shape = entry
        self._memory, self._offset, self.nbytes = memory, offset, nbytes

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.dtype}, {self.shape}, {self.device})"

    @property
    def device(self) -> str:
        """`cuda:0` or `cpu`."""
        kind, index = self._memory.device
        return f"cuda:{index}" if kind == dlpack.CUDA else "cpu"

    @property
    def data_ptr(self) -> int:
        """The address of the first byte; good while this tensor or another view lives."""
        return self._memory.address + self._offset

    @property
    def raw(self) -> Tensor:
        """The same bytes as a flat `U8` tensor, for readers that lack the dtype."""
        return Tensor((self.name, "U8", (self.nbytes,)), self._memory, self._offset, self.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.device

    def __dlpack__(
        self,
        *,
        stream: object = None,  # all bytes arrived before the load returned
        max_version: tuple[int, int] | None = None,  # the old layout always does
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self._memory.device:
            raise BufferError(f"{self.name} is on {self.device}; planner.transfer moves it")
        dtype = dlpack.DTYPES.get(self.dtype)
        if dtype is None:
            raise BufferError(f"DLPack has no layout for {self.dtype} of {self.name}; take .raw")
        source = self._copied() if copy else self
        address = source.data_ptr
        return dlpack.export(address, self._memory.device, dtype, self.shape, source.memory)

    @property
    def memory(self) -> Memory:
        """What holds the bytes."""
        return self._memory

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        dtype = dlpack.DTYPES.get(self.dtype)
        if self._memory.device[0] != dlpack.CUDA or dtype is None or dtype.numpy is None:
            raise AttributeError("__cuda_array_interface__")
        typestr = "|b1" if self.dtype == "BOOL" else _typestr(dtype.numpy)
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.data_ptr, False),
            "version": 3,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 - numpy's
        import numpy as np

        view = self.numpy()
        return np.array(view, dtype=dtype, copy=copy)

    def numpy(self) -> Any:
        """A numpy array over the same bytes of host memory.

        Raises `TypeError` for a tensor on a GPU, and for a dtype that numpy lacks (bfloat16 and
        float8 need the package ml_dtypes to be imported).
        """
        import numpy as np

        if self._memory.device[0] != dlpack.CPU:
            raise TypeError(f"{self.name} is on {self.device}: copy it to the host first")
        kind = self._numpy_dtype()
        if not self.nbytes:
            return np.empty(self.shape, kind)
        span = (ctypes.c_ubyte * self.nbytes).from_address(self.data_ptr)
        vars(span)["owner"] = self._memory  # the array holds the span
        return np.frombuffer(memoryview(span), np.uint8).view(kind).reshape(self.shape)

    def _numpy_dtype(self) -> Any:
        dtype = dlpack.DTYPES.get(self.dtype)
        if dtype is not None and dtype.numpy is not None:
            return dtype.numpy
        found = getattr(sys.modules.get("ml_dtypes"), dlpack.NAMES.get(self.dtype, ""), None)
        if found is None:
            helps = "import ml_dtypes, or take .raw" if self.dtype in dlpack.NAMES else "take .raw"
            raise TypeError(f"numpy has no {self.dtype}, which {self.name} is: {helps}")
        return found

    def _copied(self) -> Tensor:
        """The same tensor in memory of its own, which is aligned for any dtype."""
        memory = _copy(self._memory, self._offset, self.nbytes)
        return Tensor((self.name, self.dtype, self.shape), memory, 0, self.nbytes)


def _typestr(numpy: str) -> str:
    return numpy if numpy.startswith("<") else f"|{numpy}"


def _copy(memory: Memory, offset: int, size: int) -> Memory:
    """A copy of some bytes beside them, on the same device."""
    bank = memory.bank
    if bank is None:
        from planner.engine.memory import copy_memory
        from planner.engine.serving.bank import host_memory

        found, buffer = host_memory(size)
        copy_memory(buffer.address, memory.address + offset, size)
        return found
    gpu = memory.gpu or 0
    found = bank.allocate(gpu, size)
    if size:
        with bank.quietly():
            bank.backend.attach(gpu)
            lane = bank.backend.lane(Engine("local", gpu), 1)
            try:
                lane.copy(0, found.address, memory.address + offset, size)
                lane.wait(0)
            finally:
                lane.settle()
                lane.close()
    return found


class TensorMap(Mapping[str, Tensor]):
    """The tensors of a load by name, in the order of their bytes; a view is made on each access.

    Attributes
    ----------
    report
        How the load went: predicted beside measured.
    metadata
        What the files' headers hold beside tensors.

    """

    def __init__(
        self,
        entries: Mapping[str, tuple[Entry, Memory, int]],
        report: LoadReport,
        metadata: Mapping[str, str],
    ) -> None:
        self._entries = entries
        self.report = report
        self.metadata = dict(metadata)

    def __getitem__(self, name: str) -> Tensor:
        entry, memory, start = self._entries[name]
        size = entry.end - entry.begin
        found = Tensor((entry.name, entry.dtype, entry.shape), memory, start, size)
        return found._copied() if misaligned(entry, memory.address + start) else found  # noqa: SLF001

    def torch(self) -> dict[str, Any]:
        """All tensors as PyTorch's, by name: views, made faster than one by one.

        Raises `UnavailableError` where PyTorch is not there, or lacks a tensor's dtype.
        """
        from planner.engine.serving import in_torch

        def flat(memory: Memory) -> Tensor:
            return Tensor(("", "U8", (memory.size,)), memory, 0, memory.size)

        return in_torch.views(((name, self._entries[name]) for name in self._entries), flat)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return f"TensorMap({len(self)} tensors, {self.report.size_bytes} bytes)"


def misaligned(entry: Entry, address: int) -> bool:
    """Whether a tensor at that address is in the way of its own dtype's alignment."""
    return entry.end > entry.begin and address % dlpack.width_of(entry.dtype) != 0
