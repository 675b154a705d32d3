"""A plan file into a `Plan`, or all of its faults at once, each at its place.

The steps: read the YAML and its includes, put the settings of the command line in, substitute the
variables, read every part into its type, look at the files, and check what must hold between the
parts. Each step goes on after a fault as far as it can.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner.errors import Fault, PlanError
from planner.plan.check import check_machine_names, check_objectives, check_parts
from planner.plan.include import FileReader
from planner.plan.parts import Home, Parts, located
from planner.plan.schema import Plan
from planner.plan.tree import Positions, Table, child
from planner.plan.typed import Complaint
from planner.plan.variables import substitute


@dataclass(frozen=True, slots=True)
class LoadedPlan:
    """A plan and where each of its values is written."""

    plan: Plan
    positions: Positions = field(default_factory=Positions)

    def fault(self, path: str, message: str, suggestion: str | None = None) -> Fault:
        """A fault at the key path `path` (`flows.weights.to`), or at the nearest key above it."""
        return located(Complaint(path, message, suggestion), self.positions, self.plan.source_file)


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan file as it was read, includes merged, before settings and variables are put in.

    Reading is most of what loading costs: many variants of one plan share it.
    """

    root: Table | None
    files: tuple[str, ...]
    faults: tuple[Fault, ...]
    home: Home

    def plan(self, settings: Sequence[str] = ()) -> LoadedPlan:
        """The plan with the `--set` texts of `settings` put in; raises `PlanError`."""
        return _load(self, settings)


def read_plan_text(path: str | os.PathLike[str]) -> PlanText:
    """The text of the plan in the file at `path`; its faults are raised by `PlanText.plan`."""
    file = Path(path)
    reader = FileReader()
    root = reader.read_file(file)
    home = Home(str(file), file.parent, file.stem)
    return PlanText(root, tuple(reader.files), tuple(reader.faults), home)


def load_plan(path: str | os.PathLike[str], *, settings: Sequence[str] = ()) -> LoadedPlan:
    """The plan in the file at `path`, with the `--set` texts of `settings` put in.

    Raises `PlanError` with every fault of the plan, in file order.
    """
    return read_plan_text(path).plan(settings)


def loads_plan(
    text: str,
    name: str = "plan",
    *,
    directory: str | os.PathLike[str] = ".",
    settings: Sequence[str] = (),
) -> LoadedPlan:
    """The plan that `text` holds; faults call it `name`.

    Parameters
    ----------
    text
        YAML of a plan.
    name
        What faults call the text, and the name of the plan unless it says one.
    directory
        The folder that relative paths in the text start from.
    settings
        Texts like those of `--set`.

    Raises
    ------
    PlanError
        With every fault of the plan, in the order of the text.
    """
    reader = FileReader()
    root = reader.read_text(text, name, Path(directory))
    home = Home(name, Path(directory), name)
    return PlanText(root, tuple(reader.files), tuple(reader.faults), home).plan(settings)


def check_plan(plan: Plan) -> None:
    """Check what must hold between the parts of a plan that was built in Python.

    Raises `PlanError` with everything that is wrong; a loaded plan has been checked already.
    """
    waits = {name: block.after for name, block in plan.compute.items()}
    waits.update((name, flow.after) for name, flow in plan.flows.items())
    objectives = [
        (child("objectives", index), objective) for index, objective in enumerate(plan.objectives)
    ]
    complaints = [
        *check_parts(plan.flows, plan.compute, waits),
        *check_objectives(objectives, plan.flows, plan.compute),
        *(
            Complaint(child("flows", name), 'needs "size"')
            for name, flow in plan.flows.items()
            if flow.size is None
        ),
    ]
    if complaints:
        home = Home(plan.source_file or plan.name, Path(plan.directory), plan.name)
        faults = [located(complaint, Positions(), home.file) for complaint in complaints]
        raise _plan_error(faults, [], home)


def check_names(
    loaded: LoadedPlan,
    node_names: Collection[str],
    link_names: Collection[str] = (),
    strategy_names: Collection[str] | None = None,
) -> list[Fault]:
    """The faults of a plan's names against those of a machine.

    Parameters
    ----------
    loaded
        The plan, as `load_plan` gives it.
    node_names, link_names
        The machine's nodes and links.
    strategy_names
        The strategies that the tool knows; None leaves them unchecked.
    """
    complaints = check_machine_names(loaded.plan, node_names, link_names, strategy_names)
    home = loaded.plan.source_file
    return [located(complaint, loaded.positions, home) for complaint in complaints]


def _load(text: PlanText, settings: Sequence[str]) -> LoadedPlan:
    faults = list(text.faults)
    if text.root is not None:
        root, overrides, wrong = _with_settings(text.root, settings)
        faults.extend(wrong)
        root, wrong = substitute(root)
        faults.extend(wrong)
        parts = Parts(root, text.home, overrides, whole=not text.faults)
        faults.extend(parts.faults())
        if not faults and parts.plan is not None:
            return LoadedPlan(parts.plan, parts.positions)
    raise _plan_error(faults, text.files, text.home)


def _with_settings(
    root: Table, settings: Sequence[str]
) -> tuple[Table, dict[str, str], list[Fault]]:
    if not settings:
        return root, {}, []
    from planner.plan.settings import apply_settings  # only `--set` needs it

    return apply_settings(root, settings)


def _plan_error(faults: list[Fault], files: Sequence[str], home: Home) -> PlanError:
    """All faults in file order: the plan first, then its includes, then the command line."""
    order = {name: index for index, name in enumerate(files)}
    ordered = sorted(
        dict.fromkeys(faults),
        key=lambda fault: (order.get(fault.file, len(order)), fault.line, fault.column),
    )
    count = "1 fault" if len(ordered) == 1 else f"{len(ordered)} faults"
    return PlanError(f"{home.file} has {count}", faults=ordered)
