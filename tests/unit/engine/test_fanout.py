"""Copies that are passed on from GPU to GPU: read once, right everywhere, and freed."""

from __future__ import annotations

import errno
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from planner.engine import drive, files, pace, part
from planner.engine.execute import execute
from planner.engine.flow import FlowRunner
from planner.engine.flow_sample import FlowSample
from planner.engine.ops import DMA
from planner.engine.strategies.base import Hands, Operation
from planner.engine.worker import operations_of
from planner.errors import ExecutionError, VerificationError
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import MIB, linked_gpus
from tests.helpers.schedules import KIB, noise_file
from tests.helpers.splits import fan_out

pytestmark = pytest.mark.usefixtures("scratch")

CHUNK = 4 * KIB
Fan = Literal["tree", "chain"]


def run_fan(fan: Fan, size: int, gpus: int, *, samples: int = 2, **more: object) -> Run:
    machine = linked_gpus(gpus)
    plan, prediction = fan_out(machine, size, gpus, fan, chunk=CHUNK, **more)
    return execute(plan, machine, estimate=prediction, backend="host", samples=samples, warmup=0)


@pytest.mark.parametrize("size", [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 21 * CHUNK + 17])
@pytest.mark.parametrize("gpus", [2, 5])
@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_every_copy_has_every_byte(fan: Fan, gpus: int, size: int) -> None:
    run = run_fan(fan, size, gpus)
    assert [flow.name for flow in run.flows] == [f"w[gpu{k}]" for k in range(gpus)]
    assert [flow.verified for flow in run.flows] == [True] * gpus
    assert all(hop.busy_s > 0 for flow in run.flows for hop in flow.hops)
    assert all(flow.steady_s >= 0 for flow in run.flows)
    # Later copies arrive after what they are taken from, and count from the same beginning. Of one
    # sample: of several, busy is their median and may be more than the first took.
    once = run_fan(fan, size, gpus, samples=1)
    assert all(flow.first_s >= once.flows[0].hops[0].busy_s for flow in once.flows)


def test_a_copy_counts_from_its_source_even_where_its_thread_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late_s, plain = 0.05, FlowRunner.sample

    def late(self: FlowRunner, pace: pace.Pace) -> FlowSample:
        if self.source:
            time.sleep(late_s)
        return plain(self, pace)

    monkeypatch.setattr(FlowRunner, "sample", late)
    run = run_fan("tree", CHUNK, 3, samples=1)
    assert [flow.first_s >= late_s for flow in run.flows] == [False, True, True]


def test_a_copy_of_all_begins_before_the_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    end, read = pace.Turns.end, part.Part.intervals

    def ended(self: pace.Turns, label: str, count: int = 1) -> None:
        if count == 1:  # a repeat; at the very end whoever waits is let go for good
            happened.append(f"{label} ends")
        end(self, label, count)

    def reading(self: part.Part) -> Iterator[object]:
        happened.append("log")
        return read(self)

    monkeypatch.setattr(pace.Turns, "end", ended)
    monkeypatch.setattr(part.Part, "intervals", reading)
    run_fan("tree", 21 * CHUNK + 17, 2, samples=1)
    assert happened[0] == "w[gpu0] ends"
    assert Counter(happened) == {"log": 2, "w[gpu0] ends": 1, "w[gpu1] ends": 1}


@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_the_file_is_read_once(fan: Fan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    size, count = 21 * CHUNK + 17, [0]
    source = noise_file(tmp_path / "model.bin", size)
    verifying = threading.Event()
    plain = files.preadv

    def counted(fd: int, views: list[memoryview], offset: int, *rest: int) -> int:
        got = plain(fd, views, offset, *rest)
        if not verifying.is_set():
            count[0] += got
        return got

    monkeypatch.setattr(files, "preadv", counted)
    machine = linked_gpus(4)
    plan, prediction = fan_out(machine, size, 4, fan, chunk=CHUNK, files=[source.model_dump()])
    options = {"samples": 1, "warmup": 0, "verify": False}
    execute(plan, machine, estimate=prediction, backend="host", **options)  # type: ignore[arg-type]
    assert count[0] == size


@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_repeats_and_sharded_sizes_arrive(fan: Fan) -> None:
    run = run_fan(fan, 9 * CHUNK + 5, 3, repeat=3)
    assert [flow.verified for flow in run.flows] == [True] * 3
    assert all(flow.duration_s >= flow.first_s for flow in run.flows)


def test_a_fault_between_two_copies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(errno.EIO, "the link is down")

    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)

        def fail(_slot: int, chunk: int) -> None:
            if chunk == 7:
                raise error

        operations[DMA + 2] = fail
        return operations

    monkeypatch.setattr(drive, "operations_of", faulty)
    # Engine 2 is the second copy: from gpu1 on to gpu2.
    with pytest.raises(ExecutionError, match=r"hop gpu1 -> gpu2 \(peer\), chunk 7 of 22"):
        run_fan("chain", 21 * CHUNK + 1, 4)


def test_a_copy_that_lacks_a_chunk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        last = operations[DMA + 2]
        operations[DMA + 2] = lambda slot, chunk: None if chunk == 7 else last(slot, chunk)
        return operations

    monkeypatch.setattr(drive, "operations_of", faulty)
    # Chunk 7 of gpu2 is skipped; gpu3 is passed on what gpu2 has there.
    with pytest.raises(VerificationError, match=r"flow w\[gpu2\]: byte 286(7[2-9]|8\d)"):
        run_fan("chain", 21 * CHUNK + 1, 3)


@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_the_virtual_clock_comes_to_the_prediction(fan: Fan) -> None:
    """The file's 20 GB/s and PCIe's 10 limit: 256 MiB take 27 ms, a chunk's copies 0.02 ms each."""
    machine = linked_gpus(4)
    plan, prediction = fan_out(machine, 256 * MIB, 4, fan, chunk=MIB)
    run = execute(plan, machine, estimate=prediction, backend="null")
    for flow in run.flows:
        assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=0.02)
        assert flow.duration_s == pytest.approx(flow.predicted_s, rel=0.02)
    assert run.makespan_s == pytest.approx(run.predicted_makespan_s, rel=0.02)


def test_the_planner_chooses_to_pass_on_what_the_engine_does() -> None:
    from planner.model.strategies import EXECUTABLE

    machine = linked_gpus(4)
    words = {
        "from": "disk0",
        "to": [f"gpu{k}" for k in range(4)],
        "copy": "replicate",
        "size": 64 * MIB,
        "cache": "warm",
    }
    plan = Plan.model_validate({"flows": {"w": words}})
    prediction = estimate(plan, machine, only=EXECUTABLE)
    # Four reads share the host's 20 GB/s: 13 ms; one read over PCIe at 10 GB/s takes 7.
    assert {flow.schedule.fan for flow in prediction.flows} - {None}
    run = execute(plan, machine, estimate=prediction, backend="host", samples=1, warmup=0)
    assert all(flow.verified for flow in run.flows)


def test_eight_gpus_of_a_class_are_passed_on_to() -> None:
    """The example's machine names its GPUs as a class; a run writes out those of the plan."""
    from planner.review.answers import execute as run_plan

    plan = Path(__file__).parents[3] / "plans/tensor_parallel_load.yaml"
    run = run_plan(plan, only=["fan_out"], backend="null", samples=1)
    assert [flow.schedule.fan for flow in run.flows] == [None, *["chain"] * 7]
    for flow in run.flows:
        assert flow.duration_s == pytest.approx(flow.predicted_s, rel=0.01)
