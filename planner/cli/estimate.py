"""`planner estimate`: choose how to move the data, and predict how long it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import complete
from planner.cli.answer import Views, show
from planner.cli.console import Console
from planner.cli.options import (
    Explain,
    FailLink,
    Format,
    HtmlFile,
    JunitFile,
    MarkdownFile,
    Only,
    PlanFile,
    Settings,
    TraceFile,
    all_settings,
    verb,
)

MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="Predict for this machine instead of the plan's: a catalogue name, a file, or here.",
        autocompletion=complete.machines,
    ),
]


@verb
def estimate(
    plan: PlanFile,
    machine: MachineName = None,
    settings: Settings = None,
    fail_link: FailLink = None,
    only: Only = None,
    explain: Explain = False,
    format: Format = "text",  # noqa: A002 - the name of the option
    markdown: MarkdownFile = None,
    junit: JunitFile = None,
    html: HtmlFile = None,
    trace: TraceFile = None,
    *,
    console: Console,
) -> int:
    """Choose how to move the data and predict how long it takes.

    Needs no GPU and moves nothing. For a plan for this computer (machine: here) the first call
    calibrates it, which takes a while.
    """
    from planner.cli.progress import progress_on
    from planner.review import answers

    with progress_on(console) as progress:
        result = answers.estimate(
            plan,
            machine=machine,
            settings=all_settings(settings, fail_link),
            only=only or (),
            progress=progress,
        )
    return show(result, console, explain=explain, views=Views(format, markdown, junit, html, trace))
