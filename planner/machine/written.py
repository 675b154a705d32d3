"""A machine file as it was written: nested text, and where each piece of it stands.

`Written` turns what pydantic and the name check complain of into faults with a position, in words
that a person who wrote YAML understands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from planner.errors import Fault
from planner.machine.curve import Curve, Point
from planner.machine.names import NameFault, UnknownNamesError
from planner.machine.reads import ReadTable
from planner.machine.schema import (
    Direction,
    Disk,
    Hbm,
    Link,
    Machine,
    Nic,
    Port,
    Provenance,
    Ram,
    Remote,
    Setup,
)
from planner.machine.tables import CopyTable
from planner.quantities import Quantity
from planner.units import UnitError
from planner.wording import quoted

Path = tuple[str | int, ...]

_NODES: Final[dict[str, type[BaseModel]]] = {
    "disk": Disk,
    "ram": Ram,
    "hbm": Hbm,
    "nic": Nic,
    "remote": Remote,
}
_SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "sources": Provenance,
    "links": Link,
    "ports": Port,
    "curves": Curve,
    "copy": CopyTable,
}
_PARTS: Final[dict[str, type[BaseModel]]] = {
    "forward": Direction,
    "backward": Direction,
    "setup": Setup,
    "local": Curve,
    "allocate": Curve,
    "readers": ReadTable,
    "register_ahead": Curve,
    "register_helped": Curve,
    "register_memory": Curve,
    "managed_touch": Curve,
    "managed_fill": Curve,
    "managed_map": Curve,
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a piece of the text starts (lines and columns count from 1) and how long it is."""

    line: int
    column: int
    span: int


@dataclass(slots=True)
class Written:
    """The text of one file: `tree` with every scalar as text, and the marks of keys and values."""

    file: str
    lines: list[str]
    tree: Any = None
    keys: dict[Path, Mark] = field(default_factory=dict)
    values: dict[Path, Mark] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(
        self,
        path: Path,
        message: str,
        suggestion: str | None = None,
        *,
        at_key: bool = False,
        mark: Mark | None = None,
    ) -> Fault:
        """A fault at `path`, placed at its value (or key), else at the nearest thing around it."""
        if mark is None:
            nearest = path
            # What is wrong with a whole block is marked at the key above it.
            at_key = at_key or isinstance(self.at(path), dict)
            places = self.keys if at_key else self.values
            while nearest and nearest not in places:
                nearest, places = nearest[:-1], self.keys
            mark = places.get(nearest) or self.values.get(()) or Mark(1, 1, 1)
        excerpt = self.lines[mark.line - 1] if mark.line <= len(self.lines) else None
        return Fault(
            file=self.file,
            line=mark.line,
            column=mark.column,
            path=spelled(path),
            message=message,
            suggestion=suggestion,
            excerpt=excerpt,
            span=mark.span,
        )

    def at(self, path: Path) -> Any:
        """The raw value at `path`, `None` where nothing is written."""
        value = self.tree
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def of_names(self, faults: Iterable[NameFault]) -> list[Fault]:
        """Unknown names, with their position and the nearest right name."""
        found = []
        for name in faults:
            suggestion = nearest_of(name.given, name.choices)
            if suggestion is None:
                listed = ", ".join(name.choices)
                suggestion = (
                    f"use one of: {listed}" if listed else f'write an entry "{name.given}" first'
                )
            found.append(self.fault(name.path, name.message, suggestion))
        return found

    def of_validation(self, error: ValidationError) -> list[Fault]:
        """What the schema refused, in file order; names are left to `of_names`."""
        found: dict[tuple[Path, str], Fault] = {}
        for detail in error.errors():
            if not isinstance(_cause(detail), UnknownNamesError):
                path = self._path(detail["loc"])
                fault = self._of_detail(path, detail)
                found.setdefault((path, fault.message), fault)
        return list(found.values())

    def _path(self, loc: tuple[int | str, ...]) -> Path:
        """Pydantic's location without what is not written: union tags and the parts of a row."""
        path: Path = ()
        for i, step in enumerate(loc):
            value = self.at(path)
            if isinstance(value, list) and step in ("size_bytes", "seconds"):
                path = (*path, ("size_bytes", "seconds").index(str(step)))
            elif step == "[key]":
                continue
            elif isinstance(value, dict) and step not in value and i < len(loc) - 1:
                continue  # the tag of a node's kind
            else:
                path = (*path, step)
        return path

    def _of_detail(self, path: Path, detail: ErrorDetails) -> Fault:
        """The fault of one complaint: about a key that is missing or unknown, or about a value."""
        kind = detail["type"]
        if kind == "extra_forbidden":
            model = self._model(path[:-1])
            known = _words(model) if model else []
            suggestion = nearest_of(str(path[-1]), known) or f"known keys: {', '.join(known)}"
            return self.fault(path, f'unknown key "{path[-1]}"', suggestion, at_key=True)
        if kind == "missing" and isinstance(path[-1], int):
            return self.fault(path[:-1], f"this list has no entry {path[-1] + 1}")
        if kind == "missing":
            suggestion = _how_to_add(self._model(path[:-1]), str(path[-1]))
            message = f'the key "{path[-1]}" is missing'
            return self.fault(path, message, suggestion, at_key=True)
        if kind.startswith("union_tag"):
            return self._of_kind((*path, "kind"))
        at_key = detail["loc"][-1:] == ("[key]",)
        return self.fault(
            path, *_of_value(detail, self.at(path), self._quantity(path)), at_key=at_key
        )

    def _quantity(self, path: Path) -> Quantity | None:
        """The quantity that belongs at `path`; of a list, that of each item in it."""
        block = path
        while block and isinstance(block[-1], int):
            block = block[:-1]
        model, key = self._model(block[:-1]), str(block[-1]) if block else ""
        if key == "points" and len(path) == len(block) + 2:  # a row [size, time]
            model, key = Point, list(Point.model_fields)[int(path[-1])]
        info = _field(model, key)
        return None if info is None else _quantity_of(info.annotation, info.metadata)

    def _of_kind(self, path: Path) -> Fault:
        """A node whose kind is missing or unknown, so that nothing more can be said of it."""
        given = self.at(path)
        if given is None:
            listed = f"one of: {', '.join(_NODES)}"
            return self.fault(path, 'the key "kind" is missing', listed, at_key=True)
        return self.fault(path, *_not_one_of(given, list(_NODES)))

    def _model(self, path: Path) -> type[BaseModel] | None:
        """The part of the schema that is written at `path`."""
        if not path:
            return Machine
        if len(path) >= 2 and path[-2] == "nodes":
            return _NODES.get(str((self.at(path) or {}).get("kind")))
        if len(path) >= 2 and path[-2] == "points":
            return Point
        if len(path) >= 2 and path[-2] in _SECTIONS:
            return _SECTIONS[str(path[-2])]
        return _PARTS.get(str(path[-1]))


