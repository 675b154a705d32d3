"""Which files, and which bytes of them, a flow reads: from a path, a list, a glob or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from planner.errors import InputError
from planner.plan.paths import SUFFIX, file_size, paths_of
from planner.plan.safetensors import Header, read_header
from planner.plan.schema import FileSource


class Sources(NamedTuple):
    """The files of a flow in the order they are read, and the bytes of each tensor in them."""

    files: tuple[FileSource, ...]
    tensor_sizes: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """All bytes together."""
        return sum(file.size_bytes for file in self.files)


def find_sources(written: Sequence[str], folder: Path) -> Sources:
    """The files that `written` names, relative names starting from `folder`.

    A name is a file, a glob, a folder of safetensors or the index of one. The data of a
    safetensors file starts behind its header, which is not moved; another file counts whole.

    Raises `InputError` for a name that gives no readable file.
    """
    files: list[FileSource] = []
    sizes: list[int] = []
    for path in paths_of(written, folder):
        if path.suffix == SUFFIX:
            header = _header(path)
            sizes.extend(tensor.end - tensor.begin for tensor in header.tensors)
            files.append(
                FileSource(
                    path=str(path),
                    offset=header.data_offset,
                    size_bytes=header.data_bytes,
                    pieces=len(header.tensors),
                )
            )
        else:
            size = file_size(path)
            sizes.append(size)
            files.append(FileSource(path=str(path), offset=0, size_bytes=size))
    return Sources(tuple(files), tuple(sizes))


def clip(sources: Sources, size: int) -> tuple[FileSource, ...]:
    """The first `size` bytes of the files; raises `InputError` where they are fewer."""
    if sources.size_bytes < size:
        names = ", ".join(Path(file.path).name for file in sources.files[:3])
        more = "" if len(sources.files) <= 3 else f" and {len(sources.files) - 3} more"
        have = "has" if len(sources.files) == 1 else "have"
        raise InputError(
            f"{names}{more} {have} {sources.size_bytes} bytes, the size asks for {size}",
            hint="make the size smaller, or leave it out to move the whole file",
        )
    kept: list[FileSource] = []
    left = size
    for file in sources.files:
        taken = min(file.size_bytes, left)
        if taken or not kept:
            kept.append(file.model_copy(update={"size_bytes": taken}))
        left -= taken
    return tuple(kept)


def _header(path: Path) -> Header:
    file_size(path)
    return read_header(path)
