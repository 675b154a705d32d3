"""What goes wrong in the middle of a run: told with its place, and nothing is left behind."""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from planner.engine import drive, files, pagecache
from planner.engine.ops import DMA, POOL
from planner.engine.progress import Quiet
from planner.engine.strategies.base import Hands, Operation
from planner.engine.worker import operations_of
from planner.errors import (
    ExecutionError,
    InfeasibleError,
    InputError,
    UnavailableError,
    VerificationError,
)
from planner.machine.schema import Machine
from tests.helpers.machines import one_gpu, two_gpus
from tests.helpers.schedules import KIB, noise_file, run_way

pytestmark = pytest.mark.usefixtures("scratch")

CHUNK = 4 * KIB
SIZE = 20 * CHUNK + 1
CHUNKS = 21


def inject(
    monkeypatch: pytest.MonkeyPatch, code: int, wrap: Callable[[Operation], Operation]
) -> None:
    """Put a fault in front of one kind of operation of every worker."""

    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        operations[code] = wrap(operations[code])
        return operations

    monkeypatch.setattr(drive, "operations_of", faulty)


def failing_at(wanted: int, error: BaseException) -> Callable[[Operation], Operation]:
    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if chunk == wanted:
                raise error
            operation(slot, chunk)

        return run

    return wrap


