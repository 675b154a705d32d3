"""What a second GPU brings: peer copies, two links at once, one GPU fed through both.

    python benchmarks/two_gpus.py [--size 8GB] [--samples 5] [--budget 200] [--full]
        [--only NAME,NAME]

Every case is a plan, predicted with the calibration of this computer (the kept one; `--full` takes
a new one) and executed. What it is held against is measured in the same run without a plan: one big
`memcpyPeerAsync` between the GPUs with peer access, and one with it off, which the driver stages
through the host. Without a GPU the host backend emulates two and says so.

Results go to `benchmarks/results/two-gpus-MACHINE.json`: `rows` with predicted and measured time of
every flow, the shares of split flows, and `checks` with the figures that follow from the rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import planner
from benchmarks.record import RESULTS, Clock, header, machine_label, write
from planner.engine.calibrate import backend_name
from planner.engine.here import here
from planner.errors import PlannerError
from planner.plan.schema import Plan
from planner.units import format_rate, format_time, parse_size

PINNED = {"from": "host0", "memory": "pinned"}
CACHED = {"from": "disk0", "cache": "warm"}
BOTH = ["gpu0", "gpu1"]
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "peer": {"flow": {"from": "gpu0", "to": "gpu1", "strategy": "peer"}},
    "peer back": {"flow": {"from": "gpu1", "to": "gpu0", "strategy": "peer"}},
    "through host": {"flow": {"from": "gpu0", "to": "gpu1", "strategy": "host_staged"}},
    "one pinned": {"a": {**PINNED, "to": "gpu0", "route": ["host0", "gpu0"]}},
    "two pinned": {"a": {**PINNED, "to": "gpu0"}, "b": {**PINNED, "to": "gpu1"}},
    "one cached": {"a": {**CACHED, "to": "gpu0", "route": ["disk0", "host0", "gpu0"]}},
    "two cached": {"a": {**CACHED, "to": "gpu0"}, "b": {**CACHED, "to": "gpu1"}},
    "fan out": {"flow": {**CACHED, "to": BOTH, "copy": "replicate"}},
    "split pinned": {"flow": {**PINNED, "to": "gpu0"}},
    "split cached": {"flow": {**CACHED, "to": "gpu0"}},
    "out of both": {
        "a": {"from": "gpu0", "to": "host0", "memory": "pinned"},
        "b": {"from": "gpu1", "to": "host0", "memory": "pinned"},
    },
}
"""Flows of equal size that start together."""


def main() -> int:
    """Run all cases, print a table, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("8GB"))
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--budget", type=float, help="seconds; later cases are left out")
    parser.add_argument("--only", help="names of cases, with commas between; all if left out")
    parser.add_argument("--full", action="store_true", help="calibrate in full first")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--out", type=Path, help="file for the result")
    options = parser.parse_args()

    clock = Clock(options.budget)
    options.backend = backend_name(options.backend)
    emulated = 2 if options.backend == "host" else None
    machine = here(
        backend=options.backend, recalibrate=options.full, full=options.full, emulate_gpus=emulated
    )
    rows: list[dict[str, Any]] = []
    raw: dict[str, list[float]] = {}
    target = options.out or RESULTS / f"two-gpus-{machine_label(machine)}.json"
    for name, flows in asked_for(options.only).items():
        if clock.left() <= 0:
            print(f"{name}: left out, the budget is spent", file=sys.stderr)
            continue
        row = _run(name, flows, options)
        rows.append(row)
        _print(row)
        if name == "through host" and options.backend != "host":
            raw = raw_peer_copies(options.size)
        body = {"size_bytes": options.size, "raw_peer_s": raw, "rows": rows}
        write(target, header(machine) | body | {"checks": checks(rows, raw)})
    for text, value in checks(rows, raw).items():
        print(f"{text:60} {value:.3f}")
    print(f"saved {target}")
    return 0


