"""What every result of a benchmark carries, and how it is kept: where, when, by which command.

It imports little: a process of another project's loader uses it, too.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.engine.measure import middle, quantile

if TYPE_CHECKING:
    from planner.machine.schema import Machine

RESULTS = Path(__file__).resolve().parent / "results"


class Clock:
    """Seconds that a benchmark may take in all; `None` is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._begun = time.perf_counter()
        self.seconds = seconds

    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._begun

    def left(self) -> float:
        """Seconds that remain, possibly below zero."""
        return float("inf") if self.seconds is None else self.seconds - self.spent()


def leave_on_sigterm() -> None:
    """Have a program that is asked to end (SIGTERM) end on its usual way out.

    Files and processes of its own are gone then, and what was measured so far is written down.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def command(words: Sequence[str]) -> str:
    """A command line to read and repeat: a file elsewhere on the computer is named without folder.

    >>> command(["/home/me/planner/benchmarks/spine.py", "--size", "8GB", "--out", "/tmp/x/a.json"])
    'python benchmarks/spine.py --size 8GB --out a.json'
    """
    program, *others = words
    short = [Path(word).name if Path(word).is_absolute() else word for word in others]
    return " ".join(["python", f"{RESULTS.parent.name}/{Path(program).name}", *short])


def header(machine: Machine | None = None) -> dict[str, Any]:
    """Date, machine, driver and command: the first keys of a result."""
    found: dict[str, Any] = {
        "date": datetime.now(tz=UTC).isoformat(timespec="seconds"),
        "command": command(sys.argv),
        "host": platform.platform(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
    }
    if machine is not None:
        found |= {
            "machine": machine_label(machine),
            "driver": machine.hardware.get("driver"),
            "hardware": machine.hardware,
            "emulated": machine.emulated,
        }
    return found


def machine_label(machine: Machine) -> str:
    """A word for names of files: `h200-2` for two H200s, `host` where GPUs are emulated.

    >>> from planner.machine.load import load_machine
    >>> machine_label(load_machine("h200-sxm-2"))
    'h200-2'
    """
    from planner.machine.schema import Hbm

    gpus = sum(isinstance(node, Hbm) for node in machine.nodes.values())
    if machine.emulated or not gpus:
        return "host" if gpus < 2 else f"host-{gpus}"
    return f"{gpu_word(machine.hardware.get('gpu', ''))}-{gpus}"


def gpu_word(name: str) -> str:
    """`h200` of `2 x NVIDIA H200 SXM`: the part of a GPU's name that has a number.

    >>> gpu_word("NVIDIA GeForce RTX 4090"), gpu_word("2 x NVIDIA H200 SXM"), gpu_word("")
    ('4090', 'h200', 'gpu')
    """
    words = re.findall(r"[a-z]*\d{2,}\w*", name.lower())
    return words[0] if words else "gpu"


def write(path: Path, body: dict[str, Any]) -> None:
    """Put a result in place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def distribution(values: Sequence[float]) -> dict[str, float | int | None]:
    """Number, median, 90th percentile and largest of the values; `None` where there are none."""
    if not values:
        return {"points": 0, "median": None, "p90": None, "worst": None}
    return {
        "points": len(values),
        "median": middle(values),
        "p90": quantile(values, 0.9),
        "worst": max(values),
    }
