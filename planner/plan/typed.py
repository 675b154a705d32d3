"""Plain data into the typed parts of a plan, and the schema's complaints into plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import AliasChoices, ValidationError
from pydantic_core import ErrorDetails

from planner.plan.schema import LEAST_CHUNK, Budget, Flow, Pieces, Plan, Use, Written
from planner.plan.tree import child
from planner.units import format_size
from planner.wording import quoted

Part = TypeVar("Part", bound=Written)


class Complaint(NamedTuple):
    """A fault that knows its key path but not yet its place; `on_key` asks for the key's place."""

    path: str
    message: str
    suggestion: str | None = None
    on_key: bool = False


# What the loader fills in; nobody writes it.
_FILLED: Final = {
    Flow: ("files", "sink"),
    Plan: ("overrides", "source_file", "directory"),
}
_NESTED: Final[dict[str, type[Written]]] = {"budget": Budget, "use": Use, "pieces": Pieces}

# Words of other tools for our keys: too far apart for a comparison of letters.
_SYNONYMS: Final = {
    "src": "from",
    "dst": "to",
    "destination": "to",
    "bytes": "size",
    "path": "file",
    "files": "file",
    "depends_on": "after",
    "needs": "after",
    "iterations": "repeat",
    "count": "repeat",
    "threads": "workers",
    "block": "chunk",
    "bs": "chunk",
    "iodepth": "depth",
    "duration": "time",
    "device": "gpu",
    "slo": "objectives",
    "variables": "vars",
    "includes": "include",
    "title": "name",
}
_MACHINE_KEYS: Final = ("nodes", "links", "sources", "hardware")

_ARTICLES: Final[dict[type, str]] = {
    dict: "a mapping",
    list: "a list",
    tuple: "a list",
    str: "one value",
}
_EXPECTED: Final = {
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a name or a list of names",
    "list_type": "a list",
    "too_short": "a name or a list of names",
    "string_type": "one value",
    "int_type": "one value",
    "float_type": "one value",
}
_WRITE: Final = {
    "a mapping": "write lines of key: value below it",
    "a name or a list of names": "write it like [gpu0, gpu1]",
    "one value": "write it behind the key",
    "a list": "start each line below it with -",
}
_BOUNDS: Final = {
    "greater_than": ("gt", "above"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"),
    "less_than_equal": ("le", "at most"),
}
_QUOTED: Final = re.compile(r"'([^']*)'")


def written_keys(model: type[Written]) -> dict[str, str]:
    """The words that a person may write in a `model`, each with its field's name."""
    keys: dict[str, str] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if name in _FILLED.get(model, ()):
            continue
        words = alias.choices if isinstance(alias, AliasChoices) else (alias or name,)
        keys.update((str(word), name) for word in words)
    return keys


def unknown_keys(data: dict[str, Any], model: type[Written], path: str) -> Iterator[Complaint]:
    """Take every key out of `data` that `model` does not have, and complain of each."""
    known = written_keys(model)
    for key in [key for key in data if key not in known]:
        del data[key]
        yield Complaint(child(path, key), f'unknown key "{key}"', _nearest(key, known), on_key=True)
    yield from _said_twice(data, known, path)
    for key, nested in _NESTED.items():
        if key in known and isinstance(data.get(key), dict):
            yield from unknown_keys(data[key], nested, child(path, key))


def _said_twice(data: dict[str, Any], known: Mapping[str, str], path: str) -> Iterator[Complaint]:
    """Take the second of two words for one thing out of `data`, and complain of it."""
    said: dict[str, str] = {}
    for key in list(data):
        first = said.setdefault(known[key], key)
        if first != key:
            del data[key]
            message = f'says what "{first}" says already'
            yield Complaint(child(path, key), message, "keep one of the two", on_key=True)


def _nearest(key: str, known: Mapping[str, str]) -> str:
    if key in _MACHINE_KEYS and "machine" in known:
        return "that belongs in a machine file; name it with machine:"
    synonym = _SYNONYMS.get(key.lower())
    near = [synonym] if synonym in known else get_close_matches(key, known, n=1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"


def build(model: type[Part], data: object, path: str) -> tuple[Part | None, list[Complaint]]:
    """The `model` that `data` describes, or None and what is wrong with it.

    Takes unknown keys out of `data`, so that they are reported once.
    """
    if not isinstance(data, dict):
        return None, [_wrong_shape(path, data, "a mapping")]
    complaints = list(unknown_keys(data, model, path))
    try:
        part = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        return None, [*complaints, *_translated(error, model, path)]
    return (None if complaints else part), complaints


def _translated(error: ValidationError, model: type[Written], path: str) -> Iterator[Complaint]:
    """One complaint a value: of a choice of types, all of which failed, the first one speaks."""
    seen: set[str] = set()
    for details in error.errors(include_url=False):
        if details["type"] == "too_short" and details["input"]:
            continue  # its items have faults of their own
        where = _path(details, path)
        value = child(where, str(details["loc"][-1])) if details["type"] == "missing" else where
        if value not in seen:
            seen.add(value)
            yield _complaint(details, model, where)


def _path(details: ErrorDetails, path: str) -> str:
    """The key path of the value at fault; parts of `loc` that name a type are left out."""
    value_is_missing = details["type"] == "missing"
    for part in details["loc"][: -1 if value_is_missing else None]:
        if isinstance(part, str) and ("[" in part or part in ("str", "dict", "float")):
            break
        path = child(path, part)
    return path


def _complaint(details: ErrorDetails, model: type[Written], path: str) -> Complaint:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "missing":
        key = str(details["loc"][-1])
        return Complaint(path, f'needs "{key}"', _example(model, key), on_key=True)
    if kind in _EXPECTED:
        return _wrong_shape(path, value, _EXPECTED[kind])
    if kind == "literal_error":
        choices = _QUOTED.findall(str(context.get("expected", "")))
        return Complaint(path, *_bad_choice(value, choices))
    if kind.startswith("bool_"):
        return Complaint(
            path, f"{quoted(str(value))} is neither true nor false", "write one of them"
        )
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        limit = context[bound]
        # Only sizes have bounds as large as a page; people write them with a unit.
        told = format_size(limit) if limit >= LEAST_CHUNK else f"{limit:g}"
        return Complaint(path, f"must be {words} {told}")
    return refused(path, context.get("error", "is not what belongs here"))


def refused(path: str, cause: object) -> Complaint:
    """The complaint of a parser's error, which may carry a message and a suggestion."""
    return Complaint(
        path, getattr(cause, "message", str(cause)), getattr(cause, "suggestion", None)
    )


def _wrong_shape(path: str, value: object, expected: str) -> Complaint:
    found = "nothing" if value in ("", (), []) else _ARTICLES.get(type(value), "a number")
    return Complaint(path, f"needs {expected}, found {found}", _WRITE.get(expected), on_key=True)


def _bad_choice(value: object, choices: list[str]) -> tuple[str, str]:
    if not isinstance(value, str):
        return f"needs one of {', '.join(choices)}", "write one word"
    near = get_close_matches(value, choices, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use {' or '.join(choices)}"
    return f"{quoted(str(value))} is not one of {', '.join(choices)}", hint


def _example(model: type[Written], key: str) -> str | None:
    """How to write the missing key, from the examples of the schema."""
    field = model.model_fields.get(written_keys(model).get(key, ""))
    examples = field.examples if field is not None else None
    return f"write {key}: {examples[0]}" if examples else f"add {key}:"
