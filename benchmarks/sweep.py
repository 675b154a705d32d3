"""How long 1,000 points of one plan take: seconds on the clock and of the processors.

    python -m benchmarks.sweep [--processes N] [--json FILE]

Three kinds of points, 1,000 each: pinned chunks and depths (every chunk of each is followed), other
rates of the link, and other sizes (both with a new search for the best schedule). On an idle
computer the clock shows the processors' seconds over the processes, and the start of those.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from pathlib import Path

from planner.review.sweep import sweep

PLAN = Path(__file__).resolve().parent.parent / "plans" / "llm_load.yaml"
CASES = {
    "chunk x depth": ("chunk={from: 64KiB, to: 512MiB, times: 1.0954}", "depth={from: 1, to: 10}"),
    "chunk x depth x workers": (
        "chunk=256KiB,512KiB,1MiB,2MiB,4MiB,8MiB,16MiB,32MiB,64MiB,128MiB",
        "depth={from: 1, to: 10}",
        "workers={from: 1, to: 10}",
    ),
    "link rate": ("links.pcie0.rate={from: 10.05GB/s, to: 60GB/s, step: 50MB/s}",),
    "size": ("weights={from: 100MB, to: 100GB, step: 100MB}",),
}


def processor_seconds() -> float:
    """Seconds of all processors in this process and in those that it has waited for."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def measured(axes: tuple[str, ...], processes: int | None) -> dict[str, float | int]:
    """One sweep: its points, and the seconds."""
    clock, used = time.perf_counter(), processor_seconds()
    result = sweep(PLAN, axes=axes, processes=processes)
    wall, used = time.perf_counter() - clock, processor_seconds() - used
    points = len(result.points)
    return {
        "points": points,
        "wall_s": round(wall, 3),
        "processor_s": round(used, 3),
        "processor_s_per_1000": round(used * 1000 / points, 3),
    }


def main() -> None:
    """Measure every case and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--only", choices=CASES, action="append")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {}
    for name, axes in CASES.items():
        if given.only and name not in given.only:
            continue
        found[name] = row = measured(axes, given.processes)
        print(
            f"{name:26}{row['points']:>6} points{row['wall_s']:>9.2f} s on the clock"
            f"{row['processor_s']:>9.2f} s of the processors",
            flush=True,
        )
    if given.json:
        body = {"cores": len(os.sched_getaffinity(0)), "cases": found}
        given.json.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
