"""Registering region by region: every variant moves the file and gives back what it registered."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.record import Clock
from benchmarks.registering import HELD, measure, open_bench, table
from planner.engine.backends.host import HostBackend
from planner.engine.memory import HostBuffer
from planner.engine.pattern import Pattern

MIB = 1 << 20
SIZE = 10 * MIB + 4097


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """What is registered now, by address; the largest sum so far is under 0."""
    regions: dict[int, int] = {0: 0}

    def register(_self: HostBackend, address: int, size: int, *, read_only: bool = False) -> None:
        assert read_only
        assert address not in regions
        regions[address] = size
        regions[0] = max(regions[0], sum(s for at, s in regions.items() if at))

    monkeypatch.setattr(HostBackend, "register", register)
    monkeypatch.setattr(HostBackend, "unregister", lambda _self, at: regions.pop(at))
    return regions


def test_every_variant_moves_all_and_gives_all_back(
    held: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    backend = HostBackend()
    expected = np.empty(SIZE, np.uint8)
    Pattern(1).write(expected, 0)
    with contextlib.ExitStack() as undo:
        undo.callback(backend.close)
        bench = open_bench(backend, SIZE, undo)
        assert bench.device.buffer is not None
        arrived = HostBuffer(SIZE)
        undo.callback(arrived.close)
        most = {}
        for name, run in bench.variants(MIB).items():
            backend.fill(bench.device.buffer, 0)
            held[0] = 0
            bench.ready()
            moved, both = run()
            assert 0 < moved <= both
            assert set(held) == {0}
            most[name] = held[0]
            backend.read(bench.device.buffer, 0, arrived.address, SIZE)
            assert np.array_equal(arrived.array, expected)
        pages = -(-SIZE // 4096) * 4096
        # Given back at the end all is held at once, between only so much as is allowed.
        assert most["one thread"] == most["pages brought in"] == most["two threads"] == pages
        assert most["given back between"] <= HELD * MIB
    assert not list(tmp_path.iterdir())


def test_rows_have_both_rates_and_the_table_shows_them(
    held: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    backend = HostBackend()
    with contextlib.ExitStack() as undo:
        undo.callback(backend.close)
        bench = open_bench(backend, SIZE, undo)
        saved: list[int] = []
        rows = measure(
            bench,
            [MIB, 4 * MIB],
            2,
            Clock(None),
            lambda rows: saved.append(len(rows[0]["samples_s"])),
        )
    assert len(rows) == 10
    assert saved == [1, 2]
    for row in rows:
        assert row["rate_bytes_per_s"] * row["seconds"] == pytest.approx(SIZE)
        assert row["all_rate_bytes_per_s"] <= row["rate_bytes_per_s"] * (1 + 1e-9)
        assert len(row["samples_s"]) == 2
    lines = table(rows).splitlines()
    assert lines[0].split() == ["1", "MiB", "4", "MiB"]
    assert len(lines) == 6
    assert lines[1].count("/s / ") == 2
    assert set(held) == {0}


def test_a_variant_that_fails_is_a_reason_and_leaves_nothing_registered(
    held: dict[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    register = HostBackend.register

    def refuse(backend: HostBackend, address: int, size: int, *, read_only: bool = False) -> None:
        if size == 4 * MIB and len(held) > 1:  # the second region of the larger ones
            raise OSError("no more memory may be locked")
        register(backend, address, size, read_only=read_only)

    monkeypatch.setattr(HostBackend, "register", refuse)
    backend = HostBackend()
    with contextlib.ExitStack() as undo:
        undo.callback(backend.close)
        bench = open_bench(backend, SIZE, undo)
        rows = measure(bench, [4 * MIB, MIB], 2, Clock(None), lambda _rows: None)
    large = [row for row in rows if row["region_bytes"] == 4 * MIB]
    small = [row for row in rows if row["region_bytes"] == MIB]
    assert all("no more memory may be locked" in row["reason"] for row in large)
    assert [len(row["samples_s"]) for row in small] == [2] * 5
    assert "no more memory may be locked" in table(rows)
    assert set(held) == {0}
