"""CPU seconds of the fluid simulation over a cluster of 64 hosts with 8 GPUs each.

    python benchmarks/simulation.py [--helper numba numpy] [--only 10k] [--growth]

Inputs are those of `fluid_input.py`. Each figure is one run of `simulate` in CPU seconds of this
process (making the objects that go in is not counted), the fastest of `--repeat`. What numba spends
before its first event, compiling or loading what it compiled in an earlier process, is stated
apart. The table goes to stderr, the same as JSON to stdout.

SimGrid's figures are CPU seconds of SimGrid 4.1 on the same inputs, one run each on a busy 2-core
x86-64 computer, its Python actor included (measured 2026-11).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.fluid_input import as_input, cluster_case
from planner.model.simulate import FluidFlow, Helper, Resource, simulate

Input = tuple[list[Resource], list[FluidFlow]]

# name: flows, mean gap in seconds, CPU seconds of SimGrid 4.1
CASES: dict[str, tuple[int, float, float]] = {
    "1k at once": (1_000, 0.0, 0.24),
    "10k at once": (10_000, 0.0, 81.1),
    "10k, 50 us apart": (10_000, 50e-6, 5.19),
    "10k, 200 us apart": (10_000, 200e-6, 0.49),
    "100k, 200 us apart": (100_000, 200e-6, 5.56),
}

# How the time grows with the number of flows: those that come one after another load the cluster
# alike at any number; those that come at once all share it, so 1e5 of them take minutes.
GROWTH = {
    "200 us apart": (200e-6, (100, 1_000, 10_000, 100_000)),
    "at once": (0.0, (100, 1_000, 10_000)),
}


@dataclass(frozen=True)
class Row:
    """One figure."""

    case: str
    helper: str
    flows: int
    cpu_s: float
    events: int
    makespan_s: float
    simgrid_cpu_s: float | None = None


def measure(case: str, given: Input, helper: Helper, repeat: int, simgrid: float | None) -> Row:
    """The fastest of `repeat` runs."""
    spent = math.inf
    events, makespan = 0, 0.0
    for _ in range(repeat):
        started = time.process_time()
        result = simulate(*given, helper=helper)
        spent = min(spent, time.process_time() - started)
        events, makespan = result.events, result.makespan
    flows = sum(flow.members for flow in given[1])
    return Row(case, helper, flows, spent, events, makespan, simgrid)


def cold_start(nodes: int, gpus: int = 8) -> Input:
    """Every GPU of every node loads 14e9 bytes from one store: one class of equal flows."""
    members = nodes * gpus
    resources = [
        Resource("store", 1e15),
        Resource("memory bus", 320e9, members=nodes),
        Resource("gpu link", 54e9, members=members),
    ]
    return resources, [FluidFlow("weights", 14e9, {0: 1.0, 1: 2.0, 2: 1.0}, members=members)]


def rows(helper: Helper, only: str, repeat: int, *, growth: bool) -> Iterator[Row]:
    """All figures of one helper, small ones first."""
    for name, (count, gap, simgrid) in CASES.items():
        if only in name:
            yield measure(name, as_input(cluster_case(count, gap)), helper, repeat, simgrid)
    if only in "cold start, one class":
        yield measure("cold start, one class", cold_start(12_500), helper, repeat, None)
    if not growth:
        return
    for spacing, (gap, counts) in GROWTH.items():
        for count in counts:
            name = f"growth, {spacing}"
            yield measure(name, as_input(cluster_case(count, gap)), helper, repeat, None)


def prepare_numba() -> float:
    """CPU seconds of the first use of numba in this process."""
    started = time.process_time()
    simulate([Resource("r", 1.0)], [FluidFlow("f", 1.0, {0: 1.0})], helper="numba")
    return time.process_time() - started


def main() -> None:
    """Measure what the command line asks for."""
    has_numba = importlib.util.find_spec("numba") is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--helper", nargs="+", default=["numba", "numpy"] if has_numba else ["numpy"]
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--growth", action="store_true", help="also 100 to 100,000 flows")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()

    started = prepare_numba() if "numba" in arguments.helper else None
    if started is not None:
        print(
            f"numba: first use {started:.2f} s (compiled, or loaded from its cache)",
            file=sys.stderr,
        )
    print(
        f"{'case':<24}{'helper':<8}{'flows':>9}{'CPU s':>10}{'SimGrid':>9}{'×':>8}", file=sys.stderr
    )
    found = []
    for helper in arguments.helper:
        for row in rows(helper, arguments.only, arguments.repeat, growth=arguments.growth):
            found.append(asdict(row))
            times = row.simgrid_cpu_s and row.simgrid_cpu_s / row.cpu_s
            scale = f"{row.simgrid_cpu_s:9.2f}{times:8.1f}" if times else ""
            print(
                f"{row.case:<24}{helper:<8}{row.flows:>9,}{row.cpu_s:10.4f}{scale}", file=sys.stderr
            )
    host = {"python": platform.python_version(), "machine": platform.machine()}
    print(json.dumps({**host, "numba_first_use_cpu_s": started, "rows": found}))


if __name__ == "__main__":
    main()
