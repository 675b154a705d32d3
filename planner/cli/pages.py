"""The files that a verb saves beside its result: a report as one HTML page, and a trace."""

from __future__ import annotations

from planner.cli.save import save_text
from planner.results import Estimate, Run
from planner.review.study import TRACE_SLICES, study


def save_pages(result: object, *, html: str | None = None, trace: str | None = None) -> None:
    """Save the report and the trace of an estimate or a run where they are wanted."""
    if not isinstance(result, Estimate | Run):
        raise TypeError
    if html is not None:
        save_text(html, html_of(result))
    if trace is not None:
        from planner.report.trace import trace_json

        seen = study(result, slices=TRACE_SLICES, sensitivity=False)
        save_text(trace, trace_json(result, seen))


def html_of(result: Estimate | Run) -> str:
    """The page of a result."""
    from planner.report.html import report_html

    return report_html(result, study(result))
