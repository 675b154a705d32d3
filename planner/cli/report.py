"""`planner report`: a saved result as one HTML page, as text, as Markdown, or as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import complete
from planner.cli.console import Console
from planner.cli.options import TraceFile, verb
from planner.errors import ExitCode, InputError

if TYPE_CHECKING:
    from planner.results import Estimate, Run

Form = Literal["html", "text", "markdown", "json"]
Results = Annotated[
    list[str],
    typer.Argument(
        metavar="RESULT...",
        help="Saved estimates or runs (JSON), reports of them (HTML), or plans to estimate.",
        autocompletion=complete.anything,
    ),
]
Format = Annotated[
    Form | None,
    typer.Option("--format", help="html (the default) goes to a file, the others to stdout."),
]


@verb
def report(
    results: Results,
    format: Format = None,  # noqa: A002 - the name of the option
    trace: TraceFile = None,
    *,
    console: Console,
) -> int:
    """Make one HTML page of each result: a file that needs no network and opens anywhere.

    The page goes to the result's own name with .html, or where -o says; with --trace alone there
    is none. It holds the result, so it can be given wherever a result is read.
    """
    from planner.review.sides import read_side

    for option, value in (("-o", console.manners.output), ("--trace", trace)):
        if len(results) > 1 and value not in (None, "-"):
            raise InputError(f"{option} {value} is one file, and there are {len(results)} results")
    asked = "json" if console.manners.json else format
    if len(results) > 1 and console.manners.output == "-" and asked in (None, "html", "json"):
        what = asked or "html"
        raise InputError(
            f"{len(results)} results are {len(results)} documents of {what}, and -o - is one",
            hint="leave -o out for a page beside each result, or name one result",
        )
    for path, result in [(path, read_side(path)) for path in results]:
        form, output = asked, console.manners.output
        if form is None and (trace is None or output is not None):
            form = "html"
        if form is not None:
            _write(path, _page(result, form, console), form, console)
        if trace is not None:
            from planner.cli.pages import save_pages

            save_pages(result, trace=trace)
            console.note(f"saved {trace}")
    return int(ExitCode.DONE)


def _page(result: Estimate | Run, form: str, console: Console) -> str:
    """The result in the form that was asked for."""
    if form == "json":
        return result.model_dump_json(indent=2)
    if form == "markdown":
        from planner.report.markdown import markdown

        return markdown(result)
    if form == "text":
        from planner.report.text import text

        return text(result, console.style)
    from planner.cli.pages import html_of

    return html_of(result)


def _write(path: str, page: str, form: str, console: Console) -> None:
    """Where `-o` says; else HTML beside the result, and everything else to stdout."""
    output = console.manners.output
    if output is None and form == "html":
        from planner.cli.save import check_writable, save_text

        output = str(Path(path).with_suffix(".html"))
        check_writable(output)
        if Path(output).exists() and Path(output).samefile(path):
            raise InputError(f"the page would replace {path}", hint="name another file with -o")
        save_text(output, page)
        console.note(f"saved {output}")
    elif output in (None, "-"):
        console.page(page)
    else:
        console.save(page)
        console.note(f"saved {output}")
