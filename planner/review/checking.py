"""Plans and machine files read and checked, all faults of all of them in one go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner._version import VERSION
from planner.errors import ExitCode, Fault, InputError, PlanError
from planner.plan.load import LoadedPlan
from planner.results import CheckedMachine, CheckResult, Verdict
from planner.review.inputs import PathLike, machine_faults, read_plan
from planner.wording import counted


@dataclass
class Read:
    """What was read, each in the order of the paths, and the faults of it."""

    plans: list[LoadedPlan] = field(default_factory=list)
    machines: list[CheckedMachine] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def result(self) -> CheckResult:
        """The result of a check that found nothing wrong."""
        counts = {"plan": len(self.plans), "machine": len(self.machines)}
        some = {what: count for what, count in counts.items() if count} or {"plan": 0}
        told = " and ".join(counted(count, what) for what, count in some.items())
        verb = "is" if sum(counts.values()) == 1 else "are"
        return CheckResult(
            planner=VERSION,
            plans=tuple(loaded.plan.model_dump(mode="json") for loaded in self.plans),
            machines=tuple(self.machines),
            verdict=Verdict(
                passed=True, exit_code=int(ExitCode.DONE), sentence=f"{told} {verb} right."
            ),
        )


def read_files(paths: Sequence[PathLike], *, settings: Sequence[str] = ()) -> Read:
    """The plans and machine files at `paths`, told apart by their keys.

    Raises `PlanError` with all faults of all of them.
    """
    found = Read()
    what = "plan"
    for path in paths:
        text = _machine_text(path)
        try:
            if text is not None:
                what = "file"
                found.machines.append(_machine(text, os.fspath(path), settings))
                continue
            loaded = read_plan(path, settings=settings)
        except InputError as error:
            found.faults += error.faults or [Fault(str(path), 0, 0, "", error.message, error.hint)]
            continue
        found.faults += machine_faults(loaded)
        found.plans.append(loaded)
    if found.faults:
        told = f"{counted(len(found.faults), 'fault')} in {counted(len(paths), what)}"
        raise PlanError(told, faults=found.faults)
    return found


def _machine_text(path: PathLike) -> str | None:
    """The text of a machine file; `None` for all else, which is read as a plan."""
    from planner.machine.load import is_machine_text

    file = Path(path)
    try:
        # A pipe can be read once only, by whoever takes it for a plan.
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    except (OSError, ValueError):
        return None
    return text if is_machine_text(text) else None


def _machine(text: str, file: str, settings: Sequence[str]) -> CheckedMachine:
    """The machine in a file; raises `MachineError` with its faults."""
    from planner.machine.load import parse_machine

    if settings:
        raise InputError(
            "--set changes plans, and this is a machine file",
            hint="check it without, or a plan that names it with machine:",
        )
    machine = parse_machine(text, file)
    return CheckedMachine(file=file, machine=machine.model_dump(mode="json", by_alias=True))
