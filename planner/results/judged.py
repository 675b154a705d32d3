"""What is said of a result: each objective met or missed, and the verdict."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.schedule import Result


class ObjectiveResult(Result):
    """One objective: `passed: true` means met.

    `margin` is (limit - value) / limit, signed so that positive is good; `holds_while` names the
    slack ("disk0 >= 5.6 GB/s").
    """

    text: str
    metric: str
    value: float | None
    limit: float
    unit: str
    passed: bool | None = Field(description="null: this result has no such metric")
    margin: float | None = None
    holds_while: str | None = None


class VerdictPart(Result):
    """One clause of a verdict: what it is about, its sentence, and the exit code it asks for."""

    about: Literal["intact", "objectives", "prediction", "regression", "summary"]
    sentence: str
    exit_code: int = 0


class Verdict(Result):
    """The one value that the closing sentence and the exit code both come from.

    `sentence` joins the sentences of the `parts`, `exit_code` combines their codes.
    """

    passed: bool
    exit_code: int
    sentence: str
    parts: tuple[VerdictPart, ...] = ()
