"""A file that a flow writes: beside its place first, so that it appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from threading import Lock

from planner.engine.files import open_direct
from planner.engine.passing import hold, part_path, sweep_parts
from planner.errors import InputError


class Sink:
    """A file that appears whole or not at all: written beside its place, then renamed.

    `size` is how long it will be, as far as that is known; `overwrite` says that a file at `path`
    may be replaced, `durable` that it counts as written only when the disk has it. `fd` writes
    through the page cache, `direct_fd` around it where somebody wants to (`go_around`).
    """

    def __init__(
        self, path: str, *, size: int = 0, overwrite: bool = False, durable: bool = False
    ) -> None:
        self.path = _written_at(Path(path))
        self.overwrite, self.durable = overwrite, durable
        self.fd = self.direct_fd = -1
        self._size, self._around = size, False
        self._guard = Lock()
        mode = _mode(self.path)
        if mode is not None and not stat.S_ISREG(mode):
            raise InputError(
                f"{self.path} is not a regular file, so it cannot be a sink",
                hint="name a file, existing or not",
            )
        if mode is not None and not os.access(self.path, os.W_OK):
            raise InputError(f"{self.path} may not be written: no permission")
        if mode is not None and not overwrite:
            raise InputError(
                f"{self.path} exists",
                hint="give --overwrite (overwrite=True) to replace it, or another name",
            )
        self.part = part_path(self.path)
        if not self.path.parent.is_dir():
            what = "is not a folder" if self.path.parent.exists() else "does not exist"
            raise InputError(
                f"the folder {self.path.parent} of {self.path.name} {what}",
                hint="make it, or name another",
            )
        sweep_parts(self.path)

    def fresh(self) -> None:
        """Start an empty file; what an earlier sample wrote goes."""
        self.discard()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self.fd = os.open(self.part, flags, 0o644)
        except OSError as error:
            raise InputError(f"{self.part} cannot be written: {error.strerror}") from error
        hold(self.fd)
        if self._around:
            self._open_around()

    def go_around(self) -> None:
        """Have a `direct_fd`, for this file and for all fresh ones; any worker may ask.

        Raises
        ------
        UnavailableError
            If the file system has no O_DIRECT: now, or when the file is made.

        """
        with self._guard:
            self._around = True
            if self.fd >= 0 and self.direct_fd < 0:
                self._open_around()

    def _open_around(self) -> None:
        # A file of its full length: writes that extend it would wait for one another.
        os.ftruncate(self.fd, self._size)
        self.direct_fd = open_direct(self.part, os.O_WRONLY)

    def publish(self) -> None:
        """Give the file its name."""
        if self.overwrite:
            self.part.replace(self.path)
        else:
            try:
                os.link(self.part, self.path)  # unlike rename, never replaces what came meanwhile
            except FileExistsError as error:
                raise InputError(
                    f"{self.path} appeared during the run", hint="the new data was discarded"
                ) from error
            except OSError:  # a file system without links
                self.part.rename(self.path)
                return
            self.part.unlink()

    def discard(self) -> None:
        """Close, and remove what was not published."""
        for fd in (self.fd, self.direct_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.direct_fd = -1
        if self.part.exists():  # a file system that is read only refuses to remove what is not
            with contextlib.suppress(FileNotFoundError):
                self.part.unlink()


def _written_at(path: Path) -> Path:
    """The file that is written: a link stays a link, and what it points to is replaced."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:  # Python up to 3.12 tells a loop as a RuntimeError
        reason = getattr(error, "strerror", None) or "its links go round in a circle"
        raise InputError(f"{path} cannot be written: {reason}") from error


def _mode(path: Path) -> int | None:
    """What lies at `path` (its `st_mode`), `None` where nothing does."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be written: {reason}") from error
