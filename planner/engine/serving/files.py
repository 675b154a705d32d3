"""The safetensors files of a load: what of each is read, and where its tensors come to lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from planner.engine.serving.bank import Memory
from planner.engine.serving.ends import Cache, FileEnd, MemoryEnd
from planner.engine.serving.parts import Part
from planner.errors import InputError
from planner.plan.paths import paths_of
from planner.plan.safetensors import LENGTH_BYTES, Header, Tensor, parse_header, read_raw

ALIGN: Final = 256
"""Bytes that a chosen tensor's place is a multiple of, like what cudaMalloc returns."""
SOON: Final = 256 << 10
"""Bytes of headers that are parsed before the bytes move: 8 ms at most. A longer one would keep
the interpreter from the workers: json lets nobody else run, 0.3 s for 100,000 tensors."""


@dataclass
class LoadedFile:
    """One file: its header as it stands, and once parsed; what is read goes to `target`.

    `places` says where in the target each chosen tensor begins; without a choice the data lies
    there as in the file.
    """

    path: Path
    raw: bytes
    size: int
    target: MemoryEnd
    header: Header | None = None
    places: Mapping[str, int] | None = None
    memory: Memory | None = None
    ranges: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def data_offset(self) -> int:
        """Where in the file the tensors' bytes begin."""
        return LENGTH_BYTES + len(self.raw)

    def parse(self) -> Header:
        """The checked header, parsed once; raises `InputError`."""
        if self.header is None:
            self.header = parse_header(self.path, self.raw, self.size)
            self.raw = self.raw if self.memory is None else b""
        return self.header

    def parts(self, source: FileEnd) -> list[Part]:
        """What is read of the file."""
        base = self.data_offset
        return [Part(source, base + at, self.target, to, size) for at, to, size in self.ranges]

    def tensors(self) -> Iterable[tuple[Tensor, int]]:
        """The chosen tensors, and where in the target each begins."""
        header = self.parse()
        if self.places is None:
            return ((tensor, tensor.begin) for tensor in header.tensors)
        places = self.places
        return ((t, places[t.name]) for t in header.tensors if t.name in places)


def find_files(paths: Any) -> list[LoadedFile]:
    """The files that a path, glob, folder, index, or several of them stand for, headers unparsed.

    Raises `InputError` for what is no safetensors file, and why.
    """
    written = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    names = [os.fspath(path) for path in written]
    found = []
    for path in dict.fromkeys(paths_of(names, Path.cwd())):
        raw, size = read_raw(path)
        whole = size - LENGTH_BYTES - len(raw)
        file = LoadedFile(path, raw, size, MemoryEnd(0, whole))
        file.ranges = [(0, 0, whole)]
        found.append(file)
    if not found:
        raise InputError("there is nothing to load", hint="name at least one file")
    return found


def choose(files: Sequence[LoadedFile], names: Iterable[str]) -> None:
    """Read only some tensors; raises `InputError` for names that no file has."""
    wanted = dict.fromkeys(names)
    left = set(wanted)
    for file in files:
        chosen = [tensor for tensor in file.parse().tensors if tensor.name in wanted]
        left.difference_update(tensor.name for tensor in chosen)
        places: dict[str, int] = {}
        file.ranges, file.places = [], places
        at, reached = 0, -1
        for tensor in chosen:
            if (
                tensor.begin != reached
            ):  # else it follows the last one, in the memory as in the file
                at = -(-at // ALIGN) * ALIGN
            size, reached = tensor.end - tensor.begin, tensor.end
            places[tensor.name] = at
            file.ranges.append((tensor.begin, at, size))
            at += size
        file.target.size = at
    if left:
        some = ", ".join(sorted(left)[:5])
        raise InputError(
            f"no file has the tensors {some}{' and more' if len(left) > 5 else ''}",
            hint="the names are those of the files' headers",
        )


def parse_soon(files: Sequence[LoadedFile]) -> bool:
    """Whether the headers are short enough to be parsed before the bytes move."""
    return sum(len(file.raw) for file in files) <= SOON


def open_files(files: Sequence[LoadedFile], cache: Cache) -> list[FileEnd]:
    """Every file opened; none stays open where one cannot be."""
    ends: list[FileEnd] = []
    try:
        ends.extend(FileEnd(str(file.path), cache) for file in files)
    except BaseException:
        for end in ends:
            end.close()
        raise
    return ends


def entries(files: Sequence[LoadedFile]) -> dict[str, tuple[Tensor, Memory, int]]:
    """All tensors by name; raises `InputError` where two files have one of the same name."""
    found: dict[str, tuple[Tensor, Memory, int]] = {}
    count = 0
    for file in files:
        memory = file.memory
        if memory is None:
            raise RuntimeError("a file's tensors are asked for before its memory was made")
        held = {tensor.name: (tensor, memory, start) for tensor, start in file.tensors()}
        count += len(held)
        found |= held
    if count != len(found):
        name = _twice(files)
        raise InputError(
            f'several files have a tensor "{name}"', hint="load them one by one, or choose tensors"
        )
    return found


def _twice(files: Sequence[LoadedFile]) -> str:
    seen: set[str] = set()
    for file in files:
        for tensor, _ in file.tensors():
            if tensor.name in seen:
                return tensor.name
            seen.add(tensor.name)
    return ""
