"""`--set key=value`: one variable, one key of the plan or one figure of the machine, changed.

A bare name is a variable (or a plain key of the plan, such as `machine`); a dotted path is a key
of the plan; `links.…` and `nodes.…` are kept for the machine. A value in brackets or braces reads
as YAML, any other is taken as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from planner.errors import Fault
from planner.plan.tree import Entry, Items, Node, Place, Scalar, SourceText, Table
from planner.plan.yaml_nodes import NotReadableError, read_nodes

MACHINE_PARTS: Final = ("links", "nodes")
"""First words of a setting that changes the machine, not the plan."""

_SECTIONS: Final = ("vars", "flows", "compute", "objectives", "budget", "matrix")
_SINGLE: Final = ("machine", "name", "description", "version")
_NAMED: Final = {"flows": "flow", "compute": "compute block", "vars": "variable"}
_STEP: Final = re.compile(r"[^.\[\]]+")


class UnknownSettingError(ValueError):
    """A setting that names nothing; carries the message and the suggestion."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def apply_settings(
    root: Table, settings: Sequence[str]
) -> tuple[Table, dict[str, str], list[Fault]]:
    """`root` with `settings` put in, the overrides for the machine, and the faults."""
    overrides: dict[str, str] = {}
    faults: list[Fault] = []
    for setting in settings:
        place = Place(SourceText(f"--set {setting}", Path()))
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not key:
            faults.append(place.fault("", "a setting is key=value", "write --set weights=70GB"))
            continue
        try:
            if key.split(".", 1)[0] in MACHINE_PARTS:
                overrides[_machine_key(key)] = text
            else:
                root = _set(root, _path(root, key), _value(text, place), place, "")
        except UnknownSettingError as error:
            faults.append(place.fault(key, error.message, error.suggestion))
        except NotReadableError as error:
            faults.append(place.fault(key, error.fault.message, error.fault.suggestion))
    return root, overrides, faults


def _machine_key(key: str) -> str:
    if key.count(".") < 2:
        raise UnknownSettingError(
            f'"{key}" names no figure of the machine', "write --set links.NAME.rate=25GB/s"
        )
    return key


def _value(text: str, place: Place) -> Node:
    if text[:1] not in ("[", "{"):
        return Scalar(text, place, plain=False)
    node, faults = read_nodes(text, place.source)
    if faults:
        raise NotReadableError(faults[0])
    return node if node is not None else Scalar(text, place, plain=False)


def _path(root: Table, key: str) -> list[str]:
    """The steps from the root to what `key` names."""
    steps = _STEP.findall(key)
    if len(steps) > 1:
        if steps[0] not in _SECTIONS:
            near = get_close_matches(steps[0], (*_SECTIONS, *MACHINE_PARTS), n=1)
            known = f"did you mean {near[0]}?" if near else f"use one of {', '.join(_SECTIONS)}"
            raise UnknownSettingError(f'the plan has no "{steps[0]}"', known)
        return steps
    variables = _names_in(root, "vars")
    if key in variables:
        return ["vars", key]
    if key in _SINGLE:
        return [key]
    near = get_close_matches(key, (*variables, *_SINGLE), n=1)
    known = f"did you mean {near[0]}?" if near else _listed("variable", variables)
    raise UnknownSettingError(f'the plan has no variable "{key}"', known)


def _names_in(root: Table, section: str) -> tuple[str, ...]:
    entry = root.entries.get(section)
    return tuple(entry.node.entries) if entry and isinstance(entry.node, Table) else ()


def _listed(kind: str, names: Sequence[str]) -> str:
    return f"the plan has {', '.join(names)}" if names else f"the plan has no {kind}"


def _set(node: Table, steps: Sequence[str], value: Node, place: Place, section: str) -> Table:
    """`node` with `value` at `steps` below it; names of flows and the like must be there."""
    step, rest = steps[0], steps[1:]
    known = node.entries.get(step)
    if section in _NAMED and known is None:
        near = get_close_matches(step, node.entries, n=1)
        hint = f"did you mean {near[0]}?" if near else _listed(_NAMED[section], [*node.entries])
        raise UnknownSettingError(f'the plan has no {_NAMED[section]} "{step}"', hint)
    new = value if not rest else _set_below(known.node if known else None, rest, value, place, step)
    entry = Entry(known.key if known and rest else place, new)
    return Table({**node.entries, step: entry}, node.place)


def _set_below(
    node: Node | None, steps: Sequence[str], value: Node, place: Place, section: str
) -> Node:
    if isinstance(node, Items):
        return _set_item(node, steps, value, place)
    if isinstance(node, Scalar) and not node.empty:
        raise UnknownSettingError(f'"{section}" holds one value, nothing below it', "set it whole")
    table = node if isinstance(node, Table) else Table({}, place)
    return _set(table, steps, value, place, section)


def _set_item(node: Items, steps: Sequence[str], value: Node, place: Place) -> Items:
    if not steps[0].isascii() or not steps[0].isdigit() or int(steps[0]) >= len(node.items):
        last = len(node.items) - 1
        raise UnknownSettingError(f'the list has no item "{steps[0]}"', f"it has items 0 to {last}")
    index, rest = int(steps[0]), steps[1:]
    new = _set_below(node.items[index], rest, value, place, steps[0]) if rest else value
    items = (*node.items[:index], new, *node.items[index + 1 :])
    return Items(items, node.place)
