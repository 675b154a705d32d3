"""The result inside its own report, as JSON that a script element may hold."""

from __future__ import annotations

import json
from typing import Any, Final

from planner.results import Estimate, Run

ROOMY: Final = 80_000
"""Bytes of JSON up to which a result goes into its page whole."""
NEAREST: Final = 24
"""Rejected candidates that a larger result keeps, over all its flows: the nearest of each."""
_DIGITS: Final = 9
"""Digits of a number in a larger result: five more than any report shows."""


def carried_json(result: Estimate | Run) -> tuple[str, str | None]:
    """The JSON for the page, and what was left out of it, if anything.

    A plan for many GPUs rejects some hundred candidates for each; they are in the result's own
    file, and would make the page too heavy to send.
    """
    whole = result.model_dump_json()
    if len(whole) <= ROOMY:
        return _safe(whole), None
    body = _short(result.model_dump(mode="json", exclude_defaults=True))
    body = {"format": result.format, **body}
    for part in (body, body.get("estimate", {})):
        if "plan" in part:
            part["plan"] = _said(part["plan"])
    if isinstance(result, Run):
        body["estimate"] = {"format": result.estimate.format, **body["estimate"]}
        body.pop("timeline", None)
    flows = body["estimate"]["flows"] if isinstance(result, Run) else body["flows"]
    most = max(1, NEAREST // max(1, len(flows)))
    for flow in flows:
        rejected = flow.get("rejected", [])
        rejected.sort(key=lambda r: r.get("duration_s", float("inf")))
        del rejected[most:]
        flow.pop("arithmetic", None)
    what = "all but the nearest rejected candidates of each flow, the arithmetic"
    if isinstance(result, Run) and result.timeline is not None:
        what += ", the measured slices"
    what += f", and what is behind the first {_DIGITS} digits of a number"
    return _safe(json.dumps(body, separators=(",", ":"), ensure_ascii=False)), what


def _said(value: Any) -> Any:
    """A plan without what it does not say."""
    if isinstance(value, dict):
        kept = {key: _said(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, [], {})}
    return value


def _safe(text: str) -> str:
    """No tag can begin inside: "<" is spelled as JSON allows."""
    return text.replace("<", "\\u003c")


def _short(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
