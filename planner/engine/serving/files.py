"""The safetensors files of a load: what of each is read, and where its tensors come to lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from planner.engine.memory import round_up
from planner.engine.serving.bank import Memory
from planner.engine.serving.ends import Cache, FileEnd, MemoryEnd
from planner.engine.serving.parts import Part
from planner.errors import InputError
from planner.plan.paths import paths_of, require_name
from planner.plan.safetensors import LENGTH_BYTES, Header, parse_header, read_raw
from planner.plan.safetensors_index import Index, index_of

ALIGN: Final = 256
"""Bytes that a chosen tensor's place is a multiple of, like what cudaMalloc returns."""
SOON: Final = 256 << 10
"""Bytes of a header that may be parsed as JSON while the bytes move: 8 ms at most. A longer one
would keep the interpreter from the workers: json lets nobody else run, 0.3 s for 100,000 tensors.
"""


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
    index: Index | None = None
    places: Mapping[str, int] | None = None
    memory: Memory | None = None
    ranges: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def data_offset(self) -> int:
        """Where in the file the tensors' bytes begin."""
        return LENGTH_BYTES + len(self.raw)

    def look(self) -> None:
        """Index the header, or parse it if it is short; may be called while the bytes move.

        Raises `InputError`.
        """
        if self.header is None and self.index is None:
            self.index = index_of(self.raw, self.size)
            if self.index is None and len(self.raw) <= SOON:
                self.parse()

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


def find_files(paths: Any) -> list[LoadedFile]:
    """The files that a path, glob, folder, index, or several of them stand for, headers unparsed.

    Raises `InputError` for what is no safetensors file, and why.
    """
    written = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    try:
        names = [os.fsdecode(path) for path in written]
    except TypeError as error:
        raise InputError(
            f"{paths!r} is no path, nor are its parts paths",
            hint="name a file, a glob, a folder or an index, or several of them",
        ) from error
    for name in names:  # an unset variable would stand for the current folder
        require_name(name, "name a file, a glob, a folder or an index")
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


def choose(files: Sequence[LoadedFile], names: str | Iterable[str]) -> None:
    """Read only some tensors, or one; raises `InputError` for names that no file has."""
    wanted = dict.fromkeys(_names(names))
    left = set(wanted)
    for file in files:
        chosen = [tensor for tensor in file.parse().tensors if tensor.name in wanted]
        left.difference_update(tensor.name for tensor in chosen)
        places: dict[str, int] = {}
        file.ranges, file.places = [], places
        at, reached = 0, -1
        for tensor in chosen:
            if tensor.begin != reached:  # else it follows the last one, as in the file
                at = round_up(at, ALIGN)
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


def _names(names: Any) -> list[str]:
    """The names, each of which is text."""
    try:
        found = [names] if isinstance(names, str) else list(names)
    except TypeError:
        found = [None]
    if not all(isinstance(name, str) for name in found):
        raise InputError(
            f"tensors={names!r} are no names", hint='give a list, like ["lm_head.weight"]'
        )
    return found


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
