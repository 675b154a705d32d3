"""Loads whose files the C library's threads read: the same bytes and errors as by workers."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, active_count

import pytest

import planner
from planner.engine.aio import Reads
from planner.engine.backends.host import HostBackend
from planner.engine.dispatch import Dispatcher
from planner.engine.serving import ends, loader
from planner.engine.serving.intake import THREADS, Taker
from planner.engine.serving.job import Hands
from planner.errors import ExecutionError
from tests.helpers.native import ending, everywhere
from tests.helpers.weights import same, write_weights

pytestmark = pytest.mark.usefixtures("alone")

SIZES = [1, 64 << 10, 1_000_000, (1 << 20) + 3]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Reads]:
    return everywhere(monkeypatch)


@pytest.mark.parametrize("cache", ["warm", "cold", "auto"])
@pytest.mark.parametrize("size", SIZES)
def test_every_byte_arrives(
    used: list[Reads], cache: ends.Cache, size: int, tmp_path: Path
) -> None:
    held = [write_weights(tmp_path / f"{k}.safetensors", [(f"t{k}", "U8", (size,))], pad=k)
            for k in range(3)]  # fmt: skip
    with planner.Loader(backend="host") as pool:
        before = active_count()
        for _ in range(2):  # the second time everything is there already
            found = pool.load(sorted(tmp_path.glob("*.safetensors")), cache=cache)
            assert all(same(found[f"t{k}"], held[k][f"t{k}"]) for k in range(3))
            report = found.report
            assert report.buffered_bytes + report.direct_bytes == report.size_bytes
            del found
        # Small files are packed into one chunk, which is brought piece by piece.
        assert bool(used) == (size > SIZES[0])
        # One prepares, which is the desk's own; one hands on; the emulated engine has one.
        assert not used or active_count() - before <= THREADS + 1


def test_a_larger_load_behind_a_small_one_has_a_lane_for_its_slots(
    used: list[Reads], tmp_path: Path
) -> None:
    small = write_weights(tmp_path / "a.safetensors", [("a", "U8", (100,))])
    large = write_weights(tmp_path / "b.safetensors", [("b", "U8", (9_000_000,))])
    with planner.Loader(backend="host", budget="2MiB") as pool:
        for name, held in (("a", small), ("b", large), ("a", small)):
            assert same(pool.load(tmp_path / f"{name}.safetensors")[name], held[name])
    assert len(used) == 3


def test_a_failed_read_is_told_with_its_place_and_the_pool_goes_on(
    used: list[Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])
    with planner.Loader(backend="host") as pool:
        with monkeypatch.context() as patch:
            ending(patch, {3: -errno.EIO})
            with pytest.raises(
                ExecutionError, match=r"m\.safetensors, bytes \d+ to \d+: .*Input/output"
            ):
                pool.load(path)
        assert used[-1].flying == 0
        assert same(pool.load(path)["a"], held["a"])


@pytest.mark.parametrize("apart", [True, False])
def test_what_keeps_workers_from_beginning_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    def refused(*_given: object) -> None:
        raise MemoryError("none left")

    if apart:
        everywhere(monkeypatch)
    held = write_weights(tmp_path / "m.safetensors", [("a", "U8", (1_000_000,))])
    with planner.Loader(backend="host") as pool:
        with monkeypatch.context() as patch:
            patch.setattr(Dispatcher if apart else Hands, "__init__", refused)
            with pytest.raises(MemoryError, match="none left"):
                pool.load(tmp_path / "m.safetensors")
        assert same(pool.load(tmp_path / "m.safetensors")["a"], held["a"])


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_a_short_read_is_continued(
    used: list[Reads], cache: ends.Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])
    ending(monkeypatch, dict.fromkeys(range(1000), 0))
    with planner.Loader(backend="host") as pool:
        assert same(pool.load(path, cache=cache)["a"], held["a"])
    assert used


def test_a_file_that_shrinks_is_told(
    used: list[Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    begin = Reads.begin

    def shrunk(self: Reads, *given: object) -> None:
        os.truncate(path, 500_000)
        begin(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Reads, "begin", shrunk)
    with (
        planner.Loader(backend="host") as pool,
        pytest.raises(ExecutionError, match="shrank"),
    ):
        pool.load(path)
    assert used


def test_reads_begin_before_the_device_is_open(
    used: list[Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])
    read = Event()
    take = Taker.take

    def told(self: Taker, slot: int, chunk: int, done: int) -> None:
        take(self, slot, chunk, done)
        read.set()

    def slow(_name: str, _gpu: int) -> HostBackend:
        assert read.wait(30), "nobody read while the device was opened"
        return HostBackend()

    monkeypatch.setattr(Taker, "take", told)
    monkeypatch.setattr(loader, "open_for", slow)
    with planner.Loader(backend="host") as pool:
        assert same(pool.load(path)["a"], held["a"])
    assert used


@pytest.mark.parametrize(("cores", "apart"), [(3, False), (64, True)])
def test_who_hands_on_has_a_core_of_its_own(
    used: list[Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, *, apart: bool
) -> None:
    monkeypatch.setattr("planner.engine.serving.shape.MOST_WORKERS", 3)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(4)))
    held = write_weights(tmp_path / "m.safetensors", [("a", "U8", (1_000_000,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(tmp_path / "m.safetensors", cores=cores, cache="cold")
        assert found.report.schedule.workers == 3
        assert same(found["a"], held["a"])
        del found
    assert bool(used) == apart
