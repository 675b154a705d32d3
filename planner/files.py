"""Reading the files that people name, without waiting for what may never come."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_GIVEN: Final = ("/dev/fd/", "/proc/self/fd/")
"""Where a shell puts the pipes that it opened for this process, as in `planner check <(…)`."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file, or of a pipe that this process was started with.

    Raises `OSError`, also for a named pipe or a device: nobody might ever write, or ever stop.
    """
    file = Path(path)
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and not is_given(file):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(file))
    return file.read_bytes()


def is_given(path: str | os.PathLike[str]) -> bool:
    """Whether the path names a stream that this process was started with."""
    name = os.fspath(path)
    return name == "/dev/stdin" or name.startswith(_GIVEN)
