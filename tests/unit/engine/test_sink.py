"""What may be a sink, and what is refused before a byte moves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.engine import passing
from planner.engine.execute import execute
from planner.engine.sink import Sink
from planner.errors import InfeasibleError, InputError
from planner.model.estimate import estimate
from planner.plan.load import loads_plan
from tests.helpers.machines import MIB, one_gpu

KILLED = """
import os, signal, sys
from planner.engine.sink import Sink
sink = Sink(sys.argv[1])
sink.fresh()
os.write(sink.fd, b"half")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_regular_files_are_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "sink"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        Sink(str(path), overwrite=True)


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    sink = Sink(str(link), overwrite=True)
    sink.fresh()
    os.write(sink.fd, b"new")
    sink.publish()
    sink.discard()
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


def written(path: Path) -> None:
    """Write a sink as a run does."""
    sink = Sink(str(path))
    sink.fresh()
    os.write(sink.fd, b"whole")
    sink.publish()
    sink.discard()
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("name", ["out.bin", "a[1].*+b", "y" * 255, "ü" * 120 + ".bin"])
def test_what_a_killed_run_left_beside_a_sink_goes_with_the_next_run(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.read_bytes() == b"half"
    Sink(str(tmp_path / "another"))  # one beside it is none of its business
    assert list(tmp_path.iterdir()) == [left]
    written(path)
    assert list(tmp_path.iterdir()) == [path]


def other_boot(part: Path, _patch: pytest.MonkeyPatch) -> Path:
    pid, boot = part.name.split(".")[-3:-1]
    return part.with_name(part.name.replace(f"{pid}.{boot}", f"{pid}.{'0' * 8}"))


def other_name(part: Path, _patch: pytest.MonkeyPatch) -> Path:
    return part.with_name(part.name.replace(".out", ".outer"))


def living(part: Path, _patch: pytest.MonkeyPatch) -> Path:
    pid, boot = part.name.split(".")[-3:-1]
    return part.with_name(part.name.replace(f"{pid}.{boot}", f"1.{boot}"))


def other_user(part: Path, patch: pytest.MonkeyPatch) -> Path:
    other = os.geteuid() + 1
    patch.setattr(os, "geteuid", lambda: other)
    return part


@pytest.mark.parametrize("change", [other_boot, other_name, living, other_user])
def test_a_part_that_may_be_of_somebody_else_stays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, pytest.MonkeyPatch], Path],
) -> None:
    """Of another boot, of another file, of a number that a process has, of another user."""
    path = tmp_path / "out"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    left = left.rename(change(left, monkeypatch))
    written(path)
    assert sorted(tmp_path.iterdir()) == sorted([left, path])


def test_a_part_that_is_held_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the number of its process means nothing here, as between containers."""
    first = Sink(str(tmp_path / "out"))
    first.fresh()
    monkeypatch.setattr(passing, "_is_gone", lambda _process: True)
    Sink(str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == [first.part]
    first.discard()


def test_what_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    below = tmp_path / "file" / "x"
    below.parent.write_bytes(b"")
    for path in (loop, tmp_path / ("y" * 256), below):
        with pytest.raises(InputError, match=r"cannot be written|does not exist|is not a folder"):
            Sink(str(path))


SPARE = 64 << 20  # what stays free for others


@pytest.mark.parametrize(("free", "fits"), [(3 * MIB + SPARE, True), (3 * MIB + SPARE - 1, False)])
def test_sinks_on_one_disk_need_room_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    """1 MiB and 2 MiB: each has room, and the second is refused where both have not."""
    (tmp_path / "sub").mkdir()
    plan = loads_plan(
        "version: 1\nflows:\n"
        "  a: { from: host0, to: disk0, size: 1MiB, file: a }\n"
        "  b: { from: host0, to: disk0, size: 2MiB, file: sub/b }\n",
        directory=tmp_path,
    ).plan
    machine = one_gpu()
    usage: Any = type("Usage", (), {"free": free})
    monkeypatch.setattr("planner.engine.scratch.shutil.disk_usage", lambda _path: usage)
    predicted = estimate(plan, machine)
    if fits:
        execute(plan, machine, estimate=predicted, backend="host", samples=1, warmup=0)
        return
    with pytest.raises(InfeasibleError, match="2 MiB are needed, 1 MiB by other flows and 64 MiB"):
        execute(plan, machine, estimate=predicted, backend="host", samples=1, warmup=0)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
