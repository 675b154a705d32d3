"""YAML text into nodes with places, by events: nothing is constructed and no type is guessed.

The parser's events are put together here, without recursion and with limits, so that neither deep
nesting nor a pyramid of aliases can bring the program down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from planner.errors import Fault
from planner.plan.tree import Entry, Items, Node, Place, Scalar, SourceText, Table, child

DEEPEST: Final = 50
"""Levels of nesting that are read; the deepest key of a plan has 5."""

LARGEST: Final = 1_000_000
"""Values a file may hold once its aliases are followed: far above 10,000 flows of 20 keys."""

# The faster parser of the C library, where PyYAML was built with it; both give the same events.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2 section 5.1 lists the characters that a text may hold; this is everything else.
_FORBIDDEN: Final = (
    "[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)

_PLAIN_TAGS: Final = ("!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq")))

# What the parser says, in other words; the first part found in its message decides.
_PLAINLY: Final = (
    ("mapping values are not allowed", "a colon is not allowed here", 'quote text with ": " in it'),
    ("could not find expected ':'", "this line has no colon", "write key: value"),
    ("expected ',' or '}'", "a , or } is missing", "close the { or quote text with { } in it"),
    ("expected ',' or ']'", "a , or ] is missing", "close the [ or quote text with [ ] in it"),
    ("expected <block end>", "the indentation does not fit", "align it with the lines above"),
    ("did not find expected key", "the indentation does not fit", "align it with the lines above"),
    ("expected '-' indicator", "a list item must start with -", "align it with the lines above"),
    ("undefined alias", "the alias names no anchor above it", "define it first, as &name"),
    ("cannot start any token", "this character cannot start a value", "put the value in quotes"),
    ("unknown escape character", "this is not an escape", "use single quotes, or \\\\"),
)


class NotReadableError(Exception):
    """The text is not the YAML of a plan; carries the one fault that stopped the reading."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class _Open:
    """A list or mapping that is still being read."""

    place: Place
    anchor: str | None
    table: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merged: list[Table] = field(default_factory=list)
    key: Scalar | None = None
    size: int = 1


def read_nodes(text: str, source: SourceText) -> tuple[Node | None, list[Fault]]:
    """The root node of `text` (None if it is empty) and the faults that did not stop the reading.

    Raises `NotReadableError` where the text is not YAML.
    """
    forbidden = _forbidden(text)
    if forbidden is not None:
        line = text.count("\n", 0, forbidden.start()) + 1
        column = forbidden.start() - (text.rfind("\n", 0, forbidden.start()) + 1) + 1
        code = f"U+{ord(forbidden[0]):04X}"
        raise NotReadableError(
            Place(source, line, column).fault(
                "", f"the character {code} is not allowed", "remove it"
            )
        )
    composer = _Composer(source)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        raise NotReadableError(_syntax_fault(error, source)) from error
    return composer.root, composer.faults


def _forbidden(text: str) -> re.Match[str] | None:
    """The first character of `text` that YAML does not allow, if there is one."""
    # To compile the pattern takes 5 ms. What Python calls printable is allowed, surely so in ASCII.
    if text.isascii() and all(line.isprintable() for line in text.split("\n")):
        return None
    return re.search(_FORBIDDEN, text)


def _syntax_fault(error: yaml.MarkedYAMLError, source: SourceText) -> Fault:
    """The parser's complaint at its place and in plain words."""
    said = f"{error.problem or ''} {error.context or ''}"
    started = _at(source, error.context_mark)
    place = _at(source, error.problem_mark or error.context_mark)
    line = source.lines[place.line - 1] if 0 < place.line <= len(source.lines) else ""
    if "cannot start any token" in said and line[place.column - 1 : place.column] == "\t":
        return place.fault("", "a tab cannot stand here", "indent with spaces")
    if "unexpected end of stream" in said and "quoted scalar" in said:
        return started.fault("", "the quotation mark is not closed", "close it with \" or '")
    for part, message, suggestion in _PLAINLY:
        if part in said:
            opened = f" after line {started.line}, column {started.column}"
            where = opened if "while parsing a flow" in said else ""
            return place.fault("", f"{message}{where}", suggestion)
    return place.fault("", f"this is not YAML: {error.problem or error.context}")


