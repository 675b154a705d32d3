"""Loads on few cores: cached files copied from where they lie, within the budget, or by a ring."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner.engine.backends.host import HostBackend
from planner.engine.memory import PAGE
from planner.engine.populate import Populator
from planner.engine.serving import ends, loader, mapped
from planner.engine.serving.ends import FileEnd, MemoryEnd
from planner.engine.serving.parts import Part
from planner.errors import ExecutionError, InfeasibleError, InputError
from tests.helpers.weights import write_weights

MIB = 1 << 20


class Watched(HostBackend):
    """Emulated GPUs that note what is registered of files, and may refuse."""

    def __init__(self, *, refuse: int = 1 << 30) -> None:
        super().__init__()
        self.refuse, self.most = refuse, 0
        self.held: dict[int, int] = {}
        self.count = 0

    def register(self, address: int, size: int, *, read_only: bool = False) -> None:
        if read_only:
            self.count += 1
            if self.count > self.refuse:
                raise RuntimeError("the driver does not register this")
            for low, length in self.held.items():  # the driver refuses pages that overlap
                assert address + size <= low or low + length <= address
            assert address % PAGE == 0
            self.held[address] = size
            self.most = max(self.most, sum(self.held.values()))
        super().register(address, size, read_only=read_only)

    def unregister(self, address: int) -> None:
        self.held.pop(address, None)
        super().unregister(address)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """The backend of every loader; small files count, and pieces are small."""
    found = Watched()
    monkeypatch.setattr(loader, "open_for", lambda _name, _gpu: found)
    monkeypatch.setattr(mapped, "LEAST", 1)
    monkeypatch.setattr(mapped, "PIECE", MIB)
    monkeypatch.setattr(FileEnd, "is_cached", lambda _self: True)
    yield found
    assert not found.held


@pytest.mark.parametrize("size", [1, PAGE, MIB - 1, MIB, 7 * MIB + 11])
@pytest.mark.parametrize("pad", [0, 5])
def test_every_byte_arrives(backend: Watched, tmp_path: Path, size: int, pad: int) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (size,)), ("b", "F32", (3,))], pad=pad)
    with planner.Loader(backend="host") as pool:
        for _ in range(2):
            found = pool.load(path, cores=1)
            assert all(found[name].raw.numpy().tobytes() == held[name].tobytes() for name in held)
            report = found.report
            assert loader.MAPPED in report.notes
            assert report.schedule.workers == 1
            assert report.buffered_bytes == report.size_bytes == size + 12
            assert report.pinned_bytes == 0
    # The pieces end where the file's pages end: the header's length shifts the first of them.
    assert backend.count >= 2 * -(-size // MIB)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_several_files(backend: Watched, tmp_path: Path) -> None:
    one, two = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    held = write_weights(one, [("a", "U8", (2 * MIB + 3,))])
    held |= write_weights(two, [("b", "U8", (MIB + 5,))], pad=3)
    with planner.Loader(backend="host") as pool:
        found = pool.load(tmp_path, cores=2)
        assert all(found[name].raw.numpy().tobytes() == held[name].tobytes() for name in held)
    assert backend.count >= 5


@pytest.mark.parametrize("cores", [1, 2])
def test_a_second_core_brings_the_pages_of_later_pieces_in(
    backend: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    made: list[Populator] = []

    class Noted(Populator):
        def __init__(self, stretches: Sequence[tuple[int, int]]) -> None:
            super().__init__(stretches)
            self.sizes, self.done = [size for _, size in stretches], ""
            made.append(self)

        def start(self) -> None:
            self.done = "started"
            super().start()

        def end(self) -> None:
            self.done += ", ended"
            super().end()

    monkeypatch.setattr(mapped, "Populator", Noted)
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (4 * MIB,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path, cores=cores)
        assert found["a"].raw.numpy().tobytes() == held["a"].tobytes()
    # The header shifts the pieces: the first one ends where a page does, and there are five.
    assert backend.count == 5
    assert len(made) == cores - 1
    for helper in made:
        assert isinstance(helper, Noted)
        assert (len(helper.sizes), helper.done) == (4, "started, ended")
        assert 4 * MIB - (MIB + PAGE) < sum(helper.sizes) < 4 * MIB
    assert all(thread.name != "planner populate" for thread in threading.enumerate())


def test_a_load_goes_on_without_a_thread_to_help(
    backend: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name == "planner populate":
            raise RuntimeError("can't start new thread")
        plain(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (4 * MIB,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path, cores=2)
        assert found["a"].raw.numpy().tobytes() == held["a"].tobytes()
        assert loader.MAPPED in found.report.notes
    assert backend.count == 5


def test_no_more_is_registered_than_may_be_pinned(backend: Watched, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (20 * MIB,))])
    # Four pieces in flight and one more, each with a page at either end.
    budget = (mapped.DEPTH + 1) * (MIB + 2 * PAGE)
    with planner.Loader(backend="host", budget=budget) as pool:
        found = pool.load(path, cores=1)
        assert found["a"].raw.numpy().tobytes() == held["a"].tobytes()
        assert loader.MAPPED in found.report.notes
    assert budget - 2 * MIB < backend.most <= budget


def test_a_ring_loads_what_is_too_little_or_not_cached_or_may_pin_little(
    backend: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (3 * MIB,))])

    def loads(**how: Any) -> None:
        with planner.Loader(backend="host") as pool:
            found = pool.load(path, **how)
            assert found["a"].raw.numpy().tobytes() == held["a"].tobytes()
            assert loader.MAPPED not in found.report.notes
            workers = found.report.schedule.workers
            assert workers <= how.get("cores", workers)

    loads()  # all cores
    loads(cores=mapped.FEW + 1)
    loads(cores=1, cache="cold")
    loads(cores=1, budget="5MiB")  # five pieces of a MiB, and pages beside them, are more
    with monkeypatch.context() as patch:
        patch.setattr(mapped, "LEAST", 4 * MIB)
        loads(cores=1)
    monkeypatch.setattr(FileEnd, "is_cached", lambda _self: False)
    loads(cores=1)
    assert backend.count == 0


@pytest.mark.parametrize("after", [0, 2])
def test_files_that_cannot_be_registered_go_through_a_ring(
    backend: Watched, tmp_path: Path, after: int
) -> None:
    backend.refuse = after
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (6 * MIB,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path, cores=2)
        assert found["a"].raw.numpy().tobytes() == held["a"].tobytes()
        assert any("the driver does not register this" in note for note in found.report.notes)
        assert found.report.schedule.workers <= 2
        bank = found["a"].memory.bank
        assert bank is not None
        del found
        gc.collect()
        assert bank.live == 0


def test_faults_are_told_and_give_everything_back(
    backend: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (6 * MIB,))])
    with planner.Loader(backend="host") as pool:
        with pytest.raises(InputError, match="0 cores"):
            pool.load(path, cores=0)
        with monkeypatch.context() as patch:
            patch.setattr(
                backend, "allocate", lambda *_: (_ for _ in ()).throw(InfeasibleError("full"))
            )
            with pytest.raises(InfeasibleError, match="full"):
                pool.load(path, cores=1)
        assert not backend.held
        real, seen = mapped.MappedHands._push, 0

        def failing(self: mapped.MappedHands, slot: int, chunk: int) -> None:
            nonlocal seen
            seen += 1
            if seen == 3:
                raise OSError("the link fell asleep")
            real(self, slot, chunk)

        with monkeypatch.context() as patch:
            patch.setattr(mapped.MappedHands, "_push", failing)
            with pytest.raises(ExecutionError, match="fell asleep"):
                pool.load(path, cores=1)
        assert not backend.held
        assert pool.load(path, cores=1)["a"].nbytes == 6 * MIB


@pytest.mark.parametrize("fails", ["the load", None])
def test_a_driver_that_keeps_a_registration_holds_up_nobody(
    backend: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str | None
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (3 * MIB,))])
    real, tries = backend.unregister, 0

    def refuses_once(address: int) -> None:
        nonlocal tries
        tries += 1
        real(address)
        if tries == 1:
            raise RuntimeError("the driver keeps it")

    def failing(*_given: Any) -> None:
        raise OSError("the link fell asleep")

    monkeypatch.setattr(backend, "unregister", refuses_once)
    with planner.Loader(backend="host") as pool:
        if fails is None:
            assert pool.load(path, cores=1)["a"].nbytes == 3 * MIB
        else:
            with monkeypatch.context() as patch:
                patch.setattr(mapped.MappedHands, "_wait", failing)
                with pytest.raises(ExecutionError, match="fell asleep"):  # not the second fault
                    pool.load(path, cores=1)
        # Its thread lives on, and the other pieces were given back.
        again = pool.transfer(path, np.zeros(path.stat().st_size, np.uint8)).result(30)
        assert again.size_bytes == path.stat().st_size
        assert not backend.held
        assert pool.load(path, cores=1)["a"].raw.numpy().tobytes() == held["a"].tobytes()
    assert tries > 3


def test_pieces_share_no_page(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(bytes(3 * PAGE))
    end = ends.FileEnd(str(path), "warm")
    try:
        part = Part(end, 100, MemoryEnd(0, 3 * PAGE - 100, 0), 0, 3 * PAGE - 100)
        chunks = mapped.chunks_of([part], PAGE)
        # The first piece ends with its page, the others are whole pages.
        assert [(c[0].start, c[0].to, c[0].size) for c in chunks] == [
            (100, 0, PAGE - 100),
            (PAGE, PAGE - 100, PAGE),
            (2 * PAGE, 2 * PAGE - 100, PAGE),
        ]
    finally:
        end.close()
