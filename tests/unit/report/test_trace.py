"""The trace: two processes, lanes whose slices add up, counters with their unit."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.report.trace import MEASURED, PREDICTED, trace_json
from planner.results import Estimate, Run
from planner.review import answers
from planner.review.study import TRACE_SLICES, study

ROOT = Path(__file__).resolve().parents[3]


@cache
def _run(plan: str) -> Run:
    return answers.execute(ROOT / "plans" / f"{plan}.yaml", backend="null")


def _trace(result: Estimate | Run) -> list[dict[str, Any]]:
    text = trace_json(result, study(result, slices=TRACE_SLICES, sensitivity=False))
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def busy_by_name(events: list[dict[str, Any]], pid: int) -> dict[str, float]:
    """Seconds of the slices of each hop of one process."""
    found: dict[str, float] = defaultdict(float)
    for event in events:
        if event["ph"] == "X" and event["pid"] == pid and event["cat"] == "hop":
            found[event["name"]] += event["dur"] / 1e6
    return found


@pytest.mark.parametrize("plan", ["llm_load", "kv_cache_offload", "gpu_to_gpu"])
def test_the_slices_add_up_to_the_busy_times(plan: str) -> None:
    run = _run(plan)
    events = _trace(run)
    predicted, measured = busy_by_name(events, PREDICTED), busy_by_name(events, MEASURED)
    for flow, own in zip(run.estimate.flows, run.flows, strict=True):
        for hop, done in zip(flow.hops, own.hops, strict=True):
            name = f"{flow.name}: {hop.hop.start} → {hop.hop.end} ({hop.hop.strategy})"
            count = sum(event.get("name") == name for event in events)
            # Each slice is rounded to whole nanoseconds.
            slack = count * 1e-9
            assert predicted[name] == pytest.approx(hop.busy_s * flow.repeat, abs=slack)
            assert measured[name] == pytest.approx(done.busy_s * flow.repeat, abs=slack)


@pytest.mark.parametrize("plan", ["llm_load", "tensor_parallel_load", "small_tensors"])
def test_slices_of_one_lane_do_not_overlap(plan: str) -> None:
    reached: dict[tuple[int, int], float] = defaultdict(lambda: -1.0)
    for event in _trace(answers.estimate(ROOT / "plans" / f"{plan}.yaml")):
        if event["ph"] == "X":
            lane = event["pid"], event["tid"]
            assert event["ts"] >= reached[lane] - 1e-6  # a float's last digits at 1e9 µs
            reached[lane] = event["ts"] + event["dur"]


def test_processes_and_lanes_have_names() -> None:
    events = _trace(_run("llm_load"))
    names = {
        (event["pid"], event["args"]["name"])
        for event in events
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    assert names == {(PREDICTED, "predicted"), (MEASURED, "measured (first run)")}
    lanes = {
        event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert lanes == {"setup", "host0.copy", "pcie0.forward"}
    assert {event["ph"] for event in events} == {"M", "X", "C"}


def test_a_chunk_has_its_own_slice() -> None:
    """13.5 GB in chunks of 4 MiB are 3,219: fewer than a trace may have."""
    events = _trace(answers.estimate(ROOT / "plans/llm_load.yaml"))
    chunks = [e for e in events if e["ph"] == "X" and "pinned" in e["name"]]
    assert len(chunks) == -(-13_500_000_000 // (4 << 20))
    assert sum(e["args"]["bytes"] for e in chunks) == 13_500_000_000


def test_a_trace_stays_bounded() -> None:
    events = _trace(answers.estimate(ROOT / "plans/tensor_parallel_load.yaml"))
    slices = [event for event in events if event["ph"] == "X"]
    # 80,000 chunks are merged.
    assert len(slices) <= TRACE_SLICES
    assert max(event["args"]["chunks"] for event in slices) > 1


def test_counters_say_their_unit_and_reach_the_peak() -> None:
    estimate = answers.estimate(ROOT / "plans/llm_load.yaml")
    counters = [event for event in _trace(estimate) if event["ph"] == "C"]
    by_name: dict[str, float] = defaultdict(float)
    for event in counters:
        by_name[event["name"]] = max(by_name[event["name"]], event["args"]["MiB"])
    # The ring of 12 workers x 2 slots x 4 MiB is all that is pinned.
    assert by_name["host0 pinned [MiB]"] == 96
    assert by_name["gpu0 memory [MiB]"] == pytest.approx(13_500_000_000 / 2**20, abs=1e-3)


def test_perfetto_reads_the_trace(tmp_path: Path) -> None:
    """With Perfetto's own trace processor, where it and its program are at hand."""
    processor = pytest.importorskip("perfetto.trace_processor")
    run = _run("kv_cache_offload")
    path = tmp_path / "trace.json"
    seen = study(run, slices=TRACE_SLICES, sensitivity=False)
    path.write_text(trace_json(run, seen), encoding="utf-8")
    shell = _perfetto_program()
    config = processor.TraceProcessorConfig(bin_path=shell)
    with processor.TraceProcessor(trace=str(path), config=config) as trace:
        rows = trace.query(
            "select process.pid as pid, slice.name as name, sum(slice.dur) as dur from slice "
            "join thread_track on slice.track_id = thread_track.id join thread using (utid) "
            "join process using (upid) where slice.category = 'hop' group by pid, slice.name"
        )
        found = {(row.pid, row.name): row.dur / 1e9 for row in rows}
    events = _trace(run)
    for pid in (PREDICTED, MEASURED):
        for name, seconds in busy_by_name(events, pid).items():
            assert found[pid, name] == pytest.approx(seconds, abs=1e-6)


def _perfetto_program() -> str:
    """The program of the trace processor; the package would fetch it from outside."""
    import shutil

    program = shutil.which("trace_processor_shell")
    if program is None:
        pytest.skip("trace_processor_shell is not installed")
    return program