def _at(source: SourceText, mark: Any) -> Place:
    return Place(source) if mark is None else Place(source, mark.line + 1, mark.column + 1)


class _Composer:
    """Puts events together into nodes."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.root: Node | None = None
        self.faults: list[Fault] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(self._place(event), "a second document starts here", "one plan a file")

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        lines = self.source.lines
        width = len(lines[start.line].rstrip()) if start.line < len(lines) else start.column
        last = end.column if end.line == start.line else width
        return Place(self.source, start.line + 1, start.column + 1, max(last - start.column, 1))

    def _stop(self, place: Place, message: str, suggestion: str | None = None) -> NoReturn:
        raise NotReadableError(place.fault("", message, suggestion))

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.faults.append(place.fault("", f"the tag {tag} has no meaning here", "remove it"))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        scalar = Scalar(event.value, place, plain=not event.style)
        self._add(scalar, 1, event.anchor)

    def _start(self, event: Any) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        if len(self._open) >= DEEPEST:
            self._stop(place, f"nested more than {DEEPEST} deep", "no key of a plan is that deep")
        is_table = isinstance(event, yaml.MappingStartEvent)
        if self._open and self._open[-1].table and self._open[-1].key is None:
            self._stop(place, "a key must be text", "write key: value")
        self._open.append(_Open(place, event.anchor, is_table))

    def _end(self) -> None:
        done = self._open.pop()
        node: Node
        if done.table:
            entries = dict(done.entries)
            for table in done.merged:
                for key, entry in table.entries.items():
                    entries.setdefault(key, entry)
            node = Table(entries, done.place)
        else:
            node = Items(tuple(done.items), done.place)
        self._add(node, done.size, done.anchor)

    def _alias(self, event: Any) -> None:
        place = self._place(event)
        known = self._anchors.get(event.anchor)
        if known is None:
            self._stop(place, f"*{event.anchor} names no anchor above it", "define it first")
        self._add(known[0], known[1], None)

    def _add(self, node: Node, size: int, anchor: str | None) -> None:
        """Put a finished node where it belongs: the root, a list, a key or a value."""
        if anchor is not None:
            self._anchors[anchor] = (node, size)
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        parent.size += size
        if parent.size > LARGEST:
            self._stop(
                node.place,
                f"the aliases expand to more than {LARGEST} values",
                "write out what is meant, or take fewer",
            )
        if not parent.table:
            parent.items.append(node)
        elif parent.key is None:
            if not isinstance(node, Scalar):
                self._stop(node.place, "a key must be text", "write key: value")
            parent.key = node
        else:
            key, parent.key = parent.key, None
            self._entry(parent, key, node)

    def _entry(self, parent: _Open, key: Scalar, node: Node) -> None:
        if key.text == "<<" and key.plain:
            self._merge(parent, key, node)
            return
        first = parent.entries.get(key.text)
        if first is not None:
            self.faults.append(
                key.place.fault(
                    self._path(key.text),
                    f'"{key.text}" is given twice; first at line {first.key.line}, '
                    f"column {first.key.column}",
                    "keep one of them",
                )
            )
            return
        parent.entries[key.text] = Entry(key.place, node)

    def _path(self, key: str) -> str:
        """The key path of `key` in the mapping that is being read."""
        path = ""
        for around in self._open[:-1]:
            step = around.key.text if around.key is not None else len(around.items)
            path = child(path, step)
        return child(path, key)

    def _merge(self, parent: _Open, key: Scalar, node: Node) -> None:
        """The merge key: what the mapping itself says wins, then the earlier of a list."""
        tables = node.items if isinstance(node, Items) else (node,)
        for table in tables:
            if isinstance(table, Table):
                parent.merged.append(table)
            else:
                self.faults.append(
                    key.place.fault(
                        self._path("<<"), "<< takes a mapping", "write <<: *name of an anchor"
                    )
                )
