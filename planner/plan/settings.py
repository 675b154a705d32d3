"""`--set key=value`: one variable, one key of the plan or one figure of the machine, changed.

A bare name is a variable (or a plain key of the plan, such as `machine`); a dotted path is a key
of the plan; `links.…` and `nodes.…` are kept for the machine. `nodes=16` (or `replicate.KEY=16`)
counts the machine's equal parts, and the flows of `for_each` with them. A bare `chunk`, `depth`,
`workers`, `strategy` or `cache` is that of every flow. A value in brackets or braces reads as YAML,
any other is taken as it stands.
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
from planner.wording import begun, quoted

MACHINE_PARTS: Final = ("links", "nodes")
"""First words of a setting that changes the machine, not the plan."""

COUNTED: Final = "replicate"
"""First word of a setting that counts equal parts, of the machine and of the flows."""

OF_FLOWS: Final = ("chunk", "depth", "workers", "strategy", "cache")
"""Keys of flows that a bare word sets in all of them, unless a variable has that name."""

_NODES: Final = "nodes"
_SECTIONS: Final = ("vars", "flows", "compute", "objectives", "budget", "matrix")
_SINGLE: Final = ("machine", "name", "description", "version")
_NAMED: Final = {"flows": "flow", "compute": "compute block", "vars": "variable"}
_STEP: Final = re.compile(r"[^.\[\]]+")
_COUNT: Final = re.compile(r"0*[1-9][0-9]{0,17}")


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
        place = Place(SourceText(f"--set {begun(setting)}", Path()))
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or not key:
            faults.append(place.fault("", "a setting is key=value", "write --set weights=70GB"))
            continue
        try:
            known = key in _names_in(root, "vars")
            first, dot, rest = key.partition(".")
            if not known and (first == COUNTED or key == _NODES):
                part = rest if dot else "node"
                root = _count(root, part, text, place)
                overrides[f"{COUNTED}.{part}"] = text
            elif dot and first in MACHINE_PARTS:
                overrides[_machine_key(key)] = text
            elif not known and key in OF_FLOWS:
                for flow in _names_in(root, "flows"):
                    root = _set(root, ["flows", flow, key], _value(text, place), place, "")
            else:
                root = _set(root, _path(root, key), _value(text, place), place, "")
        except UnknownSettingError as error:
            faults.append(place.fault(key, error.message, error.suggestion))
        except NotReadableError as error:
            faults.append(place.fault(key, error.fault.message, error.fault.suggestion))
    return root, overrides, faults


def _count(root: Table, part: str, text: str, place: Place) -> Table:
    """`root` with `text` many in every `for_each` that has the key `part`."""
    if not _COUNT.fullmatch(text):
        raise UnknownSettingError(
            f"{quoted(text)} is not a count", "write a whole number from 1 up"
        )
    values = Scalar(f"0..{int(text) - 1}", place, plain=False)
    flows = root.entries.get("flows")
    for name in _names_in(root, "flows"):
        flow = flows.node.entries[name].node if flows and isinstance(flows.node, Table) else None
        each = flow.entries.get("for_each") if isinstance(flow, Table) else None
        if each is not None and isinstance(each.node, Table) and part in each.node.entries:
            root = _set(root, ["flows", name, "for_each", part], values, place, "")
    return root


def _machine_key(key: str) -> str:
    if key.count(".") < 2:
        raise UnknownSettingError(
            f'"{key}" names no figure of the machine', "write --set links.NAME.rate=25GB/s"
        )
    return key


def split_values(text: str) -> object:
    """Plain data of the values behind `key=` of an axis: a list at commas, or a range in braces.

    Commas inside brackets, braces and quotes do not part.

    >>> split_values("1MiB, 16MiB"), split_values("[gpu0, gpu1],gpu2")
    (['1MiB', '16MiB'], ['[gpu0, gpu1]', 'gpu2'])
    >>> split_values("{from: 1, to: 8, times: 2}")
    {'from': '1', 'to': '8', 'times': '2'}
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    values = [part.strip() for part in parts]
    if len(values) == 1 and values[0].startswith("{"):
        node, _ = read_nodes(values[0], SourceText("", Path()))
        if isinstance(node, Table) and {"from", "to"} <= node.entries.keys():
            return {k: e.node.text for k, e in node.entries.items() if isinstance(e.node, Scalar)}
    return values


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
    near = get_close_matches(key, (*variables, *_SINGLE, *OF_FLOWS, _NODES), n=1)
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
