"""The main job on this computer: a cached file, pageable and pinned memory into one GPU.

    python benchmarks/spine.py --size 8GB --out benchmarks/results/spine-h200.json

Calibrates, then executes four plans of the same size and holds each against what the hardware
does without a plan: one big `memcpyAsync` from pinned memory, timed right before and right after.
Without a GPU the same script runs on the host backend and says so.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import planner
from benchmarks.record import header, write
from planner.engine.here import here
from planner.plan.schema import Plan
from planner.units import format_rate, format_time, parse_size

CASES: dict[str, dict[str, Any]] = {
    "cached file": {"from": "disk0", "to": "gpu0", "cache": "warm"},
    "pageable memory": {"from": "host0", "to": "gpu0", "memory": "pageable"},
    "pageable memory by the driver": {
        "from": "host0",
        "to": "gpu0",
        "memory": "pageable",
        "strategy": "pageable",
    },
    "pinned memory": {"from": "host0", "to": "gpu0", "memory": "pinned"},
}


def main() -> int:
    """Run all cases, print a table, and write the JSON where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("8GB"))
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    begun = time.perf_counter()
    machine = here(backend=options.backend, recalibrate=True)
    calibrated_s = time.perf_counter() - begun
    rows = [
        _row(name, words, options.size, options.samples, options.backend)
        for name, words in CASES.items()
    ]
    record = header(machine) | {
        "calibrated_s": calibrated_s,
        "size_bytes": options.size,
        "rows": rows,
    }
    _print(rows, machine.emulated, calibrated_s)
    if options.out:
        write(options.out, record)
    return 0


def _row(name: str, words: dict[str, Any], size: int, samples: int, backend: str) -> dict[str, Any]:
    """One plan executed, with the raw copy before and after it."""
    plan = Plan.model_validate({"name": name, "flows": {"load": {**words, "size": size}}})
    raw = _raw_copy(size, backend)
    run = planner.execute(plan, backend=backend, samples=samples)  # type: ignore[arg-type]
    raw += _raw_copy(size, backend)
    (flow,) = run.flows
    return {
        "case": name,
        "strategies": [hop.strategy for hop in flow.schedule.hops],
        "chunk_bytes": flow.schedule.hops[0].chunk_bytes,
        "depth": flow.schedule.hops[0].depth,
        "workers": flow.schedule.hops[0].workers,
        "pinned_bytes": flow.pinned_bytes,
        "verified": flow.verified,
        "samples_s": flow.samples_s,
        "first_s": flow.first_s,
        "predicted_first_s": flow.predicted_first_s,
        "steady_s": flow.steady_s,
        "predicted_s": flow.predicted_steady_s,
        "error_factor": flow.steady_error_factor,
        "rate_bytes_per_s": flow.size_bytes / flow.steady_s,
        "raw_copy_s": raw,
        "share_of_raw_copy": statistics.median(raw) / flow.steady_s if raw else None,
        "environment": run.environment.model_dump(mode="json"),
    }


def _raw_copy(size: int, backend: str) -> list[float]:
    """Seconds of one `memcpyAsync` of all bytes from pinned memory, by events; [] without a GPU."""
    if backend == "host":
        return []
    try:
        import cupy
    except ImportError:
        return []
    source = cupy.cuda.alloc_pinned_memory(size)
    target = cupy.cuda.alloc(size)
    stream = cupy.cuda.Stream(non_blocking=True)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    found = []
    for _ in range(4):
        start.record(stream)
        cupy.cuda.runtime.memcpyAsync(target.ptr, source.ptr, size, 1, stream.ptr)
        end.record(stream)
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    del source, target
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    return found[1:]


def _print(rows: list[dict[str, Any]], emulated: bool, calibrated_s: float) -> None:  # noqa: FBT001
    """The table for people."""
    if emulated:
        print("no GPU here: HBM is emulated in RAM")
    print(f"calibrated in {format_time(calibrated_s)}")
    for row in rows:
        share = row["share_of_raw_copy"]
        print(
            f"{row['case']:32} {format_rate(row['rate_bytes_per_s']):>10}"
            f"  predicted {format_time(row['predicted_s']):>9}"
            f"  measured {format_time(row['steady_s']):>9}  {row['error_factor']:.3f}x"
            f"  first {format_time(row['first_s'])} of {format_time(row['predicted_first_s'])}"
            f"  {'' if share is None else f'{share:.1%} of one big copy'}"
            f"  {'+'.join(row['strategies'])} {row['workers']} x {row['chunk_bytes'] >> 20} MiB"
            f" x {row['depth']}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
