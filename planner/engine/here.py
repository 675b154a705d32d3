"""This computer as a machine: calibrated once, then read from a cache.

The cache holds one file for each fingerprint of the hardware and each backend. A file of another
layout or a damaged one is measured anew, never trusted. A calibration with more emulated GPUs than
one stays in force until another number is asked for.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from planner.engine import calibrate as calibration
from planner.engine.calibration.ledger import Ledger
from planner.engine.folder import cache_folder
from planner.engine.serving.planned import plan_usual
from planner.errors import InputError
from planner.machine.discover import discover
from planner.machine.observation import Calibration
from planner.machine.schema import Disk, Hbm, Machine

if TYPE_CHECKING:
    from planner.engine.progress import Progress

LAYOUT: Final = 16
"""Of the cache file, and of what a calibration measures; raise it when either changes."""
WAIT: Final = 60.0
"""Seconds to wait for another process that calibrates. Two at once would disturb each other, but
after four calibrations' time the other one hangs, or does a full one, and a disturbed answer is
better than none."""
POLL: Final = 0.1
"""Seconds between two looks at the lock."""
_LOG: Final = logging.getLogger(__name__)
NUMBERING: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""The variables that make CUDA show others of the GPUs, or in another order: a calibration's `gpu0`
is the one that was first then."""


def kept(backend: str) -> Machine | None:
    """This computer as it was calibrated for the backend; `None` where it was not."""
    found = _read(_path(calibration.backend_name(backend)), None)
    return None if found is None else found.machine


def calibrations(backend: str) -> tuple[Calibration | None, tuple[Calibration, ...]]:
    """The calibration that holds here, and those in the cache that do not, the newest first.

    The others were made with another kernel or driver, within other limits or on another disk.
    """
    chosen = calibration.backend_name(backend)
    path = _path(chosen)
    beside = sorted(path.parent.glob(f"here-*-{chosen}-v{LAYOUT}.json"))
    found = [_read(other, None) for other in beside if other != path]
    others = sorted((one for one in found if one is not None), key=lambda one: -one.at_s)
    return _read(path, None), tuple(others)


def here(
    *,
    backend: str = "auto",
    recalibrate: bool = False,
    emulate_gpus: int | None = None,
    progress: Progress | None = None,
    full: bool = False,
    resume: bool = False,
) -> Machine:
    """This computer, from the cache or calibrated now.

    Parameters
    ----------
    backend
        `cuda`, `host`, or `auto`: cuda where a device is.
    recalibrate
        Measure even if the cache has an answer.
    emulate_gpus
        How many GPUs to stand in for in host memory; what the cache has, or 1, unless given.
    progress
        Told how far a calibration is, and how old an answer from the cache.
    full
        Where it is measured: everything, in three minutes.
    resume
        Go on with a full calibration that was interrupted.

    Raises
    ------
    UnavailableError
        The backend needs what this computer lacks.

    """
    chosen = calibration.backend_name(backend)
    path = _path(chosen)
    found = None if recalibrate else _read(path, progress)
    if found is not None and _suits(found.machine, emulate_gpus):
        _say(progress, f"this computer, calibrated {age(time.time() - found.at_s)} ago")
        return _with_scratch_here(found.machine)
    began = time.time()
    with _alone(path.with_suffix(".lock")):
        # Another process may have measured while this one waited for it.
        found = _read(path, None)
        if (
            found is not None
            and found.at_s > began
            and not full
            and _suits(found.machine, emulate_gpus)
        ):
            return _with_scratch_here(found.machine)
        if full:
            return _fully(path, chosen, emulate_gpus, progress, resume=resume)
        machine: Machine = calibration.calibrate(
            backend=chosen, emulate_gpus=emulate_gpus, progress=progress
        )
        _keep(path, chosen, machine, progress)
    return machine


def _with_scratch_here(machine: Machine) -> Machine:
    """The machine, its scratch files where temporary files go now.

    The cache has one answer for each file system (`Discovery.fingerprint`): another TMPDIR on the
    same one is as fast as the folder that was measured.
    """
    folder = str(calibration.scratch_folder(None))
    moved = {
        name: node.model_copy(update={"path": folder})
        for name, node in machine.nodes.items()
        if isinstance(node, Disk) and node.path is not None
    }
    return machine.model_copy(update={"nodes": {**machine.nodes, **moved}})


def _fully(
    path: Path,
    backend: str,
    emulate_gpus: int | None,
    progress: Progress | None,
    *,
    resume: bool,
) -> Machine:
    """This computer, calibrated in full; what is finished stays where that is interrupted."""
    ledger = _ledger(path, emulate_gpus, progress, resume=resume)
    try:
        machine: Machine = calibration.calibrate(
            backend=backend,
            emulate_gpus=emulate_gpus,
            progress=progress,
            full=True,
            ledger=ledger,
        )
    except KeyboardInterrupt:
        if ledger.groups:
            _say(progress, "what is finished is kept: planner calibrate --resume goes on")
        raise
    _keep(path, backend, machine, progress)
    if kept := ledger.finish(_beside(path, "samples")):
        _say(progress, f"every sample is in {kept}")
    return machine


