"""Hold the fluid simulation against stored cases, flow by flow.

    python benchmarks/oracle.py CASE.json ... [--helper numba]

A case is an input of `fluid_input.py` with the known finish times in `oracle.finish` (seconds, in
the order of the flows); nine lie in `tests/data/oracle`. For each case one JSON object is printed:
its name, its number of flows, the worst relative error of a finish time and the CPU seconds of the
simulation. The exit code is 1 if any error is above 1e-9.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.fluid_input import as_input, read_case
from planner.model.simulate import Helper, simulate

LIMIT = 1e-9


def check(path: Path, helper: Helper) -> dict[str, Any]:
    """What one case gives."""
    case = read_case(path)
    expected = case.get("oracle", {}).get("finish")
    if expected is None or len(expected) != len(case["flows"]):
        raise SystemExit(f"{path}: needs oracle.finish with one finish time a flow")
    resources, flows = as_input(case)
    started = time.process_time()
    result = simulate(resources, flows, helper=helper)
    spent = time.process_time() - started
    errors = [
        abs(got - right) / abs(right) if right else abs(got)
        for got, right in zip(result.finish, expected, strict=True)
    ]
    return {
        "case": case["name"],
        "flows": len(flows),
        "worst_relative_error": max(errors, default=0.0),
        "cpu_s": spent,
    }


def main() -> int:
    """Check all cases of the command line; 1 if one is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="+", type=Path, metavar="CASE.json")
    parser.add_argument("--helper", choices=get_args(Helper), default="auto")
    arguments = parser.parse_args()
    worst = 0.0
    for path in arguments.cases:
        found = check(path, arguments.helper)
        print(json.dumps(found), flush=True)
        worst = max(worst, found["worst_relative_error"])
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
