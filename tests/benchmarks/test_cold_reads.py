"""Cold reads beside raw ones: all ways read all bytes, and the pairs are kept as they came."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import cold_reads
from benchmarks.cold_reads import FINALISTS, Dropped, Raw, measure, share, touched, ways
from benchmarks.record import Clock
from planner.engine.backends.host import HostBackend
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch
from tests.helpers.machines import one_gpu

MIB = 1 << 20


def test_ways_have_a_request_for_each_thread() -> None:
    # 2 MiB: 256 KiB by 1 to 8 threads, 1 MiB by 1 and 2; both ways.
    found = [(way.request, way.threads) for way in ways(2 * MIB) if way.direct]
    assert found == [(MIB // 4, n) for n in (1, 2, 4, 8)] + [(MIB, 1), (MIB, 2)]
    assert len(ways(2 * MIB)) == 2 * len(found)
    assert str(Raw(True, MIB, 4)) == "direct, 4 x 1 MiB"


def test_a_raw_read_brings_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = bytes(range(256)) * 4096 + bytes(reversed(range(256))) * 4096  # 2 MiB
    path.write_bytes(data)
    with touched(2 * MIB) as memory:
        assert Raw(False, MIB // 4, 3).read(path, 2 * MIB, memory) > 0
        assert memory[:] == data
    with touched(MIB) as memory:  # one slot: the last request stays
        assert Raw(False, MIB, 1).read(path, 2 * MIB, memory) > 0
        assert memory[:] == data[MIB:]
        with pytest.raises(OSError, match="a short read at byte 2097152"):
            Raw(False, MIB, 1).read(path, 3 * MIB, memory)


def test_the_share_is_that_of_the_median_pair() -> None:
    # 0.5, 1 and 0.8 of the raw rate.
    assert share([1.0, 1.0, 2.0], [2.0, 1.0, 2.5]) == 0.8


def test_pairs_of_a_plan_and_the_fastest_raw_reads(tmp_path: Path) -> None:
    source = Scratch(tmp_path, "cold", 4 * MIB, Pattern(1)).write(sync=True)
    backend = HostBackend()
    saved: list[object] = []
    try:
        row = measure(
            one_gpu(),
            backend,
            source,
            "gpu0",
            3,
            Clock(0.0),
            lambda row: saved.append(row["raw_s"]),
        )
    finally:
        backend.close()
    assert len(saved) == 2  # without time, two pairs all the same
    assert len(row["planned_s"]) == 2
    assert len(row["raw_s"]) == FINALISTS
    assert all(len(seconds) == 2 for seconds in row["raw_s"].values())
    assert row["best_raw"] in row["raw_s"]
    assert row["share_of_best_raw"] == share(row["raw_s"][row["best_raw"]], row["planned_s"])


def test_a_file_that_stays_cached_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Scratch(tmp_path, "cold", MIB, Pattern(1)).write(sync=True)
    file = Dropped(source)
    for state in ("cold", "guest-cold", "partly", "warm"):
        monkeypatch.setattr(cold_reads, "enforce", lambda *_, state=state: state)
        file.drop()
    assert file.warm_reads == 2
