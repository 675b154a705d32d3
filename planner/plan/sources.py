"""Which files, and which bytes of them, a flow reads: from a path, a list, a glob or a folder."""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from planner.errors import InputError
from planner.plan.safetensors import Header, read_header
from planner.plan.schema import FileSource

SUFFIX: Final = ".safetensors"
INDEX_NAME: Final = "model.safetensors.index.json"
"""Written beside the parts of a large model: it maps each tensor to the file that holds it."""


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
            size = _file_size(path)
            sizes.append(size)
            files.append(FileSource(path=str(path), offset=0, size_bytes=size))
    return Sources(tuple(files), tuple(sizes))


def paths_of(written: Sequence[str], folder: Path) -> list[Path]:
    """The files that names, globs, folders and indices stand for, in order; see `find_sources`."""
    return [path for name in written for path in _paths(name, folder)]


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


def absolute(name: str, folder: Path) -> Path:
    """The absolute path of a written `name`, which may start with `~`, seen from `folder`.

    Raises `InputError` where the home folder that it names is unknown.
    """
    try:
        return (folder / Path(name).expanduser()).absolute()
    except RuntimeError as error:
        raise InputError(f"{name} names no home folder", hint="write the whole path") from error


def _header(path: Path) -> Header:
    _file_size(path)
    return read_header(path)


def _file_size(path: Path) -> int:
    """Bytes of the regular, readable file at `path`."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}", hint="check the path") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise InputError(f"{path} cannot be read: {reason}") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a file", hint="name a regular file")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} may not be read", hint="check its permissions")
    return status.st_size


def _paths(name: str, folder: Path) -> list[Path]:
    """The absolute paths that one written name stands for, sorted by name."""
    path = absolute(name, folder)
    try:
        if path.is_dir():
            return _folder(path)
        if glob.has_magic(name) and not path.exists():
            return _matches(name, path)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from error
    return _indexed(path) if path.name == INDEX_NAME else [path]


def _matches(name: str, path: Path) -> list[Path]:
    # `Path.glob` takes no absolute pattern.
    found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    files = [match for match in found if not match.is_dir()]
    if not files:
        raise InputError(f"no file matches {name}", hint=f"looked in {path.parent}")
    return files


def _folder(path: Path) -> list[Path]:
    index = path / INDEX_NAME
    if index.is_file():
        return _indexed(index)
    files = sorted(entry for entry in path.iterdir() if entry.suffix == SUFFIX)
    if not files:
        raise InputError(
            f"the folder {path} holds no {SUFFIX} file", hint="name the files, or use a glob"
        )
    return files


def _indexed(index: Path) -> list[Path]:
    """The files that the index names, each once, sorted by name."""
    _file_size(index)
    try:
        document = json.loads(index.read_text(encoding="utf-8"))
        names = sorted(set(document["weight_map"].values()))
        paths = [index.parent / name for name in names]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{index} is not an index: it needs a weight_map of tensor to file",
            hint="name the files themselves",
        ) from error
    if not paths:
        raise InputError(f"{index} names no file", hint="name the files themselves")
    return paths
