"""Show a result as the flags ask for, and give the exit code that its verdict names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.cli.console import Console
from planner.cli.save import save_text

if TYPE_CHECKING:
    from planner.results import CheckResult, Estimate, Run
    from planner.results.diff import Diff
    from planner.results.doctor import Doctor
    from planner.results.history import History
    from planner.results.sweep import Sweep
    from planner.results.topo import Topo


@dataclass(frozen=True, slots=True)
class Views:
    """How else a result is shown: the `form` on stdout, and files beside `-o`."""

    form: Literal["text", "markdown", "json"] = "text"
    markdown: str | None = None
    junit: str | None = None
    html: str | None = None
    trace: str | None = None


def show(
    result: Estimate | Run | CheckResult | Diff | History | Sweep | Doctor | Topo,
    console: Console,
    *,
    explain: bool = False,
    views: Views | None = None,
    page: Callable[[str | None], str] | None = None,
) -> int:
    """Print `result` as text, Markdown or JSON, save what is asked for; the verdict's exit code.

    `page` gives a text of the verb's own, told where the result was saved.
    """
    asked = views or Views()
    as_json = console.json or console.manners.output is not None
    body = result.model_dump_json(indent=2) if as_json else ""
    saved = console.save(body)
    _save_views(result, asked)
    if console.json:
        console.page(body)
    elif console.manners.quiet:
        console.page(console.style.spell(result.verdict.sentence))
    elif asked.form == "markdown":
        console.page(_markdown(result))
    elif page is not None:
        console.page(page(saved))
    else:
        from planner.report.text import text

        console.page(text(result, console.style, explain=explain, saved=saved))
    return result.verdict.exit_code


def _save_views(result: object, views: Views) -> None:
    if views.markdown is not None:
        save_text(views.markdown, _markdown(result))
    if views.junit is not None:
        from planner.report.junit import junit

        save_text(views.junit, junit(_with_objectives(result)))
    if views.html is not None or views.trace is not None:
        from planner.cli.pages import save_pages

        save_pages(result, html=views.html, trace=views.trace)


def _markdown(result: object) -> str:
    from planner.report.markdown import markdown

    return markdown(_with_objectives(result))


def _with_objectives(result: object) -> Estimate | Run | Diff:
    """The result, of a kind that has objectives: verbs of others offer no such views."""
    from planner.results import Estimate, Run
    from planner.results.diff import Diff

    if not isinstance(result, Estimate | Run | Diff):
        raise TypeError
    return result
