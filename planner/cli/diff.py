"""`planner diff`: what changed from one result to another, and whether it may."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import complete
from planner.cli.answer import Views, show
from planner.cli.console import Console
from planner.cli.options import Format, JunitFile, MarkdownFile, MaxError, factor_of, verb

_A_SIDE = "A plan (YAML), an estimate or a run (JSON), or a report of one (HTML)."
Before = Annotated[str, typer.Argument(metavar="A", help=_A_SIDE, autocompletion=complete.anything)]
After = Annotated[
    str,
    typer.Argument(
        metavar="B", help="Likewise; what changed from A to it.", autocompletion=complete.anything
    ),
]
FailAbove = Annotated[
    str | None,
    typer.Option(
        "--fail-above",
        metavar="LIMIT",
        help="Fail (11) if a flow or the makespan is slower by more: 5% or 100ms.",
    ),
]


def _checked(limit: str | None) -> str | None:
    """The limit, which must be one."""
    if limit is not None:
        from planner.review.gate import parse_limit
        from planner.units import UnitError

        try:
            parse_limit(limit)
        except UnitError as error:
            raise typer.BadParameter(str(error), param_hint="--fail-above") from error
    return limit


@verb
def diff(
    before: Before,
    after: After,
    fail_above: FailAbove = None,
    max_error: MaxError = None,
    format: Format = "text",  # noqa: A002 - the name of the option
    markdown: MarkdownFile = None,
    junit: JunitFile = None,
    *,
    console: Console,
) -> int:
    """Show what changed from A to B: times, schedule, machine, memory, objectives.

    Any two of plan (which is estimated), estimate and run. Between runs a difference counts only
    beyond the noise of their samples. Fails (10) where B misses an objective.
    """
    limit, factor = _checked(fail_above), factor_of(max_error)
    from planner.cli.progress import progress_on
    from planner.review import sides

    with progress_on(console) as progress:
        result = sides.diff(before, after, fail_above=limit, max_error=factor, progress=progress)
    return show(result, console, views=Views(format, markdown, junit))
