"""What differs between two documents: plans, or machines, as their JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.results.diff import Difference

# Where a plan lies, and texts beside its typed values: no change of what is to be done.
_NOT_OF_THE_PLAN: Final = frozenset({"source_file", "directory", "include", "description"})
_KEYED: Final = {"objectives": "text"}
"""Lists that are known by a key of their members, not by their position."""


def plan_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    """What the plan B says differently from the plan A, by key path."""
    return _differences(*(_without(plan, _NOT_OF_THE_PLAN) for plan in (before, after)))


def machine_differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Difference, ...]:
    """What machine B has differently from machine A, by key path: `links.pcie0.forward.rate`."""
    return _differences(before, after)


def _without(document: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in names}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    return tuple(_walk("", before, after))


def _walk(path: str, before: Any, after: Any) -> Iterator[Difference]:
    """The leaves that differ, in the order of A, then what only B has."""
    if before == after:
        return
    before, after = _by_key(path, before), _by_key(path, after)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            inner = f"{path}.{key}" if path else str(key)
            if key not in before:
                yield from _lone(inner, after[key], "added")
            elif key not in after:
                yield from _lone(inner, before[key], "removed")
            else:
                yield from _walk(inner, before[key], after[key])
        return
    yield Difference(path=path, kind="changed", before=_leaf(before), after=_leaf(after))


def _by_key(path: str, value: Any) -> Any:
    key = _KEYED.get(path)
    if key is None or not isinstance(value, list | tuple):
        return value
    return {str(item.get(key) if isinstance(item, Mapping) else item): item for item in value}


def _lone(path: str, value: Any, kind: Any) -> Iterator[Difference]:
    """A part that only one of them has: one difference, however much is in it."""
    side = "after" if kind == "added" else "before"
    yield Difference(path=path, kind=kind, **{side: _leaf(value)})


def _leaf(value: Any) -> Any:
    """A scalar as it is; lists of scalars as text; of anything longer its kind or its length."""
    if isinstance(value, Mapping):
        kind = value.get("kind")
        return kind if isinstance(kind, str) else None
    if isinstance(value, Sequence) and not isinstance(value, str):
        flat = all(not isinstance(item, Mapping | list | tuple) for item in value)
        return ", ".join(map(str, value)) if flat and len(value) <= 8 else f"{len(value)} entries"
    return value
