"""What may be a sink, and what is refused before a byte moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.engine.files import Sink
from planner.errors import InputError


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
