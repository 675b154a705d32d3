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
from planner.engine.passing import hold, passing_path, shortened, sweep
from planner.engine.pattern import BLOCK, Pattern
from planner.errors import ExecutionError, InfeasibleError
from planner.plan.schema import FileSource
from planner.units import format_size

RESERVE: Final = 64 << 20
"""Bytes that stay free on the disk: a full file system harms whoever else writes to it."""


_LONGEST: Final = 128
"""Letters of a flow's name in that of a file: half of what a name may have (NAME_MAX of Linux)."""

SMALLER: Final = "take a smaller size, or a disk with more room"


def folder_of(path: str | None) -> Path:
    """The disk node's folder, else the system's folder for temporary files."""
    folder = Path(path) if path else Path(tempfile.gettempdir())
    if not folder.is_dir():
        raise InfeasibleError(
            f"the folder {folder} of the disk does not exist", hint="make it, or calibrate again"
        )
    return folder


class Space:
    """What is free on the disks of a run, less what its sinks are still going to write there."""

    def __init__(self) -> None:
        self._promised: dict[int, int] = {}

    def require(self, folder: Path, size: int, *, later: bool = False, hint: str = SMALLER) -> None:
        """Raise `InfeasibleError` where the folder's file system has not `size` bytes to spare.

        With `later` they are written during the run: whoever asks next finds them taken. The `hint`
        says what helps.
        """
        disk = folder.stat().st_dev
        promised = self._promised.get(disk, 0)
        free = shutil.disk_usage(folder).free
        if size + promised + RESERVE > free:
            others = f", {format_size(promised)} by other flows" if promised else ""
            raise InfeasibleError(
                f"{folder} has {format_size(free)} free; {format_size(size)} are needed{others} "
                f"and {format_size(RESERVE)} stay free for others",
                hint=hint,
            )
        if later:
            self._promised[disk] = promised + size


def require_space(folder: Path, size: int, hint: str = SMALLER) -> None:
    """Raise `InfeasibleError` where the disk has not `size` bytes to spare."""
    Space().require(folder, size, hint=hint)


def own_path(folder: Path, label: str) -> Path:
    """A name in the folder for a file that lives as long as the run."""
    return passing_path(folder, _words(label))


def _words(label: str) -> str:
    """The label in letters and digits; of one that no file could be named after the beginning."""
    return shortened(re.sub(r"[^A-Za-z0-9]+", "-", label).strip("-"), _LONGEST)


class Scratch:
    """A file of incompressible bytes in a folder.

    With `keep` it has a name that later runs find again, and `close` leaves it; without, the name
    is its own and `close` removes the file, or a later run does where this one is killed. A kept
    file that a run found is left.
    """

    def __init__(
        self,
        folder: Path,
        label: str,
        size: int,
        pattern: Pattern,
        *,
        keep: bool = False,
        space: Space | None = None,
    ) -> None:
        kept = folder / f".planner-scratch-{_words(label)}-{size}"
        self.found = kept.is_file() and kept.stat().st_size == size
        self.path = kept if keep or self.found else own_path(folder, label)
        self.size, self.pattern, self.keep = size, pattern, keep
        self._space = space or Space()
        self._fd = -1

    def write(self, *, sync: bool) -> FileSource:
        """Write the whole pattern, and bring it to the disk if asked; a kept file is used again.

        A file written half is removed.
        """
        source = FileSource(path=str(self.path), offset=0, size_bytes=self.size)
        if self.found:
            return source
        sweep(self.path.parent)
        self._space.require(self.path.parent, self.size)
        block = HostBuffer(min(BLOCK, max(self.size, 1)))
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._fd = os.open(self.path, flags, 0o644)
            hold(self._fd)
            for at in range(0, self.size, BLOCK):
                length = min(BLOCK, self.size - at)
                self.pattern.write(block.array[:length], at)
                _write_all(self._fd, block.view[:length])
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            self.remove()
            raise ExecutionError(
                f"the scratch file {self.path} cannot be written: {error.strerror}",
                hint="name a file (file:), or a folder for scratch files (TMPDIR, or the disk's"
                " path in the machine file)",
            ) from error
        except BaseException:
            self.remove()
            raise
        finally:
            block.close()
            if self.keep:
                self._let_go()
        return source

    def close(self) -> None:
        """Remove the file unless it is kept."""
        if not self.keep and not self.found:
            self.remove()

    def remove(self) -> None:
        """Remove the file, if it is there."""
        if self._fd >= 0 or self.path.exists():
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
        self._let_go()

    def _let_go(self) -> None:
        """Close the file, if it is open, and with it give its lock back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _write_all(fd: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += os.write(fd, view[done:])
