"""The files that written names stand for: paths, globs, folders of safetensors, their indices."""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from planner.errors import InputError

SUFFIX: Final = ".safetensors"
INDEX_NAME: Final = "model.safetensors.index.json"
"""Written beside the parts of a large model: it maps each tensor to the file that holds it."""


def paths_of(written: Sequence[str], folder: Path) -> list[Path]:
    """The files that names, globs, folders and indices stand for, in order; see `find_sources`."""
    return [path for name in written for path in _paths(name, folder)]


def absolute(name: str, folder: Path) -> Path:
    """The absolute path of a written `name`, which may start with `~`, seen from `folder`.

    Raises `InputError` where the home folder that it names is unknown.
    """
    try:
        return (folder / Path(name).expanduser()).absolute()
    except RuntimeError as error:
        raise InputError(f"{name} names no home folder", hint="write the whole path") from error


def require_name(name: str, hint: str) -> None:
    """Raise `InputError` for a name that no file can have: none, or one with a zero byte."""
    if not name or "\0" in name:
        what = f"holds a zero byte: {name!r}" if name else "is empty"
        raise InputError(f"the path {what}", hint=hint)


def file_size(path: Path) -> int:
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
    file_size(index)
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
