"""Every strategy does its work, byte for byte, whatever the size and the shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.strategies import NAMES
from planner.machine.schema import Machine
from tests.helpers.machines import every_way
from tests.helpers.schedules import KIB, WAYS, noise_file, run_way

pytestmark = pytest.mark.usefixtures("scratch")

CHUNK = 4 * KIB
SIZES = [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 9 * CHUNK + 17]


@pytest.fixture
def machine() -> Machine:
    """The small machine on which every strategy has its figures."""
    return every_way()


def test_the_ways_of_the_tests_are_all_strategies() -> None:
    named = {text.split()[1] for hops in WAYS.values() for text in hops}
    assert named == NAMES


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_every_byte_arrives(way: str, size: int, machine: Machine) -> None:
    run = run_way(way, size, machine, samples=2)
    flow = run.flows[0]
    assert flow.verified is True
    assert flow.size_bytes == size
    assert len(flow.samples_s) == 2
    assert run.environment.backend == "host"
    assert run.environment.emulated
    # Service of a hop lies inside of the sample, and something was served unless nothing moves: a
    # mapping that another hop follows is only reached into.
    for hop, text in zip(flow.hops, WAYS[way], strict=True):
        assert (hop.busy_s > 0) == ("mmap" not in text or len(flow.hops) == 1)
        assert hop.busy_s <= flow.p95_s + 1e-9


@pytest.mark.parametrize(("depth", "workers"), [(1, 1), (1, 5), (3, 2), (2, 16)])
@pytest.mark.parametrize(
    "way", ["load", "load direct", "staged in", "staged out", "save", "relay", "pinned in"]
)
def test_every_shape_moves_every_byte(way: str, depth: int, workers: int, machine: Machine) -> None:
    # 37 chunks and a short one: no multiple of any of the shapes' rings.
    run = run_way(way, 37 * CHUNK + 5, machine, shape=(CHUNK, depth, workers))
    assert run.flows[0].verified is True


@pytest.mark.parametrize("backend", ["host", "null"])
@pytest.mark.parametrize("way", ["pinned in", "pinned out"])
def test_slots_that_no_chunk_needs_are_not_made(way: str, backend: str, machine: Machine) -> None:
    # Eight bytes for each of them would be 8 TB.
    run = run_way(way, 3 * CHUNK, machine, shape=(CHUNK, 10**12, 2), backend=backend)
    assert run.flows[0].error_factor > 0


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith(("read", "load"))])
def test_ranges_of_several_files_arrive_in_order(
    way: str, machine: Machine, tmp_path: Path
) -> None:
    # Offsets as behind headers of safetensors files (8 + N), sizes that are no multiple of a chunk.
    files = [
        noise_file(tmp_path / "a", 3 * CHUNK + 1, offset=8 + 123, seed=1),
        noise_file(tmp_path / "b", 1, offset=0, seed=2),
        noise_file(tmp_path / "c", 2 * CHUNK - 7, offset=4096, seed=3),
    ]
    if way.endswith("direct") and "load direct" not in way:
        files = files[:1]  # one buffer's addresses can agree with one file's offsets only
    sources = [file.model_dump() for file in files]
    size = sum(file.size_bytes for file in files)
    assert run_way(way, size, machine, files=sources).flows[0].verified is True


@pytest.mark.parametrize("way", ["write", "save", "save stored"])
def test_a_sink_appears_whole(way: str, machine: Machine, tmp_path: Path) -> None:
    sink = tmp_path / "out.bin"
    run = run_way(way, 5 * CHUNK + 3, machine, samples=2, sink=str(sink))
    assert run.flows[0].verified is True
    assert sink.stat().st_size == 5 * CHUNK + 3
    assert [path.name for path in tmp_path.glob("*.part")] == []
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_file_of_no_bytes_takes_no_time(machine: Machine) -> None:
    assert run_way("load", 0, machine).flows[0].verified is True
