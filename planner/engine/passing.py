"""What a run writes and nobody needs after it: held while it lives, removed if it was killed.

Whoever makes such a file holds a lock (flock) on it, which the kernel takes back however the
process ends. So a file whose lock can be had belongs to nobody, whatever process has its number by
now. A lock need not be seen from another computer that has the same folder, so a file also names
the boot of the computer that made it, and only files of this boot are looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from planner.errors import InputError

AGE_S: Final = 60.0
"""Seconds since the last write from which a file may be taken for left behind: whoever has made one
needs a moment to lock it."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""Another number after each start, the same for all containers of a kernel: random(4)."""
_NAME: Final = re.compile(r"\.{1,2}planner-scratch-\d+-.*-([0-9a-f]{8})-[0-9a-f]{6}\.tmp(\..*)?")
"""What `passing_path` makes, and what `sink.Sink` writes beside it."""
_LONGEST: Final = 224
"""Bytes of a name that `part_path` keeps whole."""


@cache
def _boot() -> str | None:
    """Eight digits of this boot's number, `None` where the kernel has none."""
    try:
        return _BOOT.read_text(encoding="ascii")[:8]
    except OSError:
        return None


def passing_path(folder: Path, label: str) -> Path:
    """A name in the folder that no other file has, made of the process and a label."""
    boot = _boot() or "0" * 8
    return folder / f".planner-scratch-{os.getpid()}-{label}-{boot}-{secrets.token_hex(3)}.tmp"


@contextlib.contextmanager
def passing_folder(folder: Path, label: str) -> Iterator[Path]:
    """A folder of one's own inside another, with all that is in it, for as long as the block."""
    sweep(folder)
    path = passing_path(folder, label)
    try:
        path.mkdir(0o700)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        hold(fd)
        yield path
    finally:
        shutil.rmtree(path)
        os.close(fd)


def part_path(path: Path) -> Path:
    """Where a run writes a file that appears at `path` once it is whole: hidden, beside it.

    Each call gives another name: a process may write the same file twice at a time.
    """
    own = f"{os.getpid()}.{_boot() or '0' * 8}.{secrets.token_hex(3)}"
    return path.with_name(f".{_stem(path)}.{own}.part")


def _stem(path: Path) -> str:
    """The file's name; of one that leaves no room for more the beginning, and a number of it all.

    A name has 255 bytes at the most (NAME_MAX of Linux), and what is put around it has 30.
    """
    return shortened(path.name, _LONGEST)


def shortened(name: str, most: int) -> str:
    """The name if it has no more than `most` bytes, else its beginning and a number of it all.

    >>> shortened("weights", 16), shortened("weights-of-the-model", 16)
    ('weights', 'weights-198a6491')
    """
    told = os.fsencode(name)
    if len(told) <= most:
        return name
    return f"{os.fsdecode(told[: most - 9])}-{zlib.crc32(told):08x}"


def sweep_parts(path: Path) -> list[Path]:
    """Remove what killed runs of this user have left beside the file at `path`; returns what went.

    A part of a process that is gone goes at once: it has the size of the file, and the next run
    needs the room. Where the number is that of some process, perhaps a later one, age decides.
    """
    boot = _boot()
    if boot is None:
        return []
    shape = re.compile(rf"\.{re.escape(_stem(path))}\.(\d+)\.{boot}\.[0-9a-f]{{6}}\.part")
    gone = []
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            match = shape.fullmatch(entry.name)
            if match is None:
                continue
            age = 0.0 if _is_gone(int(match[1])) else AGE_S
            if _remove(entry.path, age):
                gone.append(Path(entry.path))
    return gone


def _is_gone(process: int) -> bool:
    """Whether no process has the number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # one of another user
        return False
    return False


def hold(fd: int) -> None:
    """Lock an open file or folder until it is closed, where the file system can, without a wait."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def sweep(folder: Path) -> list[Path]:
    """Remove what killed runs of this user have left in the folder; returns what went."""
    boot = _boot()
    if boot is None:
        return []
    gone = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is not None and match[1] == boot and _remove(entry.path, AGE_S):
                gone.append(Path(entry.path))
    return gone


def _remove(path: str, age: float) -> bool:
    """Remove the file or folder if nobody holds it, nor has written it for `age` seconds."""
    fd = -1
    try:
        found = os.lstat(path)
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < age:
            return False
        is_folder = stat.S_ISDIR(found.st_mode)
        if not is_folder and not stat.S_ISREG(found.st_mode):
            return False
        way = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR
        fd = os.open(path, way | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody holds it
        if is_folder:
            shutil.rmtree(path)
        else:
            Path(path).unlink()
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return True
