"""What `planner check` emits: the plans that it read, resolved, and the machine files."""

from __future__ import annotations

from typing import Any, Literal

from planner.results.judged import Verdict
from planner.schedule import Result


class CheckedMachine(Result):
    """A machine file that was read; `machine` is what it says."""

    file: str
    machine: dict[str, Any]


class CheckResult(Result):
    """`planner check`: the plans that were read and what they resolved to, and machine files."""

    format: Literal["planner.check/1"] = "planner.check/1"
    planner: str
    plans: tuple[dict[str, Any], ...]
    machines: tuple[CheckedMachine, ...] = ()
    verdict: Verdict
