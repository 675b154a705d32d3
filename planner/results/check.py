"""What `planner check` emits: the plans that it read, resolved."""

from __future__ import annotations

from typing import Any, Literal

from planner.results.judged import Verdict
from planner.schedule import Result


class CheckResult(Result):
    """`planner check`: the plans that were read and what they resolved to."""

    format: Literal["planner.check/1"] = "planner.check/1"
    planner: str
    plans: tuple[dict[str, Any], ...]
    verdict: Verdict
