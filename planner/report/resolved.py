"""A plan as it was understood: every value that is written, and where it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from planner.plan.load import LoadedPlan
from planner.report.style import Style
from planner.report.table import Cell, Column, Row, table
from planner.units import format_rate, format_size, format_time, parse_size

# The words in the file where they differ from the names in Python (`planner.plan.schema`).
_WORDS: Final = {
    "source": "from",
    "destinations": "to",
    "host_source": "source",
    "copy_mode": "copy",
}
_SIZES: Final = ("size", "chunk", "pinned", "bytes")
_TIMES: Final = ("time", "start")
_LEFT_OUT: Final = ("overrides", "source_file", "directory", "files", "sink")


def resolved_text(plans: Sequence[LoadedPlan], style: Style) -> str:
    """Each plan as lines of key path, value and origin, includes merged and variables put in."""
    lines: list[str] = []
    for loaded in plans:
        lines += [""] if lines else []
        lines.append(style.paint(style.spell(loaded.plan.name), "strong"))
        rows: list[Row] = [[path, text, Cell(at, "dim")] for path, text, at in _written(loaded)]
        columns = [Column("key"), Column("value"), Column("written in", give_way=1)]
        lines += table(columns, rows, style, indent=2)
    return "\n".join(lines) + "\n"


def _written(loaded: LoadedPlan) -> Iterator[tuple[str, str, str]]:
    """Key path, value and origin of everything that a person wrote, in the order of the schema."""
    body = loaded.plan.model_dump(mode="json", exclude=set(_LEFT_OUT))
    for path, value in _leaves(body, ""):
        place = loaded.positions.values.get(path)
        if place is not None:
            yield path, value, str(place)
    for key, value in loaded.plan.overrides.items():
        yield key, value, "--set"


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every leaf below `path`; a list of plain values, and an objective, are leaves."""
    if isinstance(value, Mapping):
        if "limit_text" in value:
            yield path, str(value["text"])
            return
        for key, inner in value.items():
            if key in _LEFT_OUT:
                continue
            word = str(_WORDS.get(key, key) if path.startswith("flows.") else key)
            yield from _leaves(inner, f"{path}.{word}" if path else word)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    elif value not in (None, [], ()):
        yield path, _value(path.rpartition(".")[2], value)


def _value(key: str, value: Any) -> str:
    """A leaf as people write it; sizes stay exact."""
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if key in _SIZES and isinstance(value, int):
        text = format_size(value)
        return text if parse_size(text) == value else f"{value} B"
    if key in _TIMES and isinstance(value, float):
        return format_time(value)
    if key == "rate" and isinstance(value, float):
        return format_rate(value)
    return str(value)