def asked_for(names: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """The cases of these names, in their own order; raises `SystemExit` for a name of none."""
    if names is None:
        return CASES
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        raise SystemExit(f"no case {unknown[0]!r}; there are: {', '.join(CASES)}")
    return {name: flows for name, flows in CASES.items() if name in wanted}


def _run(
    name: str, flows: dict[str, dict[str, Any]], options: argparse.Namespace
) -> dict[str, Any]:
    """One case: its row, or why it cannot run."""
    sized = {flow: {**words, "size": options.size} for flow, words in flows.items()}
    plan = Plan.model_validate({"name": name.replace(" ", "-"), "flows": sized})
    try:
        run = planner.execute(plan, backend=options.backend, samples=options.samples)
    except PlannerError as error:
        return {"case": name, "failed": str(error)}
    return {
        "case": name,
        "makespan_s": statistics.median(run.makespan_samples_s),
        "verified": all(flow.verified for flow in run.flows),
        "flows": [
            {
                "flow": flow.name,
                "size_bytes": flow.size_bytes,
                "route": [flow.schedule.hops[0].start, *(hop.end for hop in flow.schedule.hops)],
                "strategies": [hop.strategy for hop in flow.schedule.hops],
                "chunk_bytes": flow.schedule.hops[0].chunk_bytes,
                "depth": flow.schedule.hops[0].depth,
                "workers": flow.schedule.hops[0].workers,
                "predicted_s": flow.predicted_steady_s,
                "measured_s": flow.steady_s,
                "error_factor": flow.steady_error_factor,
                "predicted_first_s": flow.predicted_first_s,
                "first_s": flow.first_s,
                "samples_s": flow.samples_s,
                "pinned_bytes": flow.pinned_bytes,
                "parts": [part.model_dump(mode="json") for part in flow.parts],
            }
            for flow in run.flows
        ],
        "bottleneck": run.estimate.bottleneck.model_dump(mode="json"),
    }


def raw_peer_copies(size: int) -> dict[str, list[float]]:
    """Seconds of one copy of all bytes between the GPUs, by events: peer access on, then off."""
    import cupy

    runtime = cupy.cuda.runtime
    if runtime.getDeviceCount() < 2:
        return {}
    found: dict[str, list[float]] = {"peer": [], "driver": []}
    pointers = []
    try:
        for gpu in (0, 1):
            runtime.setDevice(gpu)
            pointers.append((gpu, runtime.malloc(size)))
        runtime.setDevice(0)
        stream = cupy.cuda.Stream(non_blocking=True)
        events = cupy.cuda.Event(), cupy.cuda.Event()
        for access, times in found.items():
            if access == "peer":
                runtime.deviceEnablePeerAccess(1)
            for _ in range(4):
                events[0].record(stream)
                runtime.memcpyPeerAsync(pointers[1][1], 1, pointers[0][1], 0, size, stream.ptr)
                events[1].record(stream)
                events[1].synchronize()
                times.append(cupy.cuda.get_elapsed_time(*events) / 1e3)
            if access == "peer":
                runtime.deviceDisablePeerAccess(1)
    finally:
        for gpu, pointer in pointers:
            runtime.setDevice(gpu)
            runtime.free(pointer)
    return {access: times[1:] for access, times in found.items()}


def checks(rows: list[dict[str, Any]], raw: dict[str, list[float]]) -> dict[str, float]:
    """The figures that cases and raw copies give together; those whose cases ran."""
    spans = {row["case"]: row["makespan_s"] for row in rows if "makespan_s" in row}
    steady = {
        row["case"]: max(flow["measured_s"] for flow in row["flows"])
        for row in rows
        if "flows" in row
    }
    found: dict[str, float] = {}
    if raw and "peer" in steady:
        found["peer, share of the raw peer copy"] = statistics.median(raw["peer"]) / steady["peer"]
    if raw and "through host" in steady:
        driver = statistics.median(raw["driver"])
        found["through host, times the driver's own staging"] = driver / steady["through host"]
    if "through host" in steady and "one pinned" in steady:
        found["through host, share of one pinned load"] = (
            steady["one pinned"] / steady["through host"]
        )
    for case, one in (("two pinned", "one pinned"), ("two cached", "one cached")):
        if case in spans and one in spans:
            found[f"{case}, times the rate of {one}"] = 2 * spans[one] / spans[case]
    if "fan out" in spans and "one cached" in spans:
        found["fan out, times the time of one cached"] = spans["fan out"] / spans["one cached"]
    for case, one in (("split pinned", "one pinned"), ("split cached", "one cached")):
        if case in steady and one in steady:
            found[f"{case}, times the rate of {one}"] = steady[one] / steady[case]
    return found | errors(rows)


def errors(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of each case the measured time as a multiple of the predicted one.

    The flows of a case start together, so its time is that of the longest one; measured and
    predicted need not have the same one last.
    """
    found = {}
    for row in rows:
        flows = row.get("flows", ())
        if flows:
            times = [max(flow[key] for flow in flows) for key in ("measured_s", "predicted_s")]
            found[f"{row['case']}, times the predicted time"] = times[0] / times[1]
    return found


def _print(row: dict[str, Any]) -> None:
    """The row for people."""
    if "failed" in row:
        print(f"{row['case']:14} cannot run: {row['failed']}", flush=True)
        return
    for flow in row["flows"]:
        shares = ", ".join(
            f"{' > '.join(part['route'])} {part['share']:.1%} of {part['predicted_share']:.1%}"
            for part in flow["parts"]
        )
        print(
            f"{row['case']:14} {flow['flow']:6} "
            f"{format_rate(flow['size_bytes'] / flow['measured_s']):>10}"
            f"  measured {format_time(flow['measured_s']):>9}"
            f"  predicted {format_time(flow['predicted_s']):>9}  {flow['error_factor']:.3f}x"
            f"  {'+'.join(flow['strategies'])} {flow['workers']} x {flow['chunk_bytes'] >> 20} MiB"
            f" x {flow['depth']}  {'' if row['verified'] else 'NOT '}verified"
            f"  limit {row['bottleneck']['resource']} ({row['bottleneck']['cause']})  {shares}",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
