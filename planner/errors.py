"""Every error that `planner` raises on purpose, each with its exit code.

    PlannerError                        1   root; `hint` is the next step for the reader
    ├── InputError (ValueError)         3   a plan, machine, result or source file is wrong
    │   ├── PlanError                       the plan: all faults at once, each with its position
    │   └── MachineError                    the machine file, likewise
    ├── InfeasibleError                 4   valid, but impossible: no route, or it does not fit
    ├── UnavailableError                5   this computer cannot run it (no device, no library)
    └── ExecutionError                  6   it began and failed
        └── VerificationError               the bytes that arrived differ from the source

A missed objective, a regression and a poor prediction are not errors: they are verdicts of a
result, with the codes 10, 11 and 12 (`ExitCode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns; the table in the README lists the same."""

    DONE = 0
    BUG = 1
    USAGE = 2
    INPUT = 3
    INFEASIBLE = 4
    UNAVAILABLE = 5
    FAILED = 6
    OBJECTIVE = 10
    REGRESSION = 11
    PREDICTION = 12
    INTERRUPTED = 130


class PlannerError(Exception):
    """The root of all errors that are meant for the reader, not for the maintainer."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file that a person wrote.

    `line` and `column` count from 1; both are 0 where the fault has no place in the text (a value
    given on the command line, for instance). `excerpt` is the line of the file, `span` the number
    of characters to underline from `column` on.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    suggestion: str | None = None
    excerpt: str | None = None
    span: int = 1

    def position(self) -> str:
        """`file:line:column`, or the file alone where there is no position."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class InputError(PlannerError, ValueError):
    """A file that a person gave is wrong; `faults` lists everything found, in file order."""

    exit_code = ExitCode.INPUT

    def __init__(
        self, message: str, *, faults: Sequence[Fault] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.faults = tuple(faults)


class PlanError(InputError):
    """The plan is wrong: bad syntax, unknown key or node, bad unit, cyclic include, and so on."""


class MachineError(InputError):
    """The machine file is wrong, or the catalogue has no machine of that name."""


class InfeasibleError(PlannerError):
    """The plan is valid but cannot be done: no route, or something does not fit.

    `reasons` says of every way why it cannot be taken, those nearest to being possible first.
    """

    exit_code = ExitCode.INFEASIBLE

    def __init__(
        self, message: str, *, reasons: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.reasons = tuple(reasons)

    def __str__(self) -> str:
        """The message with every reason, for whoever catches none of it."""
        return "\n  ".join([self.message, *self.reasons])


class UnavailableError(PlannerError):
    """This computer cannot do it: a device or a library is missing."""

    exit_code = ExitCode.UNAVAILABLE


class ExecutionError(PlannerError):
    """The work began and failed; the driver's or system's error is the `__cause__`."""

    exit_code = ExitCode.FAILED


class VerificationError(ExecutionError):
    """The bytes at the destination differ from the source."""
