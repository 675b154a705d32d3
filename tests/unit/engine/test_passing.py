"""Scratch files of killed runs go with the next run; those of others stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from planner.engine import passing
from planner.engine.passing import AGE_S, passing_folder, sweep
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, own_path
from planner.engine.sink import Sink

SIZE = 4096
HOLDER = """
import contextlib, sys
from pathlib import Path
from planner.engine.sink import Sink
from planner.engine.passing import passing_folder
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, own_path
folder = Path(sys.argv[1])
scratch = Scratch(folder, "weights/a", 4096, Pattern(1))
scratch.write(sync=False)
sink = Sink(str(own_path(folder, "out")), overwrite=True)
sink.fresh()
undo = contextlib.ExitStack()
inside = undo.enter_context(passing_folder(folder, "calibration"))
(inside / "warm").write_bytes(b"x")
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a scratch file, a sink and a folder, until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def aged(folder: Path) -> list[Path]:
    """All files of the folder, now last written a minute and a second ago."""
    found = sorted(folder.iterdir())
    for path in found:
        then = time.time() - AGE_S - 1
        os.utime(path, (then, then))
    return found


def test_what_a_killed_run_leaves_goes_with_the_next_one(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        left = aged(tmp_path)
        assert len(left) == 3  # a scratch file, a sink that is being written, a folder
        assert sweep(tmp_path) == []  # however old they are: the process lives and holds them
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert sorted(tmp_path.iterdir()) == left
        new = Scratch(tmp_path, "weights/a", SIZE, Pattern(1))
        new.write(sync=False)
        assert list(tmp_path.iterdir()) == [new.path]
        new.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_just_made_stays(tmp_path: Path) -> None:
    """Its maker may be about to lock it."""
    path = own_path(tmp_path, "f")
    path.write_bytes(b"x")
    assert sweep(tmp_path) == []
    aged(tmp_path)
    assert sweep(tmp_path) == [path]


def test_files_of_another_computer_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks may not be seen here, where a folder is shared."""
    monkeypatch.setattr(passing, "_boot", lambda: "0123abcd")
    path = own_path(tmp_path, "f")
    path.write_bytes(b"x")
    aged(tmp_path)
    monkeypatch.setattr(passing, "_boot", lambda: "4567abcd")
    assert sweep(tmp_path) == []
    monkeypatch.setattr(passing, "_boot", lambda: "0123abcd")
    assert sweep(tmp_path) == [path]


def test_without_a_number_of_the_boot_nothing_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "_boot", lambda: None)
    own_path(tmp_path, "f").write_bytes(b"x")
    aged(tmp_path)
    assert sweep(tmp_path) == []


def test_files_of_another_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_path(tmp_path, "f").write_bytes(b"x")
    aged(tmp_path)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert sweep(tmp_path) == []


def test_what_is_no_scratch_file_stays(tmp_path: Path) -> None:
    """Kept files, whatever the flow's name looks like, links, pipes and anything else."""
    label = own_path(tmp_path, "f").name
    kept = Scratch(tmp_path, label, SIZE, Pattern(1), keep=True)
    kept.write(sync=False)
    kept.close()
    (tmp_path / "data").write_bytes(b"x")
    own_path(tmp_path, "link").symlink_to(tmp_path / "data")
    os.mkfifo(own_path(tmp_path, "pipe"))
    (tmp_path / ".planner-scratch-12-f").write_bytes(b"x")
    left = aged(tmp_path)
    assert sweep(tmp_path) == []
    assert sorted(tmp_path.iterdir()) == left


def test_the_longest_name_of_a_flow_names_a_file(tmp_path: Path) -> None:
    """Names that differ behind what fits are told apart: kept files are found again by them."""
    names = ["f" * 300 + end for end in "ab"]
    made = [Scratch(tmp_path, name, SIZE, Pattern(1), keep=True) for name in names]
    for scratch in made:
        scratch.write(sync=False)
    assert sorted(tmp_path.iterdir()) == sorted(scratch.path for scratch in made)
    passing = Scratch(tmp_path, names[0] + "c", SIZE, Pattern(1))
    passing.write(sync=False)
    passing.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_sink_of_a_flow_without_a_file_can_be_told(tmp_path: Path) -> None:
    """It is written beside its name, which is told as well once nobody holds it."""
    sink = Sink(str(own_path(tmp_path, "out")), overwrite=True)
    sink.fresh()
    aged(tmp_path)
    assert sweep(tmp_path) == []
    os.close(sink.fd)
    sink.fd = -1
    assert sweep(tmp_path) == [sink.part]
    sink.discard()


def test_a_folder_goes_with_its_block_whatever_happens(tmp_path: Path) -> None:
    def work(inside: Path) -> None:
        (inside / "file").write_bytes(b"x")
        assert list(tmp_path.iterdir()) == [inside]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), passing_folder(tmp_path, "f") as inside:
        work(inside)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_closed_lets_go_of_its_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        scratch = Scratch(tmp_path, "f", SIZE, Pattern(1))
        scratch.write(sync=True)
        scratch.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
