"""Ask "what if": the same machine with some of its numbers replaced.

A key path names one number of the machine file: `nodes.host0.cores`, `links.pcie0.forward.rate`.
A link's `rate` stands for both of its directions. A new rate changes the curves of that direction
too: those that the wire limits keep their share of it, those that the CPU limits are only capped.
`links.pcie0.failed=true` takes a link out; `replicate.node=16` counts the machine's equal parts. A
name that stands for one member of a class (`links.node3.pcie0`) writes the machine out first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError

from planner.errors import Fault, InfeasibleError, MachineError
from planner.machine.curve import Curve
from planner.machine.replicate import DIGITS, all_names, written_out
from planner.machine.schema import Direction, Machine, Provenance
from planner.machine.written import Written, nearest_of
from planner.units import UnitError, parse_factor, parse_rate, parse_share
from planner.wording import begun

SOURCE: Final = "override"
"""The name of the source that an overridden direction points at."""

FAILED: Final = "failed"
"""The word that takes a link out: `links.pcie0.failed=true`."""

_IN_A_FILE: Final = "write it in a machine file, and name that with machine:"

# The CPU or the driver's fault handler limits these, not the wire: a faster wire does not help
# (pageable copies run at 6 GB/s and faults at 10 GB/s on a wire of 55: catalogue, h200-sxm-1).
# One stream of TCP is limited by its window and its sender.
_CPU_BOUND: Final = frozenset(
    {"pageable", "pageable_hot", "managed_fault", "managed_scattered", "peer_off", "mmap", "tcp"}
)


def with_overrides(machine: Machine, overrides: Mapping[str, str]) -> Machine:
    """The machine with each key path of `overrides` set to its new value.

    Rates take a factor as well: `0.5x` or `50%` is half of what the machine has. Links fail last,
    whatever the order. Raises `MachineError` with one fault for each override that names nothing
    or does not fit.
    """
    if not overrides:
        return machine
    before = machine.sources.get(SOURCE)
    notes = [before.note] if before and before.note else []
    notes += [f"{path}={text}" for path, text in overrides.items()]
    note = ", ".join(notes)
    source = Provenance(kind="assumed", where="given by the reader", when="now", note=note)
    machine = machine.model_copy(update={"sources": {**machine.sources, SOURCE: source}})
    faults: list[Fault] = []
    for path, text in sorted(overrides.items(), key=lambda pair: _turn(pair[0])):
        try:
            machine = _set(_with_member(machine, path), path, text)
        except _RefusedError as refused:
            where = f"--set {begun(f'{path}={text}')}"
            faults.append(Fault(where, 0, 0, path, refused.message, refused.suggestion))
    if faults:
        first = faults[0]
        several = f" ({len(faults)} faults)" if len(faults) > 1 else ""
        raise MachineError(
            f"{first.file}: {first.message}{several}", faults=faults, hint=first.suggestion
        )
    return machine


def _turn(path: str) -> int:
    """Counts come first, as names may depend on them, and failures last: what fails is gone."""
    if path.startswith("replicate."):
        return 0
    return 2 if path.startswith("links.") and path.endswith(f".{FAILED}") else 1


class _RefusedError(Exception):
    """An override that names nothing or does not fit."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def _with_member(machine: Machine, path: str) -> Machine:
    """The machine, written out where `path` names one member of a class of equal parts."""
    section, _, rest = path.partition(".")
    if not machine.replicate or section not in ("nodes", "links"):
        return machine
    classes = machine.nodes if section == "nodes" else machine.links
    if any(rest.startswith(f"{name}.") for name in classes):
        return machine
    members = all_names(machine)[0 if section == "nodes" else 1]
    joined = section == "links" and any(a == b for a, b in (x.ends for x in machine.links.values()))
    if not joined and not any(rest.startswith(f"{name}.") for name in members):
        return machine
    try:
        return written_out(machine)
    except InfeasibleError as error:
        raise _RefusedError(error.message, error.hint) from error


