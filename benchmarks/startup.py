"""How long the command line takes to start, held against its two limits.

    python benchmarks/startup.py [--repeat 11]

Prints, and fails beyond:
1. `planner --help` less `python -c pass`: at most 0.15 s;
2. `planner estimate plans/llm_load.yaml`, a cold process without a GPU, over the import of the
   libraries that any such tool needs: at most 1.5.

Commands take turns, so a computer that slows down slows all of them; the fastest of each counts,
as everything else on the computer only ever adds time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
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


def seconds(arguments: list[str]) -> float:
    """Wall seconds of one Python process with these arguments."""
    started = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own commands
        [sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT
    )
    return time.perf_counter() - started


def measure(repeat: int) -> dict[str, float]:
    """The fastest of `repeat` runs of each command, in seconds; one round before is discarded."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_number in range(repeat + 1):
        for name, arguments in COMMANDS.items():
            spent = seconds(arguments)
            if round_number:
                taken[name].append(spent)
    return {name: min(times) for name, times in taken.items()}


def main() -> int:
    """Measure, print the two figures, and say whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    best = measure(options.repeat)
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
