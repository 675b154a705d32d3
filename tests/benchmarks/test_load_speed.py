"""Loads beside one big copy: the stages alone move every byte, and a failing case is a reason."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import planner
from benchmarks import load_cases, load_controls
from benchmarks.checkpoints import even_table, make
from benchmarks.load_cases import Case, cold
from benchmarks.load_controls import (
    LIBRARY,
    PYTHON,
    Controls,
    filling,
    from_file,
    from_memory,
    handing,
    reading,
)
from benchmarks.load_speed import Bench, line, place_for
from benchmarks.record import Clock
from planner.engine import aio
from planner.engine.backends.host import HostBackend
from planner.engine.memory import HostBuffer
from planner.engine.serving.shape import Shape

KIB = 1 << 10
SIZE = 300_007
SHAPE = Shape(3, 2, 16 * KIB)


@pytest.fixture
def controls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Controls]:
    monkeypatch.setattr("benchmarks.load_controls.PINNED", 256 * KIB)
    with contextlib.closing(Controls(HostBackend(), 0)) as found:
        yield found


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(
        backend="host",
        budget=None,
        cache="auto",
        cores=None,
        folder=tmp_path,
        gpu=0,
        output=tmp_path / "out.json",
        pause=0.0,
        rounds=2,
    )


def forget(_row: dict[str, Any]) -> None:
    """For who does not look at the rows."""


def seen_of(source: bytes) -> tuple[list[tuple[int, bytes]], Any]:
    """What each turn of the workers got, and the function that gives it."""
    seen: list[tuple[int, bytes]] = []

    def take(slot: memoryview, at: int) -> None:
        slot[:] = source[at : at + len(slot)]
        seen.append((at, bytes(slot)))

    return seen, take


def test_workers_take_every_byte_once() -> None:
    source = np.random.default_rng(3).bytes(SIZE)
    seen, take = seen_of(source)
    assert filling(SIZE, SHAPE, take) > 0
    assert b"".join(part for _, part in sorted(seen)) == source
    assert [at for at, _ in sorted(seen)] == list(range(0, SIZE, 16 * KIB))


def test_the_takes_read_a_file_and_copy_memory(tmp_path: Path) -> None:
    source = np.random.default_rng(3).bytes(SIZE)
    (tmp_path / "file").write_bytes(source)
    slot = bytearray(1000)
    with from_file(tmp_path / "file") as take:
        take(memoryview(slot), 77)
        assert slot == source[77:1077]
        with pytest.raises(OSError, match="a short read"):
            take(memoryview(slot), SIZE - 999)
    with contextlib.closing(HostBuffer(SIZE)) as memory:
        memory.view[:] = source
        from_memory(memory)(memoryview(slot), 4097)
        assert slot == source[4097:5097]


@pytest.mark.skipif(not aio.usable(), reason="the C library has no such reads")
def test_the_stage_reads_as_the_load_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 21 * 64 * KIB + 7
    path = tmp_path / "file"
    path.write_bytes(np.random.default_rng(3).bytes(size))
    asked: list[tuple[int, int, int]] = []
    begin = aio.Reads.begin

    def noted(self: aio.Reads, worker: int, slot: int, read: aio.Read) -> None:
        asked.append((worker, read.offset, read.size))
        begin(self, worker, slot, read)

    monkeypatch.setattr(aio.Reads, "begin", noted)
    monkeypatch.setattr("planner.native.LEAST_CHUNK", 64 * KIB)
    for cores, workers, by in ((4, 3, LIBRARY), (3, 3, PYTHON), (3, 8, LIBRARY), (8, 2, PYTHON)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _pid, n=cores: set(range(n)))
        asked.clear()
        how, seconds = reading(path, size, Shape(workers, 2, 64 * KIB))
        assert (how, seconds > 0) == (by, True), (cores, workers)
        if by == PYTHON:
            assert not asked
            continue
        # One chunk of each worker comes before the clock starts; then the whole file, once.
        timed = sorted(asked[workers:], key=lambda one: one[1])
        assert [(at, length) for _, at, length in timed] == [
            (at, min(64 * KIB, size - at)) for at in range(0, size, 64 * KIB)
        ]
        assert {worker for worker, _, _ in timed} == set(range(workers))


@pytest.mark.skipif(not aio.usable(), reason="the C library has no such reads")
def test_every_byte_lies_in_the_slot_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.random.default_rng(3).bytes(SIZE)
    (tmp_path / "file").write_bytes(source)
    found: dict[int, bytes] = {}
    take = load_controls._Reader.take

    def look(self: Any, slot: int, chunk: int, done: int) -> None:
        at, size = self._parts[chunk]
        found[at] = ctypes.string_at(self._slots[slot], size)
        take(self, slot, chunk, done)

    monkeypatch.setattr(load_controls._Reader, "take", look)
    assert handing(tmp_path / "file", SIZE, SHAPE) > 0
    assert b"".join(found[at] for at in sorted(found)) == source
    with pytest.raises(OSError, match="a short read at byte"):
        handing(tmp_path / "file", SIZE + 1, SHAPE)


def test_a_file_is_registered_whole_and_given_back(
    tmp_path: Path, controls: Controls, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: dict[int, int] = {}
    most: list[int] = []

    def register(_self: HostBackend, address: int, size: int, *, read_only: bool = False) -> None:
        assert read_only
        held[address] = size
        most.append(sum(held.values()))

    monkeypatch.setattr(HostBackend, "register", register)
    monkeypatch.setattr(HostBackend, "unregister", lambda _self, at: held.pop(at, None))
    make(tmp_path / "file", even_table(SIZE, 3))
    size = (tmp_path / "file").stat().st_size
    assert controls.registering(tmp_path / "file", 64 * KIB) > 0
    assert max(most) == -(-size // 4096) * 4096
    assert held == {}


@pytest.mark.parametrize("word", ["300KB", "memory:300KB"])
def test_a_case_has_its_rounds_and_both_shares(
    word: str, tmp_path: Path, controls: Controls, options: argparse.Namespace
) -> None:
    saved: list[int] = []
    case = Case(word, options, controls)
    row = case.run(tmp_path / "f", Clock(None), lambda row: saved.append(len(row["rounds"])))
    assert saved == [1, 2]
    assert row["share_of_copy"] == pytest.approx(row["copy_s"] / row["load_s"])
    slowest = max(row["copy_s"], row["stage_s"])
    assert row["share_of_ceiling"] == pytest.approx(slowest / row["load_s"])
    assert {one["stage_by"] for one in row["rounds"]} <= {LIBRARY, PYTHON}
    assert "of the ceiling" in line(row)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("word", ["300KB", "memory:300KB"])
def test_a_load_comes_a_pause_behind_the_last_release(
    word: str,
    tmp_path: Path,
    controls: Controls,
    options: argparse.Namespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str | float] = []
    now = [100.0]

    def sleep(seconds: float) -> None:
        order.append(seconds)
        now[0] += seconds

    def step(owner: Any, name: str, called: str = "") -> None:
        do = getattr(owner, name)

        def noted(*given: Any, **more: Any) -> Any:
            order.append(called or name)
            return do(*given, **more)

        monkeypatch.setattr(owner, name, noted)

    monkeypatch.setattr("benchmarks.load_cases.time.sleep", sleep)
    # Only pauses take time here, so what is told is their sum.
    monkeypatch.setattr("benchmarks.load_controls.perf_counter", lambda: now[0])
    step(Controls, "copy")
    step(planner.Loader, "load")
    step(planner.Loader, "transfer", "load")
    step(Controls, "note_release", "release")
    step(load_cases, "reading", "stage")
    step(load_cases, "filling", "stage")
    monkeypatch.setattr(Case, "row", lambda self: {"rounds": self.rows})
    options.pause = 2.0
    rows = Case(word, options, controls).run(tmp_path / "f", Clock(None), forget)["rounds"]
    each = [2.0, "copy", load_cases.REST_S, "load", "release", "stage"]
    assert order == [*each, *each, "release"]  # the last is that of the allocation
    assert [row["since_release_s"] for row in rows] == [
        None,
        pytest.approx(2.0 + load_cases.REST_S),
    ]


def test_what_a_load_has_made_is_gone_before_its_stage(
    tmp_path: Path,
    controls: Controls,
    options: argparse.Namespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[weakref.ref[planner.TensorMap]] = []
    load = planner.Loader.load

    def noted(*given: Any, **more: Any) -> planner.TensorMap:
        found = load(*given, **more)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(planner.Loader, "load", noted)
    alive: list[int] = []
    release = Controls.note_release

    def look(self: Controls) -> None:
        alive.append(sum(one() is not None for one in made))
        release(self)

    monkeypatch.setattr(Controls, "note_release", look)
    Case("300KB", options, controls).run(tmp_path / "f", Clock(None), forget)
    assert len(made) == 2
    assert alive == [0, 0, 0]


def test_pauses_end_with_the_time_of_the_run(
    tmp_path: Path, controls: Controls, options: argparse.Namespace
) -> None:
    options.pause = 60.0
    clock = Clock(0.3)
    row = Case("300KB", options, controls).run(tmp_path / "f", clock, forget)
    assert len(row["rounds"]) == 1
    assert 0.3 <= clock.spent() < 10


def test_a_budget_that_is_spent_leaves_one_round(
    tmp_path: Path, controls: Controls, options: argparse.Namespace
) -> None:
    row = Case("300KB", options, controls).run(tmp_path / "f", Clock(0.0), forget)
    assert len(row["rounds"]) == 1


def test_a_failing_case_is_a_reason_and_the_others_go_on(
    tmp_path: Path, controls: Controls, options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(options, Clock(None))
    for word in ("300 leagues", "300KB"):
        case = Case(word, options, controls)
        bench.case(word, lambda path, case=case: case.run(path, bench.clock, forget))  # type: ignore[misc]
    broken = Case("300KB", options, controls)
    turns = iter([{"copy_s": 1.0}])
    monkeypatch.setattr(broken, "_round", lambda *_: next(turns))
    monkeypatch.setattr(broken, "row", lambda: {"case": "300KB"})
    bench.case("300KB", lambda path: broken.run(path, bench.clock, forget))
    rows = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert "leagues" in rows[0]["reason"]
    assert rows[1]["load_s"] > 0
    assert rows[2]["reason"].startswith("StopIteration")
    assert list(tmp_path.iterdir()) == [tmp_path / "out.json"]


def test_a_memory_file_system_that_is_too_small_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/elsewhere")
    free = SimpleNamespace(free=10**9)  # 64 MiB of it stay free
    monkeypatch.setattr("planner.engine.scratch.shutil.disk_usage", lambda _folder: free)
    assert place_for(tmp_path, "900MB") == tmp_path
    assert place_for(tmp_path, "memory:1GB") == tmp_path
    assert place_for(tmp_path, "1GB") == Path("/elsewhere")


def test_a_fresh_process_that_fails_says_why(
    tmp_path: Path, options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.load_cases.table_of", lambda _word: even_table(SIZE, 2))
    options.gpu = -1
    with pytest.raises(RuntimeError, match=r"a fresh process left with 1: .*there is no device"):
        cold(tmp_path / "f", options)
    options.gpu = 0
    row = cold(tmp_path / "f", options)
    assert len(row["rounds"]) == 2
    assert row["again_s"] > 0
