"""The axes of a sweep as asked for, and whether every value on them can be read at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import Fault, MachineError, PlanError
from planner.plan.load import LoadedPlan, check_names
from planner.plan.matrix import Axis, AxisError, read_axis, setting
from planner.plan.parts import is_machine_file
from planner.plan.settings import COUNTED, MACHINE_PARTS, split_values
from planner.plan.tree import child
from planner.review.inputs import HERE
from planner.review.pins import unknown_strategies
from planner.review.point import MachineKey, Scene, machine_key
from planner.wording import begun

if TYPE_CHECKING:
    from planner.engine.progress import Progress
    from planner.machine.schema import Machine

_PATHS = ("machine", "file")
"""Last words of keys whose value may be a path: one in the plan starts from the plan's folder."""

_NAMING = ("flows", "compute")
"""First words of keys whose value may be the name of a place."""


def axes_of(base: LoadedPlan, asked: Sequence[str], settings: Sequence[str]) -> list[Axis]:
    """The axes of the plan's `matrix` that no setting fixes, then those asked for.

    Raises `PlanError` for texts of `asked` that are no axis.
    """
    fixed = {text.partition("=")[0].strip() for text in settings}
    found: dict[str, Axis] = {}
    for key, written in base.plan.matrix.items():
        if key not in fixed:
            found[key] = _from_plan(base, read_axis(key, written))
    faults: list[Fault] = []
    given: set[str] = set()
    for text in asked:
        key, equals, values = (part.strip() for part in text.partition("="))
        name = f"--sweep {text}"
        if not key or not equals:
            hint = "write --sweep chunk=1MiB,16MiB"
            faults.append(Fault(name, 0, 0, "", "an axis is key=value,value", hint))
        elif key in given:
            faults.append(Fault(name, 0, 0, key, "this key is swept twice", "join the values"))
        else:
            given.add(key)
            try:
                found[key] = read_axis(key, split_values(values))
            except AxisError as error:
                faults.append(Fault(name, 0, 0, key, error.message, error.suggestion))
    if faults:
        raise PlanError("what is to be swept cannot be read", faults=faults)
    return list(found.values())


def _from_plan(base: LoadedPlan, axis: Axis) -> Axis:
    """The axis of a plan with its paths seen from the current folder, as `--set` takes them."""
    last = axis.key.rpartition(".")[2]
    if last not in _PATHS:
        return axis
    path = child("matrix", axis.key)
    place = base.positions.values.get(child(path, 0)) or base.positions.values.get(path)
    folder = place.source.folder if place is not None else Path(base.plan.directory)
    named = last == "machine"
    return Axis(
        axis.key,
        tuple(
            value if named and not is_machine_file(value) else str(folder / value)
            for value in axis.values
        ),
    )


def checked(scene: Scene, base: LoadedPlan, progress: Progress | None) -> None:
    """Try each value once, beside the first values of the other axes, and load the machines.

    Raises `PlanError` with the fault of every value that cannot be read, where it is written, and
    `MachineError` where there is no such machine.
    """
    first = [axis.values[0] for axis in scene.axes]
    faults: list[Fault] = []
    for number, axis in enumerate(scene.axes):
        for index, value in enumerate(axis.values):
            values = [*first[:number], value, *first[number + 1 :]]
            try:
                loaded = scene.load(values)
                _know_machine(scene, loaded, progress)
                faults += _placed(base, axis, index, _unknown_names(scene, loaded, axis))
            except MachineError as error:
                if axis.key != "machine":
                    raise
                faults += _placed(base, axis, index, _faults_of(error))
            except PlanError as error:
                faults += _placed(base, axis, index, error.faults)
    if not faults:
        faults = [fault for axis in scene.axes for fault in _figures(scene, base, axis)]
    if faults:
        found = list(dict.fromkeys(faults))
        count = "1 value" if len(found) == 1 else f"{len(found)} values"
        raise PlanError(f"{count} of the sweep cannot be read", faults=found)


def _unknown_names(scene: Scene, loaded: LoadedPlan, axis: Axis) -> list[Fault]:
    """Strategies that nobody knows, and places that the one machine of all points lacks.

    Where machines or their figures change, a place may be at some points and not at others.
    """
    faults = unknown_strategies(loaded)
    one_machine = all(other.key != "machine" for other in scene.axes)
    if (
        faults
        or not one_machine
        or loaded.plan.overrides
        or axis.key.partition(".")[0] not in _NAMING
    ):
        return faults
    from planner.machine.replicate import all_names

    return check_names(loaded, *all_names(scene.machines[machine_key(loaded)]))


def _faults_of(error: MachineError) -> list[Fault]:
    return list(error.faults) or [Fault("--set ", 0, 0, "machine", error.message, error.hint)]


def _know_machine(scene: Scene, loaded: LoadedPlan, progress: Progress | None) -> None:
    """Load the machine of a point unless it is known."""
    key = machine_key(loaded)
    if key not in scene.machines:
        scene.machines[key] = _machine(key, progress)


def _machine(key: MachineKey, progress: Progress | None) -> Machine:
    name, folder = key
    if name == HERE:
        from planner.engine.here import here

        return here(backend="auto", progress=progress)
    from planner.machine.load import load_machine

    return load_machine(name, directory=Path(folder))


def _figures(scene: Scene, base: LoadedPlan, axis: Axis) -> Iterator[Fault]:
    """Faults of values for figures of the machine that fit none of the machines."""
    from planner.machine.override import with_overrides

    if axis.key.partition(".")[0] not in (*MACHINE_PARTS, COUNTED):
        return
    others = [setting(a, a.values[0]) for a in scene.axes if a is not axis]
    for index, value in enumerate(axis.values):
        text = setting(axis, value)
        plan = scene.text.plan([*scene.settings, *others, text]).plan
        faults: Sequence[Fault] = ()
        for machine in scene.machines.values():
            try:
                with_overrides(machine, plan.overrides)
            except MachineError as error:
                faults = faults or error.faults
            else:
                break
        else:
            yield from _placed(
                base, axis, index, [replace(f, file=f"--set {begun(text)}") for f in faults]
            )


def _placed(base: LoadedPlan, axis: Axis, index: int, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Faults of one value, moved from the setting that stands for it to where it is written."""
    path = child("matrix", axis.key)
    written = base.positions.nearest(child(path, index)) if axis.key in base.plan.matrix else None
    for fault in faults:
        if fault.line or not fault.file.startswith("--set "):
            yield fault
        elif written is not None:
            yield base.fault(child(path, index), fault.message, fault.suggestion)
        else:
            text = f"--sweep {begun(setting(axis, axis.values[index]))}"
            yield replace(fault, file=text)
