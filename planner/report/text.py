"""Any result as a page of text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from planner.report.style import Style
from planner.results import Estimate

if TYPE_CHECKING:
    from planner.results import CheckResult, Run
    from planner.results.diff import Diff
    from planner.results.doctor import Doctor
    from planner.results.history import History
    from planner.results.sweep import Sweep
    from planner.results.topo import Topo

_PAGES: Final = {
    "planner.run/1": ("planner.report.run", "run_text"),
    "planner.check/1": ("planner.report.check", "check_text"),
    "planner.diff/1": ("planner.report.diff", "diff_text"),
    "planner.history/1": ("planner.report.history", "history_text"),
    "planner.sweep/1": ("planner.report.sweep", "sweep_text"),
    "planner.topo/1": ("planner.report.topo", "topo_text"),
    "planner.doctor/1": ("planner.report.doctor", "doctor_text"),
}
"""What writes the page of each other format."""


def text(
    result: Estimate | Run | CheckResult | Diff | History | Sweep | Topo | Doctor,
    style: Style | None = None,
    *,
    explain: bool = False,
    saved: str | None = None,
) -> str:
    """The page of `result`.

    Parameters
    ----------
    result
        an estimate, a run, a comparison, what a check found, a history, a sweep, a
        machine as one can look at it, or what a doctor found.
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
    module, name = _PAGES[result.format]
    write = getattr(import_module(module), name)
    return str(write(result, page, saved=saved))