@pytest.mark.parametrize(
    ("way", "code", "hop"),
    [
        ("load", POOL, r"disk0 -> host0 \(buffered\)"),
        ("load", DMA, r"host0 -> gpu0 \(pinned\)"),
        ("save", DMA, r"gpu0 -> host0 \(pinned\)"),
        ("save", POOL, r"host0 -> disk0 \(buffered\)"),
        ("staged in", POOL, r"host0 -> gpu0 \(staged\)"),
        ("pinned out", DMA, r"gpu0 -> host0 \(pinned\)"),
        ("relay", DMA, r"gpu0 -> host0 \(host_staged\)"),
        ("pageable in", POOL, r"host0 -> gpu0 \(pageable\)"),
    ],
)
@pytest.mark.parametrize("workers", [1, 4])
def test_a_failed_operation_is_told_with_its_place(
    way: str, code: int, hop: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError(errno.EIO, "the medium is broken")
    last = 0 if way == "pageable in" else 11
    inject(monkeypatch, code, failing_at(last, error))
    # Chunk 11 of 21 begins at byte 11 * 4096 = 45056 and ends at 49152.
    place = "chunk 0 of 1" if last == 0 else r"chunk 11 of 21 \(bytes 45056 to 49152\)"
    with pytest.raises(
        ExecutionError, match=f"flow f, hop {hop}, {place}.*the medium is broken"
    ) as e:
        run_way(way, SIZE, two_gpus(), shape=(CHUNK, 2, workers))
    assert e.value.__cause__ is error


def test_the_first_of_several_errors_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrap(_operation: Operation) -> Operation:
        def run(_slot: int, chunk: int) -> None:
            raise OSError(errno.EIO, f"chunk {chunk} fails")

        return run

    inject(monkeypatch, POOL, wrap)
    with pytest.raises(ExecutionError, match=r"chunk (\d+) of .*chunk \1 fails"):
        run_way("load", SIZE, one_gpu(), shape=(CHUNK, 2, 8))


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    inject(monkeypatch, POOL, failing_at(7, full))
    sink = tmp_path / "weights.bin"
    with pytest.raises(ExecutionError, match="No space left on device") as told:
        run_way("save", SIZE, one_gpu(), sink=str(sink))
    assert told.value.hint is not None
    assert "make room on the disk" in told.value.hint
    assert list(tmp_path.iterdir()) == [tmp_path / "scratch"]


def test_short_reads_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(fd: int, views: Sequence[memoryview], offset: int, *rest: int) -> int:
        return os.preadv(fd, [views[0][: max(1, len(views[0]) // 3)]], offset, *rest)

    monkeypatch.setattr(files, "preadv", short)
    assert run_way("load", SIZE, one_gpu()).flows[0].verified is True


def test_a_source_that_shrinks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = noise_file(tmp_path / "model.bin", SIZE)

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if chunk == 3:
                os.truncate(source.path, 10 * CHUNK)
            operation(slot, chunk)

        return run

    inject(monkeypatch, POOL, wrap)
    with pytest.raises(ExecutionError, match=r"the file ends at byte \d+.*it shrank") as caught:
        run_way("load", SIZE, one_gpu(), files=[source.model_dump()])
    # Two workers meet the end together, in the first chunk behind it and in the next.
    told = re.search(r"ends at byte (\d+)", str(caught.value))
    assert told is not None
    assert int(told[1]) in (10 * CHUNK, 11 * CHUNK)


@pytest.mark.parametrize(("cache", "cut"), [("warm", False), ("warm", True), ("cold", False)])
def test_a_source_that_goes_between_two_samples_is_told(
    tmp_path: Path, cache: str, *, cut: bool
) -> None:
    source = noise_file(tmp_path / "model.bin", SIZE)
    path = Path(source.path)

    class Meddler(Quiet):
        def finish(self, flow: str, seconds: float) -> None:
            super().finish(flow, seconds)
            if cut:
                os.truncate(path, 100)
            else:
                path.unlink(missing_ok=True)

    with pytest.raises(ExecutionError, match=r"model\.bin cannot be read any more") as caught:
        run_way(
            "load",
            SIZE,
            one_gpu(),
            samples=3,
            files=[source.model_dump()],
            cache=cache,
            progress=Meddler(),
            options={"verify": False},
        )
    assert "during the run" in str(caught.value.hint)


def test_a_source_shorter_than_planned_is_refused(tmp_path: Path) -> None:
    source = noise_file(tmp_path / "model.bin", SIZE)
    os.truncate(source.path, 5)
    with pytest.raises(InputError, match=f"has 5 bytes, the plan needs {SIZE}"):
        run_way("load", SIZE, one_gpu(), files=[source.model_dump()])


@pytest.mark.parametrize("way", ["load", "staged in", "save", "pinned out", "relay", "read"])
def test_a_corrupt_byte_is_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that is not moved leaves what was there before: the first byte of chunk 9 differs."""
    code = DMA if way in ("pinned out", "relay") else POOL

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if chunk != 9:
                operation(slot, chunk)

        return run

    inject(monkeypatch, code, wrap)
    # Two samples: what is skipped is poison 0xa5 in one and 0x5a in the other. The source differs
    # from its neighbours in the ring, so the first wrong byte lies in chunk 9's first few bytes.
    with pytest.raises(
        VerificationError, match=r"byte 368(6[4-9]|7\d) arrived as 0x.., the source"
    ):
        run_way(way, SIZE, two_gpus(), samples=2, warmup=0)


def test_without_verification_a_corrupt_byte_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, POOL, lambda _operation: lambda _slot, _chunk: None)
    run = run_way("load", SIZE, one_gpu(), options={"verify": False})
    assert run.flows[0].verified is None


@pytest.mark.parametrize("way", ["load", "save", "relay"])
def test_an_interrupt_ends_everything(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.main_thread().ident
    assert main is not None
    sent = threading.Event()

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            if chunk == 5 and not sent.is_set():
                sent.set()
                signal.pthread_kill(main, signal.SIGINT)
            if sent.is_set():
                sent.wait(0.01)
            operation(slot, chunk)

        return run

    inject(monkeypatch, DMA, wrap)
    with pytest.raises(KeyboardInterrupt):
        run_way(way, 4000 * CHUNK, two_gpus(), samples=200, options={"verify": False})
    assert sent.is_set()


def test_a_sink_in_the_way_is_refused_and_overwritten_on_request(tmp_path: Path) -> None:
    sink = tmp_path / "weights.bin"
    sink.write_bytes(b"precious")
    with pytest.raises(InputError, match=r"weights\.bin exists") as error:
        run_way("save", SIZE, one_gpu(), sink=str(sink))
    assert "--overwrite" in str(error.value.hint)
    assert sink.read_bytes() == b"precious"
    run_way("save", SIZE, one_gpu(), sink=str(sink), options={"overwrite": True})
    assert sink.stat().st_size == SIZE


def test_an_old_sink_survives_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = tmp_path / "weights.bin"
    sink.write_bytes(b"precious")
    inject(monkeypatch, POOL, failing_at(3, OSError(errno.EIO, "broken")))
    with pytest.raises(ExecutionError):
        run_way("save", SIZE, one_gpu(), sink=str(sink), options={"overwrite": True})
    assert sink.read_bytes() == b"precious"


def test_a_disk_without_room_is_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    usage: Any = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("planner.engine.scratch.shutil.disk_usage", lambda _path: usage)
    with pytest.raises(InfeasibleError, match=r"has 1 kB free; .* are needed and 64 MiB stay free"):
        run_way("load", SIZE, one_gpu())


def test_memory_without_room_is_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.engine.room.free_memory", lambda _host: 1000)
    with pytest.raises(InfeasibleError, match="of host memory, 1 kB are free"):
        run_way("pinned in", SIZE, one_gpu())


def test_a_strategy_that_the_devices_lack_is_refused_before_anything_is_touched(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "planner.engine.backends.host.HostBackend.lacks",
        lambda _self, name, _across, _gpus: "no such wire" if name == "peer" else None,
    )
    with pytest.raises(UnavailableError, match="flow f: peer: no such wire"):
        run_way("peer", SIZE, two_gpus())
    run = run_way("local", SIZE, two_gpus())
    assert run.waived == ("peer: no such wire",)
    assert list(scratch.iterdir()) == []


def test_a_real_backend_refuses_an_emulated_machine() -> None:
    from planner.engine.backends.host import HostBackend
    from planner.engine.execute import require
    from tests.helpers.schedules import plan_for, predicted, schedule

    class Real(HostBackend):
        emulated = False  # type: ignore[misc] # stands in for a real device

    machine: Machine = one_gpu().model_copy(update={"emulated": True})
    prediction = predicted(plan_for("load", SIZE), machine, schedule("load", SIZE))
    with pytest.raises(UnavailableError, match="has emulated GPUs"):
        require(Real(), machine, prediction)


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_the_page_cache_is_brought_into_the_state_that_is_asked_for(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = noise_file(tmp_path / "model.bin", SIZE)
    if cache == "cold":
        os.sync()
    seen: list[float] = []
    begun = itertools.count()
    gate = threading.Lock()

    def wrap(operation: Operation) -> Operation:
        def run(slot: int, chunk: int) -> None:
            # Whichever worker is first in a sample looks before any of them has read.
            with gate:
                if next(begun) % CHUNKS == 0:
                    seen.append(pagecache.resident([source]))
            operation(slot, chunk)

        return run

    inject(monkeypatch, POOL, wrap)
    run = run_way(
        "load", SIZE, one_gpu(), samples=3, files=[source.model_dump()], options={"cache": cache}
    )
    states = ("warm",) if cache == "warm" else ("cold", "guest-cold")
    assert run.flows[0].cache in states
    # Each of the three samples began in that state, though verification read the file in between.
    assert next(begun) == 3 * CHUNKS
    assert len(seen) == 3
    assert all(pagecache.state_of(share) in states for share in seen)
