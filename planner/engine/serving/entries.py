"""The tensors of a load by name: each entry is made when it is asked for.

A file whose header has an index gives names as text only when the first of them is asked for, so a
load of one file does not pay for them. Several files are named at once: no two may have a tensor of
the same name.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from planner.engine.serving.bank import Memory
from planner.engine.serving.dlpack import width_of
from planner.engine.serving.files import LoadedFile
from planner.errors import InputError
from planner.plan.safetensors import Tensor
from planner.plan.safetensors_index import Index


class Parsed:
    """The chosen tensors of a parsed header, and where in the memory each begins."""

    def __init__(self, file: LoadedFile) -> None:
        header, places = file.parse(), file.places
        self.metadata = header.metadata
        if places is None:
            self._all = [(tensor, tensor.begin) for tensor in header.tensors]
        else:
            self._all = [(t, places[t.name]) for t in header.tensors if t.name in places]

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Names to numbers, in the order of the bytes."""
        return {tensor.name: k for k, (tensor, _) in enumerate(self._all)}

    def entry(self, _name: str, number: int) -> tuple[Tensor, int]:
        """A tensor, and where it begins."""
        return self._all[number]

    def misaligned(self, address: int) -> int:
        """How many tensors of memory at an address do not suit their dtype."""
        return sum(
            t.end > t.begin and (address + at) % width_of(t.dtype) != 0 for t, at in self._all
        )


class Indexed:
    """All tensors of an indexed header; they begin where the header says."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.metadata = index.metadata

    def __len__(self) -> int:
        return len(self._index)

    @property
    def numbers(self) -> dict[str, int]:
        """Names to numbers, in the order of the bytes."""
        return self._index.numbers

    def entry(self, name: str, number: int) -> tuple[Tensor, int]:
        """A tensor, and where it begins."""
        tensor = self._index.tensor(name, number)
        return tensor, tensor.begin

    def misaligned(self, address: int) -> int:
        """How many tensors of memory at an address do not suit their dtype."""
        index = self._index
        widths = np.array([width_of(dtype) for dtype in index.dtypes], np.int64)[index.kinds]
        wrong = ((index.begins + address) % widths != 0) & (index.ends > index.begins)
        return int(np.count_nonzero(wrong))


class _File(NamedTuple):
    """A file's tensors, its memory, and the number of the first of them among all."""

    held: Parsed | Indexed
    memory: Memory
    first: int


class Entries(Mapping[str, tuple[Tensor, Memory, int]]):
    """Names to (entry, memory, where it begins in the memory).

    Raises `InputError` where two files have a tensor of the same name.
    """

    def __init__(self, files: Sequence[LoadedFile]) -> None:
        self._files: list[_File] = []
        count = 0
        for file in files:
            if file.memory is None:
                raise RuntimeError("a file's tensors are asked for before its memory was made")
            whole = file.index is not None and file.places is None
            held = Indexed(file.index) if whole and file.index is not None else Parsed(file)
            self._files.append(_File(held, file.memory, count))
            count += len(held)
        self._firsts = [file.first for file in self._files]
        if len(self._files) > 1:
            self._refuse_twice()

    def _refuse_twice(self) -> None:
        if len(self._numbers) == sum(len(file.held.numbers) for file in self._files):
            return
        seen: set[str] = set()
        for file in self._files:
            for name in file.held.numbers:
                if name in seen:
                    raise InputError(
                        f'several files have a tensor "{name}"',
                        hint="load them one by one, or choose tensors",
                    )
                seen.add(name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Names to numbers among the tensors of all files."""
        if len(self._files) == 1:
            return self._files[0].held.numbers
        found: dict[str, int] = {}
        for file in self._files:
            found |= {name: file.first + k for name, k in file.held.numbers.items()}
        return found

    @property
    def metadata(self) -> dict[str, str]:
        """What the headers hold beside tensors."""
        found: dict[str, str] = {}
        for file in self._files:
            found |= file.held.metadata
        return found

    def misaligned(self) -> int:
        """Tensors whose place does not suit their dtype."""
        return sum(file.held.misaligned(file.memory.address) for file in self._files)

    def __getitem__(self, name: str) -> tuple[Tensor, Memory, int]:
        number = self._numbers[name]
        file = self._files[bisect_right(self._firsts, number) - 1]
        entry, start = file.held.entry(name, number - file.first)
        return entry, file.memory, start

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers
