"""A result as a trace for Perfetto or chrome://tracing: predicted and measured as two processes.

Complete events (`X`) in microseconds, counters (`C`) with the unit in their name, names (`M`): what
viewers of the JSON format are known to draw. A slice lasts as long as its link really serves,
so the slices of a lane add up to its busy time; where a merged one ends is in its arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from planner.results import Estimate, MemoryTrack, Run, Timeline, TimelineRow
from planner.review.study import Study

PREDICTED: Final = 1
MEASURED: Final = 2
_NS: Final = 1e9
_MIB: Final = 1 << 20


def trace_json(result: Estimate | Run, study: Study) -> str:
    """The trace of a result.

    Parameters
    ----------
    result
        an estimate, or a run: its measurement is a second process.
    study
        what was found out about the result; its slices are the events.

    """
    estimate = result.estimate if isinstance(result, Run) else result
    events: list[dict[str, Any]] = [*_process(PREDICTED, "predicted", study.predicted, estimate)]
    events += [event for track in study.memory for event in _counters(PREDICTED, track)]
    if study.measured is not None:
        events += _process(MEASURED, "measured (first run)", study.measured, estimate)
    body = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "format": result.format,
            "plan": str(estimate.plan.get("name", "plan")),
            "machine": str(estimate.machine.get("name", "machine")),
            "planner": result.planner,
        },
    }
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n"


def _process(
    pid: int, name: str, timeline: Timeline, estimate: Estimate
) -> Iterator[dict[str, Any]]:
    """The names of a process and its lanes, and all their slices."""
    yield _named("process_name", pid, 0, {"name": name})
    yield _named("process_sort_index", pid, 0, {"sort_index": pid})
    rows = sorted(timeline.rows, key=lambda row: (row.kind != "setup", row.kind == "compute"))
    lanes = Counter(row.lane for row in rows)
    hops = {flow.name: flow.hops for flow in estimate.flows}
    for tid, row in enumerate(rows, start=1):
        # Slices of one thread must not overlap: flows that share a link get a lane each.
        lane = row.lane if lanes[row.lane] == 1 else f"{row.lane} · {row.flow}"
        if row.members > 1:
            lane += f" (one of {row.members})"
        yield _named("thread_name", pid, tid, {"name": lane})
        yield _named("thread_sort_index", pid, tid, {"sort_index": tid})
        title = row.flow
        if row.hop is not None and row.hop < len(hops.get(row.flow, ())):
            hop = hops[row.flow][row.hop].hop
            title = f"{row.flow}: {hop.start} → {hop.end} ({hop.strategy})"
        yield from _slices(pid, tid, title, row)


def _slices(pid: int, tid: int, title: str, row: TimelineRow) -> Iterator[dict[str, Any]]:
    reached = 0
    columns = zip(row.start_s, row.end_s, row.busy_s, row.size_bytes, row.chunks, strict=True)
    for start, end, busy, size, chunks in columns:
        begin = max(reached, round(start * _NS))
        lasts = round(busy * _NS)
        reached = begin + lasts
        args: dict[str, Any] = {"bytes": size, "chunks": chunks}
        if size and busy > 0:
            args["rate [GB/s]"] = round(size / busy / 1e9, 3)
        if chunks > 1:
            args["until [ms]"] = round(end * 1e3, 6)
        # Whole nanoseconds as microseconds.
        yield {
            "ph": "X",
            "pid": pid,
            "tid": tid,
            "name": title,
            "cat": row.kind,
            "ts": begin / 1e3,
            "dur": lasts / 1e3,
            "args": args,
        }


def _counters(pid: int, track: MemoryTrack) -> Iterator[dict[str, Any]]:
    """What a node holds, and how much of it is pinned, at every change."""
    for word, layers in (
        ("memory", track.layers),
        ("pinned", [layer for layer in track.layers if layer.pinned]),
    ):
        times = sorted({t for layer in layers for t in (layer.start_s, layer.end_s)})
        for time in times:
            held = sum(o.size_bytes for o in layers if o.start_s <= time < o.end_s)
            yield {
                "ph": "C",
                "pid": pid,
                "name": f"{track.node} {word} [MiB]",
                "ts": round(time * _NS) / 1e3,
                "args": {"MiB": round(held / _MIB, 3)},
            }


def _named(what: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args}
