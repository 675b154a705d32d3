"""Any result as Markdown, for a pull request or the summary of a job.

The verdict stands in the first line, details are folded, and a hidden marker lets a bot update its
own post in place. The same result gives the same characters.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.report.markdown_parts import LIMIT, Section, Table, escape, page
from planner.report.words import margin_words, objective_mark, value_or_why
from planner.results import Estimate, ObjectiveResult, Run, Verdict
from planner.results.diff import Diff


def markdown(result: Estimate | Run | Diff, *, limit: int = LIMIT) -> str:
    """The Markdown of a result, of at most `limit` characters; what is cut is said."""
    if isinstance(result, Estimate):
        from planner.report.markdown_estimate import estimate_headline, estimate_sections

        name, headline = result.plan.get("name", "plan"), estimate_headline(result)
        sections = estimate_sections(result)
    elif isinstance(result, Run):
        from planner.report.markdown_run import run_headline, run_sections

        name, headline = result.estimate.plan.get("name", "plan"), run_headline(result)
        sections = run_sections(result)
    else:
        from planner.report.markdown_diff import diff_headline, diff_sections

        name, headline = result.after.plan, diff_headline(result)
        sections = diff_sections(result)
    said = f"planner: {headline} · {verdict_words(result.verdict)}"
    return page(escape(said), sections, str(name), limit=limit)


def verdict_words(verdict: Verdict) -> str:
    """`✓ All 2 objectives met`: a mark, and the sentence that the exit code belongs to.

    What merely counts changes is left out where there is more to say: the headline has said it.
    """
    said = [part.sentence for part in verdict.parts if part.about != "summary"]
    sentence = " ".join(said) or verdict.sentence
    return f"{'✓' if verdict.passed else '✗'} {sentence.rstrip('.')}"


def objective_section(objectives: Sequence[ObjectiveResult], *, unknown: str) -> list[Section]:
    """The objectives with their values; none where the plan states none."""
    if not objectives:
        return []
    rows = [
        [
            objective_mark(objective)[0],
            objective.text,
            value_or_why(objective, unknown),
            margin_words(objective),
            objective.holds_while or "",
        ]
        for objective in objectives
    ]
    titles = ["", "Objective", "Value", "Margin", "Holds while"]
    return [Section("objectives", Table(titles, "llrll", rows))]


def note_section(warnings: Sequence[str]) -> list[Section]:
    """What a reader must know, one line each."""
    return [Section("remarks", list(warnings))] if warnings else []
