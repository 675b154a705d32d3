"""How long the command line takes to start, held against its two limits.

    python benchmarks/startup.py [--repeat 11] [--compile]

Prints, and fails beyond:
1. `planner --help` less `python -c pass`: at most 0.15 s;
2. `planner estimate plans/llm_load.yaml`, a cold process without a GPU, over the import of the
   libraries that any such tool needs: at most 1.5.

Commands take turns, so a computer that slows down slows all of them; the fastest of each counts,
as everything else on the computer only ever adds time. All of them start from bytecode, as an
installed package does: a folder of its own holds it, so neither PYTHONDONTWRITEBYTECODE nor a fresh
checkout puts the compiling of our modules, but not of the libraries', into the comparison.
`--compile` leaves the environment as it is, for a look at that first start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIBRARIES: Final = "import pydantic, networkx, numpy, typer, rich, yaml"
HELP_LIMIT_S: Final = 0.15
ESTIMATE_LIMIT: Final = 1.5

COMMANDS: Final = {
    "python": ["-c", "pass"],
    "help": ["-m", "planner", "--help"],
    "libraries": ["-c", LIBRARIES],
    "estimate": ["-m", "planner", "estimate", "plans/llm_load.yaml"],
}


def seconds(arguments: list[str], environment: Mapping[str, str]) -> float:
    """Wall seconds of one Python process with these arguments."""
    started = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT, env=environment
    )
    return time.perf_counter() - started


def with_bytecode(folder: str) -> dict[str, str]:
    """The environment of a Python that keeps its bytecode in `folder`."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def measure(repeat: int, environment: Mapping[str, str]) -> dict[str, float]:
    """The fastest of `repeat` runs of each command, in seconds; one round before is discarded."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_number in range(repeat + 1):
        for name, arguments in COMMANDS.items():
            spent = seconds(arguments, environment)
            if round_number:
                taken[name].append(spent)
    return {name: min(times) for name, times in taken.items()}


def main() -> int:
    """Measure, print the two figures, and say whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--compile", action="store_true", help="do not provide bytecode")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ if options.compile else with_bytecode(folder)
        best = measure(options.repeat, environment)
    extra, ratio = best["help"] - best["python"], best["estimate"] / best["libraries"]
    if options.json:
        print(json.dumps({"seconds": best, "help_extra_s": extra, "estimate_ratio": ratio}))
    else:
        for name, spent in best.items():
            print(f"{name:10} {spent * 1e3:7.1f} ms")
        print(f"help is {extra * 1e3:.1f} ms over Python's own start (limit 150 ms)")
        print(f"estimate takes {ratio:.2f} times the libraries' import (limit {ESTIMATE_LIMIT})")
    return 0 if extra <= HELP_LIMIT_S and ratio <= ESTIMATE_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
