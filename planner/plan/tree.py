"""What the reader of YAML hands to the loader: text, lists and mappings that know their place.

Nothing here has a type yet: every scalar is text, so no word of a person turns into a boolean or
a clock time on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from planner.errors import Fault


@dataclass(frozen=True, slots=True)
class SourceText:
    """One text that values come from: a file and its lines, or a setting of the command line.

    `name` is what a fault shows; `folder` is what relative paths in this text start from.
    """

    name: str
    folder: Path
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is written; line and column count from 1, and 0 is nowhere in the text."""

    source: SourceText
    line: int = 0
    column: int = 0
    span: int = 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}" if self.line else self.source.name

    def fault(self, path: str, message: str, suggestion: str | None = None) -> Fault:
        """A fault at this place."""
        lines = self.source.lines
        excerpt = lines[self.line - 1] if 0 < self.line <= len(lines) else None
        return Fault(
            file=self.source.name,
            line=self.line,
            column=self.column,
            path=path,
            message=message,
            suggestion=suggestion,
            excerpt=excerpt,
            span=self.span,
        )


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value, as text.

    `plain` tells an unquoted value, `variables` says where the `$names` in it are set, and
    `broken` marks a value whose variable has a fault of its own: nothing more is said about it.
    """

    text: str
    place: Place
    plain: bool = True
    variables: tuple[tuple[str, Place], ...] = ()
    broken: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing at all is written here, as after a lone `key:`."""
        return self.plain and not self.text


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Entry:
    """The value of one key of a mapping, and where the key stands."""

    key: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping, its keys in the order of the file."""

    entries: dict[str, Entry]
    place: Place


Node: TypeAlias = Scalar | Items | Table


@dataclass(slots=True)
class Positions:
    """Where the value, and where the key, of each key path stands (`flows.weights.size`)."""

    values: dict[str, Place] = field(default_factory=dict)
    keys: dict[str, Place] = field(default_factory=dict)
    variables: dict[str, tuple[tuple[str, Place], ...]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def nearest(self, path: str) -> Place | None:
        """The place of `path`, or of the nearest key above it that is written down."""
        for candidate in _upwards(path):
            place = self.values.get(candidate)
            if place is not None:
                return place
        return None


def child(path: str, key: str | int) -> str:
    """The key path of `key` below `path`: `flows.weights`, `objectives[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _upwards(path: str) -> Iterator[str]:
    """`path` and every shorter path that may be above it, down to the empty one."""
    yield path
    for end in range(len(path) - 1, 0, -1):
        if path[end] in ".[":
            yield path[:end]
    yield ""
