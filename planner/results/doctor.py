"""What `planner doctor` emits: what is wrong with a computer, why it matters, how to mend it."""

from __future__ import annotations

from typing import Literal

from planner.results.judged import Verdict
from planner.schedule import Result

Level = Literal["problem", "warning", "note", "unknown"]
Outcome = Literal["fine", "found", "unknown", "absent"]


class Cost(Result):
    """What a finding costs by the model: `size_bytes` moved now, and as it could be."""

    what: str
    size_bytes: int
    now_s: float
    could_s: float
    now_bytes_per_s: float
    could_bytes_per_s: float


class Finding(Result):
    """One thing that a check found.

    A `problem` makes transfers fail or several times slower, a `warning` slower or predictions
    poor; a `note` is good to know. `unknown` says that a check could not look: `seen` tells why.
    `about` names the link, GPU or setting.
    """

    check: str
    level: Level
    about: str
    seen: str
    why: str = ""
    mend: str = ""
    cost: Cost | None = None


class Checked(Result):
    """A check that ran: `fine` found nothing at all, `unknown` could not look.

    `absent`: there is nothing of the kind here, like GPUs.
    """

    check: str
    title: str
    outcome: Outcome


class Doctor(Result):
    """`planner doctor`: every check, and what they found, the worst first.

    `calibrated` is when the calibration was made that was looked at, `null` for none.
    """

    format: Literal["planner.doctor/1"] = "planner.doctor/1"
    planner: str
    machine: str
    host: str
    date: str
    calibrated: str | None = None
    checks: tuple[Checked, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
