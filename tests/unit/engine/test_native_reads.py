"""Plans whose files the C library's threads read: the same bytes, errors and ends as by workers."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Literal

import pytest

from planner import native
from planner.engine import readers
from planner.engine.aio import Reads
from planner.engine.dispatch import Dispatcher
from planner.engine.execute import execute
from planner.engine.ops import DMA, FOLLOW
from planner.engine.readers import Reader
from planner.engine.strategies.base import Hands, Operation
from planner.engine.worker import operations_of
from planner.errors import ExecutionError, VerificationError
from tests.helpers.machines import every_way, linked_gpus, one_gpu
from tests.helpers.native import ending, everywhere
from tests.helpers.schedules import KIB, noise_file, run_way
from tests.helpers.splits import fan_out

pytestmark = pytest.mark.usefixtures("scratch")

CHUNK = 4 * KIB
SIZE = 20 * CHUNK + 1


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Reads]:
    return everywhere(monkeypatch)


@pytest.mark.parametrize("way", ["load", "load direct", "load combined"])
@pytest.mark.parametrize("shape", [(CHUNK, 1, 1), (CHUNK, 2, 3), (3 * CHUNK, 3, 4)])
@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, SIZE, 100 * CHUNK - 1])
def test_every_byte_arrives(
    used: list[Reads], way: str, size: int, shape: tuple[int, int, int]
) -> None:
    run = run_way(way, size, every_way(), shape=shape, samples=2, warmup=1)
    assert run.flows[0].verified is True
    assert len(used) == 3


@pytest.mark.parametrize("way", ["load", "load direct"])
@pytest.mark.parametrize("offset", [0, 1, 4095, 4097])
def test_ranges_of_files_begin_anywhere(
    used: list[Reads], way: str, offset: int, tmp_path: Path
) -> None:
    first = noise_file(tmp_path / "a.bin", SIZE, offset=offset)
    second = noise_file(tmp_path / "b.bin", 5000, offset=offset + 100, seed=8)
    files = [first.model_dump(), second.model_dump()]
    run = run_way(way, SIZE + 5000, one_gpu(), shape=(CHUNK, 2, 3), files=files)
    assert run.flows[0].verified is True
    assert used


def test_small_chunks_and_few_workers_read_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    used = everywhere(monkeypatch)
    monkeypatch.undo()
    run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 8))
    run_way("load", 4 << 20, one_gpu(), shape=(1 << 20, 2, 2))
    assert not used


def test_a_capped_flow_reads_for_itself(used: list[Reads]) -> None:
    run = run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 3), budget={"rate": 100e6})
    assert run.flows[0].verified is True
    assert not used


@pytest.mark.parametrize(
    ("workers", "cores", "apart"), [(2, 16, False), (3, 4, True), (3, 3, False), (8, 8, True)]
)
def test_few_workers_leave_a_core_to_who_hands_on(
    monkeypatch: pytest.MonkeyPatch, workers: int, cores: int, *, apart: bool
) -> None:
    used = everywhere(monkeypatch)
    monkeypatch.setattr(native, "FEWEST", 3)
    monkeypatch.setattr(native, "MANY", 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)))
    run = run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, workers))
    assert run.flows[0].verified is True
    assert bool(used) == apart


@pytest.mark.parametrize(("cores", "apart"), [(3, False), (4, True), (None, True)])
def test_who_hands_on_has_a_core_of_its_own(
    used: list[Reads], cores: int | None, *, apart: bool
) -> None:
    run = run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 3), budget={"cores": cores})
    assert run.flows[0].verified is True
    assert bool(used) == apart


@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_what_is_read_once_comes_to_all(
    used: list[Reads], fan: Literal["tree", "chain"], tmp_path: Path
) -> None:
    size = 21 * CHUNK + 17
    source = noise_file(tmp_path / "model.bin", size)
    machine = linked_gpus(4)
    plan, prediction = fan_out(machine, size, 4, fan, chunk=CHUNK, files=[source.model_dump()])
    run = execute(plan, machine, estimate=prediction, backend="host", samples=2, warmup=0)
    assert [flow.verified for flow in run.flows] == [True] * 4
    assert used


def test_a_failed_read_is_told_with_its_place(
    used: list[Reads], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, {11: -errno.EIO})
    # Chunk 11 of 21 begins at byte 11 * 4096 = 45056 and ends at 49152.
    with pytest.raises(
        ExecutionError,
        match=r"disk0 -> host0 \(buffered\), chunk 11 of 21 \(bytes 45056 to 49152\).*Input/output",
    ):
        run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 4))
    assert used[0].flying == 0


@pytest.mark.parametrize("way", ["load", "load direct"])
def test_a_short_read_is_continued(
    used: list[Reads], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, {5: 0})  # everything of it is read again, in the dispatcher's thread
    assert run_way(way, SIZE, one_gpu(), shape=(CHUNK, 2, 4)).flows[0].verified is True
    assert used


@pytest.mark.parametrize("way", ["load", "load direct"])
def test_a_source_that_shrinks_is_told(
    used: list[Reads], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = noise_file(tmp_path / "model.bin", SIZE)
    begin = Reads.begin

    def shrunk(self: Reads, *given: object) -> None:
        os.truncate(source.path, 10 * CHUNK)
        begin(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Reads, "begin", shrunk)
    with pytest.raises(ExecutionError, match=r"the file ends at byte \d+.*it shrank"):
        run_way(way, SIZE, one_gpu(), shape=(CHUNK, 2, 4), files=[source.model_dump()])
    assert used


def copy_failing(monkeypatch: pytest.MonkeyPatch, code: int, error: BaseException) -> None:
    """Let one of chunk 7's copies fail."""

    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        issue = operations[code]

        def fail(slot: int, chunk: int) -> None:
            if chunk == 7:
                raise error
            issue(slot, chunk)

        operations[code] = fail
        return operations

    monkeypatch.setattr(readers, "operations_of", faulty)