def spelled(path: Path) -> str:
    """A key path as people write it: `links.pcie0.forward.curves.pinned.points[3]`.

    >>> spelled(("nodes", "gpu0", "rows", 3))
    'nodes.gpu0.rows[3]'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def nearest_of(given: str, choices: Iterable[str]) -> str | None:
    """A question for the choice most like `given`, or `None` where none is near."""
    close = get_close_matches(given, list(choices), n=1, cutoff=0.6)
    return f'did you mean "{close[0]}"?' if close else None


def _not_one_of(given: Any, choices: list[str]) -> tuple[str, str]:
    suggestion = nearest_of(str(given), choices)
    return (
        f"{quoted(str(given))} is not known here",
        suggestion or f"use one of: {', '.join(choices)}",
    )


def _of_value(
    detail: ErrorDetails, given: Any, quantity: Quantity | None
) -> tuple[str, str | None]:
    """What is wrong with a value, and what to write instead where that is known."""
    if detail["type"] == "literal_error":
        expected = str(detail.get("ctx", {}).get("expected", "")).replace(" or ", ", ")
        return _not_one_of(detail["input"], [word.strip(" '") for word in expected.split(",")])
    cause = _cause(detail)
    if isinstance(cause, UnitError):
        return cause.message, cause.suggestion
    return (_plain(detail, given, quantity) if cause is None else str(cause)), None


def _field(model: type[BaseModel] | None, key: str) -> FieldInfo | None:
    """The field that is written as `key`."""
    fields = model.model_fields if model else {}
    return next((info for name, info in fields.items() if key in (name, info.alias)), None)


def _quantity_of(annotation: Any, metadata: Iterable[Any] = ()) -> Quantity | None:
    """The quantity of a field, looked for in unions and lists, too."""
    details = (*metadata, *getattr(annotation, "__metadata__", ()))
    own = next((detail for detail in details if isinstance(detail, Quantity)), None)
    return own or next(filter(None, map(_quantity_of, get_args(annotation))), None)


def _how_to_add(model: type[BaseModel] | None, key: str) -> str:
    """The line to write for a missing key, with a value of its kind where one tells it."""
    info = _field(model, key)
    metadata = info.metadata if info else []
    examples = [detail.example for detail in metadata if isinstance(detail, Quantity)]
    examples += [str(detail.ge) for detail in metadata if hasattr(detail, "ge")]
    return f"add {key}: {examples[0]}" if examples else f"add {key}:"


def _words(model: type[BaseModel]) -> list[str]:
    """The keys of a model as they are written in a file."""
    return [info.alias or name for name, info in model.model_fields.items()]


def _cause(detail: ErrorDetails) -> Exception | None:
    cause = detail.get("ctx", {}).get("error")
    return cause if isinstance(cause, Exception) else None


_BOUNDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "greater_than": lambda c: f"above {c['gt']:g}",
    "greater_than_equal": lambda c: f"at least {c['ge']:g}",
    "less_than": lambda c: f"below {c['lt']:g}",
    "less_than_equal": lambda c: f"at most {c['le']:g}",
}
_WANTED: Final[Mapping[str, str]] = {
    "int": "a whole number, like 8,",
    "float": "a number, like 0.02,",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "one line of text",
    "list": "a list: [ … ]",
    "tuple": "a list: [ … ]",
    "dict": "a block of keys",
    "model": "a block of keys",
}


def _plain(detail: ErrorDetails, given: Any, quantity: Quantity | None) -> str:
    """What pydantic says of a value, without its words for types."""
    shown = quoted(given) if isinstance(given, str) else "this"
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in _BOUNDS:
        return f"{shown} must be {_BOUNDS[kind](context)}"
    if kind in ("too_short", "string_too_short"):
        return "this must not be empty"
    if kind == "too_long":
        return f"this list has more than {context['max_length']} entries"
    basic = kind.split("_")[0]
    wanted = _WANTED.get(basic)
    if quantity is not None and basic in ("int", "float"):  # only the parser knows its kind
        wanted = f"{quantity.kind}, like {quantity.example},"
    if wanted:
        return f"{'nothing' if given is None else shown} is written where {wanted} belongs"
    return f"{shown} is refused: {detail['msg'].lower()}"
