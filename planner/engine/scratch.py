"""Files that the engine makes where a plan names a disk but no file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from planner.engine.memory import HostBuffer
from planner.engine.pattern import BLOCK, Pattern
from planner.errors import InfeasibleError
from planner.plan.schema import FileSource
from planner.units import format_size

RESERVE: Final = 64 << 20
"""Bytes that stay free on the disk: a full file system harms whoever else writes to it."""


def folder_of(path: str | None) -> Path:
    """The disk node's folder, else the system's folder for temporary files."""
    folder = Path(path) if path else Path(tempfile.gettempdir())
    if not folder.is_dir():
        raise InfeasibleError(
            f"the folder {folder} of the disk does not exist", hint="make it, or calibrate again"
        )
    return folder


def require_space(folder: Path, size: int) -> None:
    """Raise `InfeasibleError` where the disk has not `size` bytes to spare."""
    free = shutil.disk_usage(folder).free
    if size + RESERVE > free:
        raise InfeasibleError(
            f"{folder} has {format_size(free)} free; {format_size(size)} are needed and "
            f"{format_size(RESERVE)} stay free for others",
            hint="take a smaller size, or a disk with more room",
        )


class Scratch:
    """A file of incompressible bytes in a folder.

    With `keep` it has a name that later runs find again, and `close` leaves it; without, the name
    is this process's own and `close` removes the file. A kept file that a run found is left.
    """

    def __init__(
        self, folder: Path, label: str, size: int, pattern: Pattern, *, keep: bool = False
    ) -> None:
        words = re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-")
        kept = folder / f".planner-scratch-{words}-{size}"
        self.found = kept.is_file() and kept.stat().st_size == size
        own = folder / f".planner-scratch-{os.getpid()}-{words}"
        self.path = kept if keep or self.found else own
        self.size, self.pattern, self.keep = size, pattern, keep

    def write(self, *, sync: bool) -> FileSource:
        """Write the whole pattern, and bring it to the disk if asked; a kept file is used again.

        A file written half is removed.
        """
        source = FileSource(path=str(self.path), offset=0, size_bytes=self.size)
        if self.found:
            return source
        require_space(self.path.parent, self.size)
        block = HostBuffer(min(BLOCK, max(self.size, 1)))
        try:
            with self.path.open("wb", buffering=0) as file:
                for at in range(0, self.size, BLOCK):
                    length = min(BLOCK, self.size - at)
                    self.pattern.write(block.array[:length], at)
                    _write_all(file.fileno(), block.view[:length])
                if sync:
                    os.fsync(file.fileno())
        except BaseException:
            self.remove()
            raise
        finally:
            block.close()
        return source

    def close(self) -> None:
        """Remove the file unless it is kept."""
        if not self.keep and not self.found:
            self.remove()

    def remove(self) -> None:
        """Remove the file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def _write_all(fd: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += os.write(fd, view[done:])
