"""Result files that appear whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from planner.errors import InputError


def check_writable(path: str) -> None:
    """Raise `InputError` now if `path` cannot be written later, when the work is done."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder", hint="name a file inside it")
    if _is_special(target):
        return
    if not folder.is_dir():
        raise InputError(
            f"cannot write {path}: there is no folder {folder}", hint=f"mkdir -p {folder}"
        )
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: no permission to write in {folder}")


def save_text(path: str, text: str) -> None:
    """Write `text` to `path` through a temporary file beside it, so no reader sees half of it.

    A device or a pipe is written itself: a file must not take the place of `/dev/null`.
    """
    target = Path(path)
    if _is_special(target):
        _write_special(path, text)
        return
    half = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with half.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        half.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            half.unlink()


def _is_special(target: Path) -> bool:
    """Whether the path leads to something that exists and is no regular file."""
    return target.exists() and not target.is_file()


def _write_special(path: str, text: str) -> None:
    try:
        # Without waiting: a pipe that nobody reads is an error at once.
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
