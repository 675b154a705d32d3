"""Calls that meet, pools that cannot have what they want: nothing is lost, and nothing hangs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import planner
from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_lane import HostLane
from planner.engine.serving import classify, desk, ends, loader
from planner.engine.serving.ends import End, MemoryEnd
from planner.engine.serving.job import Hands
from planner.engine.serving.shape import Shape
from planner.errors import ExecutionError, InputError, UnavailableError
from tests.helpers.native import everywhere
from tests.helpers.weights import same, write_weights

pytestmark = pytest.mark.usefixtures("alone")

SIZE = 1 << 20
CHUNK = 64 << 10


def ones(value: int = 1, size: int = SIZE) -> Any:
    return np.full(size, value, np.uint8)


@pytest.fixture
def from_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are taken for memory of an emulated GPU: they go out through the ring."""
    real = classify.source_of

    def source_of(*given: Any) -> End:
        end = real(*given)
        if isinstance(end, MemoryEnd):
            end.gpu = 0
        return end

    monkeypatch.setattr(classify, "source_of", source_of)


def shaped(pool: planner.Loader, workers: int) -> None:
    """Let the pool's calls have so many workers."""
    pool._chooser._rule = Shape(workers, 2, CHUNK)


def test_two_transfers_to_one_path_come_one_after_another(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path = tmp_path / "out.bin"
    first = pool.transfer(ones(1), path, overwrite=True)
    second = pool.transfer(ones(2, SIZE + 5), path, overwrite=True)
    assert first.result().size_bytes == SIZE
    assert second.result().size_bytes == SIZE + 5
    assert path.read_bytes() == bytes([2]) * (SIZE + 5)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("from_gpu")
def test_a_stream_goes_on_only_when_the_cpu_has_brought_everything_in(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued: list[bool] = []
    empty = Hands._empty

    def noting(self: Hands, slot: int, chunk: int) -> None:
        issued.append(self.job.issued.is_set())
        empty(self, slot, chunk)

    monkeypatch.setattr(Hands, "_empty", noting)
    shaped(pool, 2)
    target = ones(0)
    future = pool.transfer(ones(), target)
    future.result()
    assert future._issued.is_set()
    assert issued == [False] * (SIZE // CHUNK)
    assert target.all()


@pytest.mark.usefixtures("from_gpu")
def test_who_closes_again_waits_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = Event(), Event()
    empty = Hands._empty

    def held(self: Hands, slot: int, chunk: int) -> None:
        begun.set()
        assert goes_on.wait(30)
        empty(self, slot, chunk)

    monkeypatch.setattr(Hands, "_empty", held)
    pool = planner.Loader(backend="host")
    shaped(pool, 1)
    target = ones(0)
    future = pool.transfer(ones(), target)
    assert begun.wait(30)
    both = [Thread(target=pool.close) for _ in range(2)]
    for thread in both:
        thread.start()
    both[1].join(0.1)
    assert all(thread.is_alive() for thread in both)
    goes_on.set()
    for thread in both:
        thread.join()
    assert future.result().size_bytes == SIZE
    assert target.all()
    pool.close()  # and once more: there is nothing left to do


def test_what_takes_long_is_waited_for_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(desk, "JOIN_S", 0.05)
    write, done = ends.out_of_slot, []

    def slow(*given: Any) -> None:
        Event().wait(0.02)
        write(*given)
        done.append(1)

    monkeypatch.setattr("planner.engine.serving.job.out_of_slot", slow)
    with planner.Loader(backend="host") as pool:
        shaped(pool, 1)
        future = pool.transfer(ones(), tmp_path / "out.bin")
    assert future.done()
    assert len(done) == SIZE // CHUNK
    assert (tmp_path / "out.bin").stat().st_size == SIZE


def test_what_stands_still_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(desk, "JOIN_S", 0.05)
    goes_on, write = Event(), ends.out_of_slot

    def stuck(*given: Any) -> None:
        assert goes_on.wait(30)
        write(*given)

    monkeypatch.setattr("planner.engine.serving.job.out_of_slot", stuck)
    pool = planner.Loader(backend="host")
    future = pool.transfer(ones(), tmp_path / "out.bin")
    with pytest.raises(ExecutionError, match="stood still"):
        pool.close()
    goes_on.set()
    pool.close()
    assert future.result().size_bytes == SIZE


def refusing(monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[], None]:
    """Let the system start no thread of that name, until what is returned is called."""
    start = Thread.start

    def refused(self: Thread) -> None:
        if name in self.name:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(Thread, "start", refused)
    return lambda: monkeypatch.setattr(Thread, "start", start)


def test_a_pool_that_cannot_grow_does_smaller_calls_afterwards(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    shaped(pool, 2)
    pool.transfer(ones(), ones(0)).result()
    again = refusing(monkeypatch, "planner pool")
    shaped(pool, 5)
    with pytest.raises(UnavailableError, match=r"starts 0 of \d threads"):
        pool.transfer(ones(), ones(0)).result()
    again()
    shaped(pool, 2)
    target = ones(0)
    pool.transfer(ones(), target).result(30)
    assert target.all()


def test_a_pool_without_a_thread_says_so_and_goes_on_when_there_is_one(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, target = tmp_path / "in.bin", ones(0)
    path.write_bytes(bytes([1]) * SIZE)
    again = refusing(monkeypatch, "planner desk")
    with pytest.raises(UnavailableError, match="starts no thread"):
        pool.transfer(path, target)
    open_files = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert path not in open_files
    again()
    pool.transfer(path, target).result(30)
    assert target.all()


def test_a_common_lane_that_cannot_be_had_leaves_no_closed_one(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everywhere(monkeypatch)
    held = write_weights(tmp_path / "m.safetensors", [("a", "U8", (SIZE,))])
    closed: list[HostLane] = []
    copy, lane = HostLane.copy, HostBackend.lane

    def copied(self: HostLane, *given: int) -> None:
        assert self not in closed
        copy(self, *given)

    def refused(*_given: Any, **_words: Any) -> HostLane:
        raise RuntimeError("cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)")

    def close(self: HostLane) -> None:
        closed.append(self)

    monkeypatch.setattr(HostLane, "close", close)
    monkeypatch.setattr(HostLane, "copy", copied)
    shaped(pool, 2)
    pool.load(tmp_path / "m.safetensors")
    monkeypatch.setattr(HostBackend, "lane", refused)
    shaped(pool, 5)
    with pytest.raises(ExecutionError, match="OUT_OF_MEMORY"):
        pool.load(tmp_path / "m.safetensors")
    assert len(closed) == 1
    monkeypatch.setattr(HostBackend, "lane", lane)
    shaped(pool, 2)
    assert same(pool.load(tmp_path / "m.safetensors")["a"], held["a"])


def test_lanes_stay_while_a_stream_is_handed_over(pool: planner.Loader) -> None:
    pump = pool._desk.pump
    with pump.lending:
        dropping = Thread(target=pump._drop_lanes)
        dropping.start()
        dropping.join(0.05)
        assert dropping.is_alive()
    dropping.join(30)
    assert not dropping.is_alive()


def test_the_common_lane_forgets_what_it_logged(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everywhere(monkeypatch)
    write_weights(tmp_path / "m.safetensors", [("a", "U8", (SIZE,))])
    shaped(pool, 2)
    lengths = []
    for _ in range(3):
        pool.load(tmp_path / "m.safetensors")
        ((lane, _),) = pool._desk.pump._common.values()
        lengths.append(len(lane.log))
    assert lengths[0] > 0
    assert lengths == [lengths[0]] * 3


def test_some_tensors_of_a_cached_file_go_through_a_ring(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("planner.engine.serving.mapped.LEAST", 1)
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [(f"t{k}", "U8", (300_000,)) for k in range(20)])
    whole = pool.load(path, cores=1)
    assert any("where they lie" in note or "cached" in note for note in whole.report.notes)
    names = [f"t{k}" for k in range(20) if k % 3]
    some = pool.load(path, cores=1, tensors=names)
    assert all(same(some[name], held[name]) for name in names)
    assert not any("through a ring" in note for note in some.report.notes)  # it was not tried
    assert loader.MAPPED not in some.report.notes
    del whole, some


def test_a_pipe_is_refused_and_not_waited_for(pool: planner.Loader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        pool.transfer(tmp_path / "pipe", ones(0))


def test_copies_wait_for_the_stream_that_an_array_names(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[tuple[int, int]] = []

    def mark(gpu: int, stream: int) -> str:
        marked.append((gpu, stream))
        return f"event {stream}"

    monkeypatch.setattr("planner.engine.backends.cuda_foreign.mark", mark)
    monkeypatch.setattr("planner.engine.backends.cuda_foreign.device_of", lambda _address: 1)
    interface = {"shape": (8,), "typestr": "|u1", "data": (1 << 40, False), "version": 3}
    named = type("Named", (), {"__cuda_array_interface__": {**interface, "stream": 77}})()
    plain = type("Plain", (), {"__cuda_array_interface__": {**interface, "stream": None}})()
    pool = planner.Loader(backend="cuda")
    ends = [classify.source_of(named, "auto", None), classify.source_of(plain, "auto", None)]
    assert pool._behind(ends, None) == ["event 0", "event 77"]
    assert marked == [(1, 0), (1, 77)]


@pytest.mark.parametrize("path", ["", ".", "/", "a\0b"])
@pytest.mark.parametrize("side", ["source", "destination"])
def test_paths_that_name_no_file_are_refused(
    pool: planner.Loader, path: str, side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = (path, ones(0)) if side == "source" else (ones(), path)
    with pytest.raises(InputError, match=r"empty|zero byte|not a regular file"):
        pool.transfer(*pair)
    assert list(tmp_path.iterdir()) == []


def test_the_home_folder_is_meant_by_its_sign(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = ones(0)
    pool.transfer(ones(), "~/out.bin").result()
    pool.transfer("~/out.bin", target).result()
    assert (tmp_path / "out.bin").stat().st_size == SIZE
    assert target.all()


def test_one_file_for_two_pairs_is_refused(pool: planner.Loader, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to(tmp_path)
    twice = [(ones(), tmp_path / "q.bin"), (ones(), tmp_path / "folder" / "q.bin")]
    with pytest.raises(InputError, match=r"q\.bin is the destination of two pairs"):
        pool.transfer(twice)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    "words",
    [{"cores": "2"}, {"cores": 1.5}, {"cores": True}, {"cores": 0}, {"tensors": 5},
     {"tensors": [1]}, {"tensors": [None, "a"]}],
)  # fmt: skip
def test_what_is_asked_for_in_the_wrong_way_is_told(
    pool: planner.Loader, tmp_path: Path, words: dict[str, Any]
) -> None:
    write_weights(tmp_path / "m.safetensors", [("a", "U8", (8,))])
    with pytest.raises(InputError, match=r"cores cannot load|are no names") as told:
        pool.load(tmp_path / "m.safetensors", **words)
    assert told.value.hint


def test_a_path_with_a_zero_byte_is_told(pool: planner.Loader) -> None:
    with pytest.raises(InputError, match="zero byte"):
        pool.load("a\0b")
