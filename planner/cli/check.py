"""`planner check`: read plans and machine files, and report every fault of all of them at once."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import complete
from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import Settings, verb

PlanFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="PLAN...", help="Plans, or machine files (YAML).", autocompletion=complete.plans
    ),
]
Resolved = Annotated[
    bool,
    typer.Option("--resolved", help="Print the plan with includes merged and variables put in."),
]


@verb
def check(
    plans: PlanFiles, settings: Settings = None, resolved: Resolved = False, *, console: Console
) -> int:
    """Read plans or machine files and report every fault at once, with its line and column.

    The machine that a plan names is read too, and the files that its flows read from must exist.
    """
    from planner.review.checking import read_files

    found = read_files(plans, settings=settings or ())
    if resolved and found.plans and not console.json:
        from planner.report.resolved import resolved_text

        console.page(resolved_text(found.plans, console.style))
    return show(found.result(), console)
