"""What the disk takes is measured by real files, of which none is left."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from planner.engine.calibration import writes
from planner.engine.sink import Sink
from planner.errors import UnavailableError

MIB = 1 << 20


@pytest.mark.parametrize("around", [True, False])
def test_files_are_written_in_both_ways_and_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, around: bool
) -> None:
    def refused(*_given: object) -> int:
        raise UnavailableError("direct: the file system has no O_DIRECT")

    if not around:
        monkeypatch.setattr("planner.engine.sink.open_direct", refused)
    source = tmp_path / "warm"
    source.write_bytes(os.urandom(16 * MIB))
    pools = [(1, MIB), (3, MIB), (2, 256 << 10), (4, 4 * MIB)]
    with closing(writes.FileWriter(source, 8 * MIB, pools, 60.0)) as writer:
        cells = list(writer.cells())
        assert all(cell.take() > 0 for cell in cells)
        # Four times two requests of 4 MiB are more than there is to write.
        wanted = {("buffered_write", 1, MIB), ("buffered_write", 3, MIB)}
        if around:
            wanted |= {("direct_write", n, length) for n, length in pools[:3]}
        assert {(c.key[1], c.key[3], c.key[4]) for c in cells if isinstance(c.key, tuple)} == wanted
        assert list(tmp_path.iterdir()) == [source]
    assert list(tmp_path.iterdir()) == [source]


def test_a_writer_s_file_has_all_that_was_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lengths = tmp_path / "warm", []
    source.write_bytes(os.urandom(4 * MIB))
    discard = Sink.discard

    def looked(self: Sink) -> None:
        if self.fd >= 0:
            lengths.append((os.fstat(self.fd).st_size, os.fstat(self.fd).st_blocks * 512))
        discard(self)

    monkeypatch.setattr(Sink, "discard", looked)
    with closing(writes.FileWriter(source, 2 * MIB, [(2, 256 << 10)], 60.0)) as writer:
        assert writer.together(writes.AROUND, 2, 256 << 10) > 0
        assert writer.together(writes.THROUGH, 2, 256 << 10) > 0
    assert [size for size, _ in lengths] == [2 * MIB, 2 * MIB]
    assert all(blocks >= size for size, blocks in lengths)  # no hole is left in between
