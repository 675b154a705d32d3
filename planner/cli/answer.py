"""Show a result as the flags ask for, and give the exit code that its verdict names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.cli.console import Console

if TYPE_CHECKING:
    from planner.results import CheckResult, Estimate, Run


def show(result: Estimate | Run | CheckResult, console: Console, *, explain: bool = False) -> int:
    """Print `result` as text or JSON, save it where `-o` says; the verdict's exit code."""
    as_json = console.json or console.manners.output is not None
    body = result.model_dump_json(indent=2) if as_json else ""
    saved = console.save(body)
    if console.json:
        console.page(body)
    elif console.manners.quiet:
        console.page(console.style.spell(result.verdict.sentence))
    else:
        from planner.report.text import text

        console.page(text(result, console.style, explain=explain, saved=saved))
    return result.verdict.exit_code
