"""Reads a plan file and the files that it includes, and merges them into one mapping.

What an including file says wins over what it includes, and of several included files the later
wins, key by key: mappings merge, everything else replaces. Every value keeps the place where it
was written.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from planner.errors import Fault
from planner.files import read_bytes
from planner.plan.tree import Entry, Items, Node, Place, Scalar, SourceText, Table
from planner.plan.yaml_nodes import NotReadableError, read_nodes
from planner.units import format_size

DEEPEST: Final = 50
"""Files within files that are followed: no plan needs so many, and each takes stack."""

LARGEST: Final = 64 << 20
"""Bytes of a file that is read as a plan; 10,000 flows of 20 keys take 4 MB. Weights that are
named in the place of a plan would be searched for a minute."""

EXAMPLE: Final = "flows: { load: { from: disk0, to: gpu0, size: 1GB } }"
"""The least that a plan says."""

MOST: Final = 1000
"""Files that one plan is read from: ten that include ten others each, nine deep, never end."""


def merge(below: Table, above: Table) -> Table:
    """`below` with everything that `above` says, key by key; the key order of `below` first."""
    entries = dict(below.entries)
    for key, entry in above.entries.items():
        known = entries.get(key)
        if known is not None and isinstance(known.node, Table) and isinstance(entry.node, Table):
            entries[key] = Entry(entry.key, merge(known.node, entry.node))
        else:
            entries[key] = entry
    return Table(entries, above.place)


class FileReader:
    """Reads files into merged mappings; collects the faults and the order the files came in."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.files: list[str] = []
        self._open: list[tuple[str, str]] = []
        self._asked = 0

    def read_file(self, path: Path, asked: Place | None = None) -> Table | None:
        """The mapping in the file at `path`, includes merged; None where it cannot be had.

        `asked` is the place of the `include` that names the file, for the faults.
        """
        self._asked += 1
        if asked is not None and self._asked > MOST:
            if self._asked == MOST + 1:  # told once
                message = f"the includes name more than {MOST} files in all"
                self.faults.append(asked.fault("include", message, "include each file once"))
            return None
        text = self._text(path, asked)
        if text is None:
            return None
        if asked is not None and len(self._open) >= DEEPEST:
            self.faults.append(
                asked.fault("include", f"the includes are nested more than {DEEPEST} deep")
            )
            return None
        real = os.path.realpath(path)
        if asked is not None and any(known == real for known, _ in self._open):
            self._report_cycle(real, asked)
            return None
        self._open.append((real, str(path)))
        table = self.read_text(text, str(path), path.parent)
        self._open.pop()
        return table

    def read_text(self, text: str, name: str, folder: Path) -> Table | None:
        """The mapping in `text`, which faults call `name`; includes start from `folder`."""
        source = SourceText(name, folder, tuple(text.splitlines()))
        self.files.append(name)
        try:
            root, faults = read_nodes(text, source)
        except NotReadableError as error:
            self.faults.append(error.fault)
            return None
        self.faults.extend(faults)
        if root is None or (isinstance(root, Scalar) and root.empty):
            self.faults.append(
                Place(source).fault("", "the file is empty", f"a plan moves something: {EXAMPLE}")
            )
            return None
        if not isinstance(root, Table):
            kind = "a list" if isinstance(root, Items) else "one value"
            self.faults.append(
                root.place.fault("", f"a plan is a mapping, this is {kind}", "write key: value")
            )
            return None
        return self._with_includes(root)

    def _with_includes(self, root: Table) -> Table:
        entry = root.entries.get("include")
        if entry is None:
            return root
        merged: Table | None = None
        for named in self._names(entry.node):
            included = self.read_file(named.place.source.folder / named.text, named.place)
            if included is not None:
                merged = included if merged is None else merge(merged, included)
        own = {key: value for key, value in root.entries.items() if key != "include"}
        below = merged if merged is not None else Table({}, root.place)
        below.entries.pop("include", None)
        return merge(below, Table({**own, "include": entry}, root.place))

    def _names(self, node: Node) -> list[Scalar]:
        """The file names under `include`: one, or a list."""
        names: list[Scalar] = []
        for item in node.items if isinstance(node, Items) else (node,):
            if isinstance(item, Scalar) and item.text and "$" not in item.text:
                names.append(item)
            elif isinstance(item, Scalar) and item.text:
                self.faults.append(
                    item.place.fault("include", "an include cannot use variables", "write the path")
                )
            else:
                self.faults.append(
                    item.place.fault(
                        "include", "an include names a file", "write include: base.yaml"
                    )
                )
        return names

    def _report_cycle(self, real: str, asked: Place) -> None:
        start = next(i for i, (known, _) in enumerate(self._open) if known == real)
        round_trip = [name for _, name in self._open[start:]]
        shown = " -> ".join((*round_trip, round_trip[0]))
        self.faults.append(
            asked.fault("include", f"the includes go round in a circle: {shown}", "remove one")
        )

    def _text(self, path: Path, asked: Place | None) -> str | None:
        """The text of the file, or None and a fault where it is named (or in the file itself)."""
        place = asked if asked is not None else Place(SourceText(str(path), path.parent))
        key = "include" if asked is not None else ""
        try:
            if path.is_file() and path.stat().st_size > LARGEST:
                told = f"{path} has {format_size(path.stat().st_size)}: no plan is that large"
                self.faults.append(place.fault(key, told, "name the file of a plan"))
                return None
            raw = read_bytes(path)
        except FileNotFoundError:
            self.faults.append(place.fault(key, f"there is no file {path}", _nearby(path, asked)))
        except IsADirectoryError:
            self.faults.append(place.fault(key, f"{path} is a folder", "name the file in it"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.faults.append(place.fault(key, f"{path} cannot be read: {reason}"))
        else:
            return self._decoded(raw, path)
        return None

    def _decoded(self, raw: bytes, path: Path) -> str | None:
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = raw[: error.start]
            start = before.rfind(b"\n") + 1
            column = len(before[start:].decode("utf-8", errors="replace")) + 1
            place = Place(SourceText(str(path), path.parent), before.count(b"\n") + 1, column)
            self.faults.append(
                place.fault("", f"byte 0x{raw[error.start]:02x} is not UTF-8", "save as UTF-8")
            )
            return None


def _nearby(path: Path, asked: Place | None) -> str | None:
    """A suggestion: the file beside `path` whose name, but for its ending, is nearest.

    Where none is like it, what an include (`asked` for there) starts from.
    """
    try:
        names = {entry.stem: entry.name for entry in sorted(path.parent.iterdir())}
    except OSError:
        return None
    near = get_close_matches(path.stem, names, n=1)
    if near:
        return f"did you mean {names[near[0]]}?"
    return None if asked is None else "its path starts from the folder of the file that names it"