def mend(
    link: str, *, backend: str = "auto", full: bool = False, progress: Progress | None = None
) -> Machine:
    """This computer with one link measured again; all else keeps its numbers and dates.

    Parameters
    ----------
    link
        Its name in the machine file, or its ends: `pcie0`, `host0->gpu0`.
    backend, full, progress
        As for `here`.

    Raises
    ------
    InputError
        There is no calibration to mend, or it has no such link.
    UnavailableError
        The backend needs what this computer lacks.

    """
    chosen = calibration.backend_name(backend)
    path = _path(chosen)
    with _alone(path.with_suffix(".lock")):
        kept = _read(path, progress)
        if kept is None:
            raise InputError(
                "this computer is not calibrated, so no link of it can be measured again",
                hint="run: planner calibrate",
            )
        machine = calibration.recalibrate_link(
            kept.machine, link, backend=chosen, progress=progress, full=full
        )
        _keep(path, chosen, machine, progress)
    return machine


def _beside(path: Path, what: str) -> Path:
    """A file of another kind for the same hardware: the samples, or what is finished so far."""
    return path.with_name(path.name.replace("here-", f"{what}-", 1))


def _ledger(
    path: Path, emulate_gpus: int | None, progress: Progress | None, *, resume: bool
) -> Ledger:
    """Where a full calibration keeps what it has finished."""
    unfinished = _beside(path, "unfinished")
    mark = f"{path.stem}, {emulate_gpus or 1} emulated at most"
    old = Ledger.open(unfinished, mark)
    done = ", ".join(old.groups)
    if resume and old.groups:
        _say(progress, f"going on with the calibration that was interrupted; it has {done}")
        return old
    if resume:
        _say(progress, "there is no interrupted full calibration: everything is measured")
    elif old.groups:
        _say(progress, "an interrupted full calibration is given up; --resume would go on with it")
    return Ledger(unfinished, mark)


def _path(backend: str) -> Path:
    """The file for this hardware and backend."""
    shown = [os.environ.get(name) for name in NUMBERING] if backend == "cuda" else []
    mark = discover(calibration.scratch_folder(None)).fingerprint(shown)
    return cache_folder() / f"here-{mark}-{backend}-v{LAYOUT}.json"


def _suits(machine: Machine, emulate_gpus: int | None) -> bool:
    """Whether the machine has the emulated GPUs that are asked for; any do if none are."""
    if emulate_gpus is None:
        return True
    gpus = [node for node in machine.nodes.values() if isinstance(node, Hbm)]
    return len(gpus) == emulate_gpus and all(gpu.emulated for gpu in gpus)


def _read(path: Path, progress: Progress | None) -> Calibration | None:
    """The calibration in a file, `None` if there is none or it is damaged."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    try:
        body: Any = json.loads(text)
        return Calibration(Machine.model_validate(body["machine"]), float(body["calibrated_at_s"]))
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        _say(progress, f"{path} is damaged ({reason}): this computer is measured anew")
        return None


def _keep(path: Path, backend: str, machine: Machine, progress: Progress | None) -> None:
    """Keep a calibration for all programs, and what `planner.load` would plan by it."""
    _write(path, machine, progress)
    plan_usual(backend, machine)


def _write(path: Path, machine: Machine, progress: Progress | None) -> None:
    """Put the calibration in place, whole or not at all; a cache that is read-only is no error."""
    body = {"calibrated_at_s": time.time(), "machine": machine.model_dump(mode="json")}
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(body, file)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        _warn(progress, _not_kept(path.parent, error))
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, or go on without it if another process keeps it too long."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="ascii")
    except OSError:
        yield  # a cache that cannot be written needs no lock either
        return
    with file:
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(POLL)
        yield  # closing the file gives the lock back


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits.

    >>> age(5), age(90), age(7200), age(200000)
    ('5 seconds', '1 minute', '2 hours', '2 days')
    """
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    count = max(0, int(seconds))
    return f"{count} second{'' if count == 1 else 's'}"


def _not_kept(folder: Path, error: OSError) -> str:
    """Why a calibration is measured again the next time, and how to mend it."""
    in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "it is no folder" if in_the_way else error.strerror or str(error)
    return (
        f"the calibration cannot be kept in {folder}: {reason}; until PLANNER_CACHE_DIR names a"
        " folder that can be written, every call measures this computer anew"
    )


def _warn(progress: Progress | None, text: str) -> None:
    """Tell whoever watches; where nobody does, the log, which shows warnings on stderr."""
    if progress is not None:
        progress.note(text)
    else:
        _LOG.warning("%s", text)


def _say(progress: Progress | None, text: str) -> None:
    """Tell whoever watches."""
    if progress is not None:
        progress.note(text)
