"""What a calibration has finished, kept in a file, so that an interrupted one can go on.

The file holds every sample of every cell, by groups; it is written whole or not at all after each
group. When the calibration is complete it stays, under another name, beside the machine: whoever
doubts a median finds its samples there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.statistics import quartile

VERSION: Final = 1
"""Of the file."""


@dataclass
class Ledger:
    """Finished groups; without a `path` they are kept in memory alone.

    `mark` is the fingerprint of what was measured: samples of another machine, or of the same one
    under another driver, are not gone on from.
    """

    path: Path | None = None
    mark: str = ""
    groups: dict[str, list[Cell]] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, mark: str) -> Ledger:
        """The ledger at `path`, empty where there is none, or one of another machine."""
        ledger = cls(path, mark)
        try:
            body: Any = json.loads(path.read_text(encoding="utf-8"))
            if body["version"] != VERSION or body["mark"] != mark:
                return ledger
            for name, group in body["groups"].items():
                ledger.groups[name] = [_cell(row) for row in group["cells"]]
                ledger.dates[name] = str(group["when"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path, mark)
        return ledger

    def keep(self, name: str, cells: Sequence[Cell], when: str) -> None:
        """Add a finished group, or replace it, and write the file."""
        self.groups[name] = list(cells)
        self.dates[name] = when
        self.write()

    def write(self) -> None:
        """Write the file anew; a folder that cannot be written to is no error."""
        if self.path is None:
            return
        groups = {
            name: {"when": self.dates[name], "cells": [_row(c) for c in cells if c.taken]}
            for name, cells in self.groups.items()
        }
        body = {"version": VERSION, "mark": self.mark, "groups": groups}
        temporary = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(body, file, indent=1)
            Path(temporary).replace(self.path)
            temporary = None
        except OSError:
            self.path = None
        finally:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)

    def finish(self, path: Path) -> Path | None:
        """Move the complete file to its last place; where it is now, `None` if nowhere."""
        if self.path is None:
            return None
        self.write()
        if self.path is None:
            return None
        self.path.replace(path)
        self.path = path
        return path


def _row(cell: Cell) -> dict[str, Any]:
    """One cell as JSON."""
    seen = cell.summary()
    ordered = sorted(cell.clean or cell.dirty)
    row: dict[str, Any] = {
        "key": _listed(cell.key),
        "unit": "per_s" if cell.is_rate else "s",
        "median": seen.median,
        "quartiles": [quartile(ordered, 0.25), quartile(ordered, 0.75)],
        "samples": cell.clean,
        "disturbed_samples": cell.dirty,
        "disturbed": cell.disturbed,
        "redone": cell.redone,
    }
    return row | ({"second": cell.also} if cell.also else {})


def _cell(row: Any) -> Cell:
    """The cell of a row; it has its samples and cannot take others."""
    return Cell(
        key=_tupled(row["key"]),
        run=None,
        is_rate=row["unit"] == "per_s",
        clean=[float(v) for v in row["samples"]],
        dirty=[float(v) for v in row["disturbed_samples"]],
        also=[float(v) for v in row.get("second", [])],
        redone=int(row["redone"]),
    )


def _listed(key: Any) -> Any:
    return [_listed(part) for part in key] if isinstance(key, tuple) else key


def _tupled(key: Any) -> Any:
    return tuple(_tupled(part) for part in key) if isinstance(key, list) else key
