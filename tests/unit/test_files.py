"""Files that people name: nothing is waited for that may never come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.files import read_bytes
from planner.plan.load import load_plan


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x00text")
    assert read_bytes(tmp_path / "f") == b"\x00text"


def test_a_named_pipe_and_a_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a named pipe, not a file"):
        read_bytes(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a socket"):
        read_bytes("/dev/zero")
    with pytest.raises(PlanError) as told:
        load_plan(tmp_path / "pipe")
    assert "cannot be read: it is a named pipe" in told.value.faults[0].message


def test_a_pipe_that_the_process_was_started_with_is_read() -> None:
    end, start = os.pipe()
    os.write(start, b"a plan")
    os.close(start)
    try:
        assert read_bytes(f"/dev/fd/{end}") == b"a plan"
    finally:
        os.close(end)