def test_a_failed_copy_is_told_with_its_place(
    used: list[Reads], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.EIO, "the link is down")
    copy_failing(monkeypatch, DMA, error)
    with pytest.raises(ExecutionError, match=r"host0 -> gpu0 \(pinned\), chunk 7 of 21") as told:
        run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 4))
    assert told.value.__cause__ is error
    assert used[0].flying == 0


@pytest.mark.parametrize(
    ("code", "hop"), [(DMA, r"host0 -> gpu0 \(pinned\)"), (FOLLOW, r"gpu0 -> gpu1 \(peer\)")]
)
def test_a_failed_copy_of_a_chain_is_told_with_its_hop(
    used: list[Reads], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, hop: str
) -> None:
    copy_failing(monkeypatch, code, OSError(errno.EIO, "the link is down"))
    source, machine = noise_file(tmp_path / "model.bin", SIZE), linked_gpus(3)
    files = [source.model_dump()]
    plan, prediction = fan_out(machine, SIZE, 3, "chain", chunk=CHUNK, files=files)
    with pytest.raises(ExecutionError, match=f"hop {hop}, chunk 7 of 21"):
        execute(plan, machine, estimate=prediction, backend="host", samples=1, warmup=0)
    assert used[0].flying == 0


def test_a_copy_that_never_arrives_is_told_with_its_chunk(
    used: list[Reads], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_self: Reader, _slot: int) -> None:
        raise OSError(errno.EIO, "the link is down")

    # All chunks are in their slots when the first of them is waited for.
    monkeypatch.setattr(Reader, "landed", lambda _self, _slot: True)
    monkeypatch.setattr(Reader, "wait", lost)
    with pytest.raises(ExecutionError, match=r"host0 -> gpu0 \(pinned\), chunk 0 of 4"):
        run_way("load", 4 * CHUNK, one_gpu(), shape=(CHUNK, 2, 2))
    assert used[0].flying == 0


def test_a_chunk_that_is_lost_is_found(used: list[Reads], monkeypatch: pytest.MonkeyPatch) -> None:
    hand_on = Reader.hand_on
    monkeypatch.setattr(
        Reader, "hand_on", lambda self, s, c, op: None if c == 9 else hand_on(self, s, c, op)
    )
    with pytest.raises(VerificationError, match=r"byte 368(6[4-9]|7\d) arrived as"):
        run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 4), samples=2)
    assert used


def test_an_interrupt_ends_everything(used: list[Reads], monkeypatch: pytest.MonkeyPatch) -> None:
    take = Reader.take

    def taken(self: Reader, slot: int, chunk: int, done: int) -> None:
        if chunk == 5:
            os.kill(os.getpid(), signal.SIGINT)
        take(self, slot, chunk, done)

    monkeypatch.setattr(Reader, "take", taken)
    with pytest.raises(KeyboardInterrupt):
        run_way("load", 4000 * CHUNK, one_gpu(), shape=(CHUNK, 2, 4), options={"verify": False})
    assert used[0].flying == 0


def test_a_run_that_is_called_off_stops(used: list[Reads], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    hand_on = Dispatcher._hand_on

    def stopping(self: Dispatcher) -> bool:
        seen.append(1)
        if len(seen) == 3:
            self._stop.fail(ExecutionError("another flow failed"))
        return hand_on(self)

    monkeypatch.setattr(Dispatcher, "_hand_on", stopping)
    with pytest.raises(ExecutionError, match="another flow failed"):
        run_way("load", 4000 * CHUNK, one_gpu(), shape=(CHUNK, 2, 4), options={"verify": False})
    assert len(seen) == 3
    assert used[0].flying == 0


def test_where_the_c_library_cannot_workers_read(
    used: list[Reads], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planner.engine.aio.usable", lambda: False)
    assert run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 4)).flows[0].verified is True
    assert not used