def _fail(machine: Machine, name: str, text: str) -> Machine:
    """The machine without the link where `text` says that it failed."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _RefusedError(f'"{text}" is neither true nor false', "write true where it failed")
    if word == "false":
        return machine
    links = {other: link for other, link in machine.links.items() if other != name}
    return machine.model_copy(update={"links": links})


def failed_links(machine: Machine) -> tuple[str, ...]:
    """The links that were taken out as failed, in the order in which they were given."""
    source = machine.sources.get(SOURCE)
    notes = (source.note or "").split(", ") if source else []
    ending = f".{FAILED}=true"
    failed = [note for note in notes if note.startswith("links.") and note.lower().endswith(ending)]
    return tuple(note[len("links.") : -len(ending)] for note in failed)


def _set(machine: Machine, path: str, text: str) -> Machine:
    steps = _resolve(machine, path)
    if steps[0] == "links" and steps[2:] == (FAILED,):
        return _fail(machine, steps[1], text)
    if steps[0] == "replicate" and text.strip().isdecimal() and len(text) <= DIGITS:
        if int(text) < 1:
            raise _RefusedError("a machine has one part at the least", "write 1 or more")
        text = f"0..{int(text) - 1}"
    if steps[0] == "links" and steps[2:] == ("rate",):
        link = machine.links[steps[1]]
        for way in ("forward", "backward"):
            if getattr(link, way) is not None:
                machine = _set_rate(machine, steps[1], way, text)
        return machine
    if steps[0] == "links" and steps[2:] in (("forward", "rate"), ("backward", "rate")):
        return _set_rate(machine, steps[1], steps[2], text)
    return _set_scalar(machine, steps, text)


def _children(thing: Any) -> dict[str, Any]:
    """What can be named inside `thing`, by its word in the file."""
    if isinstance(thing, BaseModel):
        fields = type(thing).model_fields
        return {info.alias or name: getattr(thing, name) for name, info in fields.items()}
    return dict(thing) if isinstance(thing, Mapping) else {}


def _resolve(machine: Machine, path: str) -> tuple[str, ...]:
    """The steps of a key path. Names may have dots in them (`node3.gpu0`): the longest wins."""
    thing: Any = machine
    rest = path
    steps: list[str] = []
    while rest:
        if thing is None:
            raise _RefusedError(f"{'.'.join(steps)} is not part of this machine")
        children = _children(thing)
        if len(steps) == 2 and steps[0] == "links":
            children |= {"rate": None, FAILED: None}  # of both directions
        fitting = [name for name in children if f"{rest}.".startswith((f"{name}.", f"{name}["))]
        if not fitting:
            word = rest.split(".")[0]
            inside = ".".join(steps) or "the machine"
            listed = ", ".join(children)
            near = nearest_of(word, children)
            nothing = "it is a single value"
            if isinstance(thing, Mapping):
                nothing = f"this machine has nothing under {inside}"
            if steps == ["replicate"]:
                nothing = "only a machine file with replicate: has equal parts to count"
            raise _RefusedError(
                f'{inside} has no "{word}"', near or (f"it has: {listed}" if listed else nothing)
            )
        name = max(fitting, key=len)
        steps.append(name)
        holder, thing, rest = thing, children[name], rest[len(name) + 1 :]
        kind = _kind(holder, name)
        if kind is tuple or (kind is dict and thing is None and not rest):
            what = "a list" if kind is tuple else "a block that this machine does not have"
            raise _RefusedError(
                f"{'.'.join(steps)} is {what}, an override sets one value", _IN_A_FILE
            )
    if not steps:
        raise _RefusedError("an override needs a key path", "like links.pcie0.rate=22GB/s")
    if isinstance(thing, (BaseModel, Mapping)):
        raise _RefusedError(
            "this is a whole block, an override sets one value",
            f"name one of: {', '.join(_children(thing))}" if _children(thing) else _IN_A_FILE,
        )
    return tuple(steps)


def _kind(holder: Any, name: str) -> type | None:
    """`tuple` for a list, `dict` for a block of keys, as the schema has it: also where none is."""
    fields = type(holder).model_fields if isinstance(holder, BaseModel) else {}
    for key, info in fields.items():
        if name == (info.alias or key):
            return next(filter(None, map(_shape, _parts(info.annotation))), None)
    return None


def _parts(annotation: Any) -> tuple[Any, ...]:
    """What a value may be: the members of a union, or the one type."""
    members = () if get_origin(annotation) in (tuple, dict) else get_args(annotation)
    return members or (annotation,)


def _shape(annotation: Any) -> type | None:
    if get_origin(annotation) is tuple:
        return tuple
    is_block = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return dict if is_block else None


def _set_rate(machine: Machine, name: str, way: str, text: str) -> Machine:
    link = machine.links[name]
    direction: Direction | None = getattr(link, way)
    if direction is None:  # `_resolve` has found the direction
        return machine
    # What was measured keeps its source, and so its spread; only the capacity is assumed now.
    measured = direction.source or link.source or next(iter(machine.sources))
    curves = {
        key: curve if curve.source else curve.model_copy(update={"source": measured})
        for key, curve in direction.curves.items()
    }
    direction = direction.model_copy(update={"curves": curves})
    changed = link.model_copy(update={way: at_rate(direction, _rate(text, direction.rate))})
    return machine.model_copy(update={"links": {**machine.links, name: changed}})


def _rate(text: str, present: float) -> float:
    """Bytes/s of a new rate, given itself (`22GB/s`) or by the present one (`0.5x`, `50%`)."""
    word = text.rstrip()
    try:
        if word.endswith("%"):
            rate = present * parse_share(text)
        else:
            rate = present * parse_factor(text) if word.endswith("x") else parse_rate(text)
    except UnitError as error:
        raise _RefusedError(error.message, error.suggestion) from error
    if rate <= 0:
        raise _RefusedError(
            "a rate is above 0",
            "leave the direction out of the machine, or the link by .failed=true",
        )
    return rate


def at_rate(direction: Direction, rate: float) -> Direction:
    """The direction on a wire of another `rate` (bytes/s), with its curves moved along."""
    scale = rate / direction.rate
    curves: dict[str, Curve] = {}
    for name, curve in direction.curves.items():
        new = min(curve.rate, rate) if name in _CPU_BOUND else curve.rate * scale
        curves[name] = curve if new == curve.rate else curve.at_rate(new)
    return direction.model_copy(update={"rate": rate, "curves": curves, "source": SOURCE})


def _set_scalar(machine: Machine, steps: Sequence[str], text: str) -> Machine:
    """Any other value: written into the tree of the machine, and the whole validated again."""
    tree = machine.model_dump(by_alias=True)
    block = tree
    for step in steps[:-1]:
        block = block[step]
    block[steps[-1]] = text
    try:
        return Machine.model_validate(tree)
    except ValidationError as error:
        faults = Written(file="override", lines=[], tree=tree).of_validation(error)
        if not faults:
            cause = error.errors()[0].get("ctx", {}).get("error")
            raise _RefusedError(str(cause)) from error
        raise _RefusedError(faults[0].message, faults[0].suggestion) from error
