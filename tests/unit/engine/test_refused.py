"""What the system refuses (memory, threads, files) is told in words, and nothing stays."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from planner.engine.memory import HostBuffer, Mapping
from planner.engine.passing import passing_folder
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch
from planner.engine.sink import Sink
from planner.engine.team import Team
from planner.engine.waits import Stop
from planner.errors import ExecutionError, InfeasibleError, InputError, UnavailableError


@pytest.mark.parametrize("size", [1 << 62, 1 << 80])
def test_memory_that_there_is_not(size: int) -> None:
    """More than addresses have bits for, and more than the call takes."""
    with pytest.raises(InfeasibleError, match="the system gives no"):
        HostBuffer(size)


def test_a_file_that_became_shorter_is_not_mapped(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 10)
    with pytest.raises(ExecutionError, match="f cannot be mapped"):
        Mapping(str(file), 0, 20_000)


def test_threads_that_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def limited(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr("planner.engine.team.Thread.start", limited)
    with pytest.raises(UnavailableError, match="load: the system starts 2 of 4 threads"):
        Team(5, Stop(), "load")
    assert not any(thread.is_alive() for thread in started)


def test_a_scratch_file_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("planner.engine.scratch.os.write", full)
    with pytest.raises(ExecutionError, match="cannot be written: No space left"):
        Scratch(tmp_path, "f", 4096, Pattern(1)).write(sync=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_nothing_can_be_made() -> None:
    with (
        pytest.raises(InputError, match="/proc cannot be written"),
        passing_folder(Path("/proc"), "f"),
    ):
        pass


def test_a_sink_on_a_file_system_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to remove what is not there, too."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    sink = Sink(str(tmp_path / "out"))
    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr("planner.engine.files.os.open", refuse)
    with pytest.raises(InputError, match="cannot be written: Read-only file system"):
        sink.fresh()
    sink.discard()
