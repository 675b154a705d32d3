"""Errors as text for a person, with the place in the file, and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from planner.errors import Fault, InfeasibleError, InputError, PlannerError
from planner.report.style import Style
from planner.report.table import prose

ERROR_FORMAT = "planner.error/1"
LONGEST_EXCERPT: Final = 1000
"""Characters of a line up to which an error in JSON repeats it."""

REASONS: Final = 3
"""As many reasons against a plan are told unless all are asked for."""


def failure_text(
    error: PlannerError, style: Style, *, undone: str = "", explain: bool = False
) -> str:
    """The error: each fault with its line and a caret under it, then how many there are.

    Of the reasons why nothing is possible the nearest three are told; with `explain` all.
    `undone` says what did not happen because of the faults: `nothing estimated`.
    """
    faults = error.faults if isinstance(error, InputError) else ()
    lines: list[str] = []
    for fault in faults:
        lines += _fault_lines(fault, style)
    if faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines.append(style.paint(f"{count}; {undone}." if undone else f"{count}.", "bad"))
    else:
        lines += prose(f"error: {error.message}", style, indent=0, hang=2)
        lines += _reason_lines(error, style, explain=explain)
    # The hint of an error with one fault may be the suggestion that stands beneath the fault.
    if error.hint and error.hint not in {fault.suggestion for fault in faults}:
        lines += prose(error.hint, style, indent=2, hang=2)
    return "\n".join(lines) + "\n"


def _reason_lines(error: PlannerError, style: Style, *, explain: bool) -> list[str]:
    reasons = error.reasons if isinstance(error, InfeasibleError) else ()
    shown = reasons if explain else reasons[:REASONS]
    mark = style.spell("·") if style.unicode else "-"
    lines = [line for text in shown for line in prose(f"{mark} {text}", style, indent=2, hang=2)]
    left = len(reasons) - len(shown)
    if left:
        more = "1 more reason" if left == 1 else f"{left} more reasons"
        lines += prose(f"{more}: planner estimate --explain", style, indent=2, hang=2)
    return lines


def _fault_lines(fault: Fault, style: Style) -> list[str]:
    """`file:line:column  path  message`, the line of the file, and what to write instead."""
    head = "  ".join(part for part in (fault.position(), fault.path, fault.message) if part)
    lines = [style.paint(style.spell(head), "strong")]
    suggestion = style.spell(fault.suggestion or "")
    if fault.excerpt is None or not fault.line:
        return [*lines, f"    {suggestion}"] if suggestion else lines
    excerpt, start, span = _window(style.spell(fault.excerpt), fault.column, fault.span, style)
    bar = style.spell("│")
    number = str(fault.line).rjust(5)
    carets = style.paint("^" * span, "bad")
    lines.append(f"{number} {bar} {excerpt}")
    lines.append(f"{' ' * len(number)} {bar} {' ' * start}{carets}  {suggestion}".rstrip())
    return lines


def _window(excerpt: str, column: int, span: int, style: Style) -> tuple[str, int, int]:
    """The part of a line that fits the page, where the caret starts in it, and its length."""
    text = excerpt.rstrip("\n").replace("\t", " ")
    room = max(20, style.width - 10)
    start = max(0, column - 1)
    first = max(0, start - room // 2) if len(text) > room else 0
    shown = text[first : first + room]
    span = max(1, min(span, len(shown) - (start - first)))
    return shown, start - first, span


def _fault_json(fault: Fault) -> dict[str, Any]:
    """The fault; a line too long to be looked at is left out, the column finds its place in it."""
    body = asdict(fault)
    if fault.excerpt is not None and len(fault.excerpt) > LONGEST_EXCERPT:
        body["excerpt"] = None
    return body


def failure_json(
    code: int,
    message: str,
    hint: str | None,
    faults: Sequence[Fault],
    *,
    reasons: Sequence[str] = (),
    indent: int = 2,
) -> str:
    """The error as one JSON object, for programs that called with `--json`."""
    body = {
        "format": ERROR_FORMAT,
        "exit_code": code,
        "message": message,
        "hint": hint,
        "reasons": list(reasons),
        "faults": [_fault_json(fault) for fault in faults],
    }
    return json.dumps(body, indent=indent, ensure_ascii=False)
