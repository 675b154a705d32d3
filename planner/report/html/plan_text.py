"""The resolved plan as YAML that reads as the same plan again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.plan.schema import Plan
from planner.results import Estimate
from planner.units import format_size, parse_size

_WORDS: Final = {
    "source": "from",
    "destinations": "to",
    "host_source": "source",
    "copy_mode": "copy",
}
_LEFT_OUT: Final = frozenset(
    {"overrides", "source_file", "directory", "files", "sink", "include", "vars", "matrix"}
)
_SIZES: Final = frozenset({"size", "chunk", "pinned", "bytes", "sizes"})
_TIMES: Final = frozenset({"time", "start"})
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.\-]*")


def plan_text(estimate: Estimate) -> str:
    """The plan of an estimate with everything that differs from the defaults."""
    try:
        plan = Plan.model_validate(estimate.plan)
    except ValueError:
        return json.dumps(estimate.plan, indent=2, ensure_ascii=False) + "\n"
    body = plan.model_dump(mode="json", exclude_defaults=True)
    body = {"version": plan.version, "name": plan.name, "machine": plan.machine, **body}
    body["objectives"] = [objective.text for objective in plan.objectives]
    lines = list(_lines(body, 0, ""))
    for key, value in plan.overrides.items():
        lines.append(f"# with --set {key}={value}")
    return "\n".join(lines) + "\n"


def _lines(body: Mapping[str, Any], indent: int, path: str) -> Iterator[str]:
    for key, value in body.items():
        if key in _LEFT_OUT or value in (None, [], {}, ()):
            continue
        word = _WORDS.get(key, key) if path.startswith("flows.") and indent == 2 else key
        start = f"{'  ' * indent}{_scalar(word)}:"
        below = f"{path}{key}."
        if isinstance(value, Mapping):
            yield start
            yield from _lines(value, indent + 1, below)
        elif isinstance(value, list) and key == "objectives":
            yield start
            yield from (f"{'  ' * (indent + 1)}- {_scalar(item)}" for item in value)
        elif isinstance(value, list):
            yield f"{start} [{', '.join(_value(key, item) for item in value)}]"
        else:
            yield f"{start} {_value(key, value)}"


def _value(key: str, value: Any) -> str:
    """A leaf that reads as what it was; sizes and times stay exact."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if key in _SIZES and isinstance(value, int):
        text = format_size(value).replace(" ", "")
        return text if parse_size(text) == value else f"{value}B"
    if key in _TIMES and isinstance(value, float):
        return f"{value!r}s" if value else "0"
    if key == "rate" and isinstance(value, float):
        return f"{value!r}B/s"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """A word as it is where YAML takes it for one, else in quotes."""
    text = str(value)
    if not isinstance(value, str) or _PLAIN.fullmatch(text):
        return text
    return json.dumps(text, ensure_ascii=False)
