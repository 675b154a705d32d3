"""Variables: `$name` anywhere in a value stands for `vars.name`; `$$` is a dollar sign."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from planner.errors import Fault
from planner.plan.tree import Entry, Items, Node, Place, Scalar, Table, child
from planner.wording import quoted

NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOLLAR: Final = re.compile(r"\$(?P<name>[A-Za-z_]\w*|\$)?", re.ASCII)

DEEPEST: Final = 50
"""Variables within variables that are followed: no plan needs so many, and each takes stack."""

LONGEST: Final = 65_536
"""Characters a substituted value may have: variables that double each other grow without end."""


def substitute(root: Table) -> tuple[Table, list[Fault]]:
    """`root` with every variable put in, those within `vars` too, and the faults found."""
    variables = _Variables(root)
    entries = {
        key: Entry(entry.key, variables.fill(entry.node, key))
        for key, entry in root.entries.items()
        if key != "vars"
    }
    if variables.resolved is not None:
        entries["vars"] = Entry(root.entries["vars"].key, variables.resolved)
    return Table(entries, root.place), variables.faults


class _Variables:
    """The values of `vars`, each resolved once, with the faults met on the way."""

    def __init__(self, root: Table) -> None:
        self.faults: list[Fault] = []
        self._written: dict[str, Entry] = {}
        self._values: dict[str, str | None] = {}
        entry = root.entries.get("vars")
        if entry is not None and isinstance(entry.node, Table):
            for name, variable in entry.node.entries.items():
                self._admit(name, variable)
        values = {
            name: Entry(variable.key, self._scalar_of(name, variable))
            for name, variable in self._written.items()
        }
        written = None if entry is None else entry.node
        self.resolved = Table(values, written.place) if isinstance(written, Table) else written

    def _admit(self, name: str, entry: Entry) -> None:
        """Take a variable in, unless its name or its value cannot be one."""
        path = child("vars", name)
        self._written[name] = entry
        if NAME.fullmatch(name) is None:
            self._values[name] = None
            self.faults.append(
                entry.key.fault(
                    path,
                    f"{quoted(name)} is not a name for a variable",
                    "use letters, digits and _",
                )
            )
        elif not isinstance(entry.node, Scalar):
            self._values[name] = None
            self.faults.append(
                entry.key.fault(path, "a variable holds one value", f"write {name}: 14GB")
            )

    def _scalar_of(self, name: str, entry: Entry) -> Scalar:
        value = self._value(name, (), None)
        return Scalar(value if value is not None else "", entry.node.place, plain=False)

    def fill(self, node: Node, path: str) -> Node:
        """`node` with every variable put in; depth is bounded by the reader."""
        if isinstance(node, Scalar):
            return self._fill_scalar(node, path)
        if isinstance(node, Items):
            items = tuple(self.fill(item, child(path, i)) for i, item in enumerate(node.items))
            return Items(items, node.place)
        entries = {
            key: Entry(entry.key, self.fill(entry.node, child(path, key)))
            for key, entry in node.entries.items()
        }
        return Table(entries, node.place)

    def _fill_scalar(self, scalar: Scalar, path: str) -> Scalar:
        if "$" not in scalar.text:
            return scalar
        text = self._expand(scalar.text, scalar.place, path, ())
        used = tuple(
            (name, self._written[name].node.place)
            for name in dict.fromkeys(match["name"] for match in _DOLLAR.finditer(scalar.text))
            if name in self._written
        )
        if text is None:
            return Scalar(scalar.text, scalar.place, broken=True)
        return Scalar(text, scalar.place, scalar.plain, used)

    def _expand(self, text: str, place: Place, path: str, within: tuple[str, ...]) -> str | None:
        """`text` filled in, or None when a variable in it has no value."""
        parts: list[str] = []
        end = 0
        whole = True
        for match in _DOLLAR.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            name = match["name"]
            if name == "$":
                parts.append("$")
                continue
            value = self._named(name, text, place, path, within)
            whole = whole and value is not None
            parts.append(value or "")
        parts.append(text[end:])
        filled = "".join(parts)
        if len(filled) > LONGEST:
            self.faults.append(
                place.fault(
                    path,
                    f"the value is longer than {LONGEST} characters",
                    "shorten the variables in it",
                )
            )
            return None
        return filled if whole else None

    def _named(
        self, name: str | None, text: str, place: Place, path: str, within: tuple[str, ...]
    ) -> str | None:
        if name is None:
            self.faults.append(
                place.fault(
                    path, f"{quoted(text)} has a lone $", "write $name, or $$ for a dollar sign"
                )
            )
            return None
        if name not in self._written:
            near = get_close_matches(name, self._written, n=1)
            known = f"did you mean ${near[0]}?" if near else "add it under vars"
            self.faults.append(place.fault(path, f"there is no variable ${name}", known))
            return None
        return self._value(name, within, place)

    def _value(self, name: str, within: tuple[str, ...], place: Place | None) -> str | None:
        """The value of variable `name`, with its own variables filled in."""
        if name in within:
            self._report_cycle(name, within, place)
            return None
        if len(within) >= DEEPEST:
            self.faults.append(
                self._written[name].key.fault(
                    child("vars", name),
                    f"the variables are nested more than {DEEPEST} deep",
                    "write the value itself",
                )
            )
            return None
        node = self._written[name].node
        if name not in self._values and isinstance(node, Scalar):
            value = self._expand(node.text, node.place, child("vars", name), (*within, name))
            self._values.setdefault(name, value)
        return self._values.get(name)

    def _report_cycle(self, name: str, within: tuple[str, ...], place: Place | None) -> None:
        """One fault a cycle: its members get no value, so nothing walks it again."""
        cycle = within[within.index(name) :]
        for member in cycle:
            self._values[member] = None
        shown = " -> ".join(f"${member}" for member in (*cycle, name))
        where = place if place is not None else self._written[name].key
        self.faults.append(
            where.fault(
                child("vars", cycle[-1]),
                f"the variables go round in a circle: {shown}",
                f"give ${cycle[-1]} a value without them",
            )
        )
