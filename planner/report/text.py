"""Any result as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report.style import Style
from planner.results import CheckResult, Estimate, Run

if TYPE_CHECKING:
    from planner.results.diff import Diff
    from planner.results.history import History
    from planner.results.sweep import Sweep


def text(
    result: Estimate | Run | CheckResult | Diff | History | Sweep,
    style: Style | None = None,
    *,
    explain: bool = False,
    saved: str | None = None,
) -> str:
    """The page of `result`.

    Parameters
    ----------
    result
        an estimate, a run, a comparison, what a check found, a history, or a sweep.
    style
        width, colour and characters; 100 columns without colour if `None`.
    explain
        of an estimate: every rejected candidate, and the arithmetic.
    saved
        the file that holds the result, named in the closing line.
    """
    page = style or Style()
    # Each page loads when it is asked for: an estimate needs nothing of a run's.
    if isinstance(result, Estimate):
        from planner.report.estimate import estimate_text

        return estimate_text(result, page, explain=explain, saved=saved)
    if isinstance(result, Run):
        from planner.report.run import run_text

        return run_text(result, page, saved=saved)
    if isinstance(result, CheckResult):
        from planner.report.check import check_text

        return check_text(result, page, saved=saved)
    if result.format == "planner.history/1":  # its class loads only with one
        from planner.report.history import history_text

        return history_text(result, page, saved=saved)
    if result.format == "planner.sweep/1":
        from planner.report.sweep import sweep_text

        return sweep_text(result, page, saved=saved)
    from planner.report.diff import diff_text

    return diff_text(result, page, saved=saved)
