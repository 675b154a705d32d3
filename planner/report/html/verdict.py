"""The verdict bar: the headline, the few figures that matter, and the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.report.estimate import headline
from planner.report.run import headline as run_headline
from planner.report.words import (
    CAUSES,
    error_tone,
    error_words,
    interval_words,
    margin_words,
    objective_mark,
    resource_words,
    value_or_why,
)
from planner.results import Estimate, ObjectiveResult, Run
from planner.units import format_share, format_time
from planner.wording import counted


@dataclass(frozen=True, slots=True)
class Figure:
    """One large figure: what it is, the figure, and what goes with it."""

    label: str
    value: str
    about: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Judged:
    """One objective as a row."""

    mark: str
    tone: str
    word: str
    text: str
    value: str
    margin: str
    holds: str


@dataclass(frozen=True, slots=True)
class VerdictBar:
    """Everything above the fold."""

    title: str
    plan: str
    machine: str
    kind: str
    passed: bool
    sentence: str
    headlines: tuple[str, ...]
    figures: tuple[Figure, ...]
    objectives: tuple[Judged, ...]
    warnings: tuple[str, ...]


def verdict_bar(estimate: Estimate, run: Run | None) -> VerdictBar:
    """The bar of an estimate or of a run."""
    result = run or estimate
    plan = str(estimate.plan.get("name", "plan"))
    verdict = result.verdict
    emulated = estimate.emulated if run is None else run.environment.emulated
    kind = "estimate" if run is None else f"run on the {run.environment.backend} backend"
    if emulated:
        kind += ", GPU memory emulated in RAM"
    lines = (headline(estimate),) if run is None else tuple(map(run_headline, run.flows[:4]))
    unknown = "only a run knows" if run is None else "not measured"
    machine = estimate.machine.get("name", "machine") if run is None else run.environment.machine
    return VerdictBar(
        title=f"{plan}: {verdict.sentence}",
        plan=plan,
        machine=str(machine),
        kind=kind,
        passed=verdict.passed,
        sentence=verdict.sentence,
        headlines=lines,
        figures=tuple(_figures(estimate, run)),
        objectives=tuple(_judged(o, unknown) for o in result.objectives),
        warnings=result.warnings,
    )


def _figures(estimate: Estimate, run: Run | None) -> Sequence[Figure]:
    interval = interval_words(estimate.interval_s).strip(" ()")
    predicted = Figure(
        "Predicted", format_time(estimate.makespan_s), interval or "no interval known", "predicted"
    )
    limit = estimate.bottleneck
    where = resource_words(limit.resource, estimate.machine)
    name, _, way = where.partition(" (")
    about = f"{way.rstrip(')')}: " if way else ""
    about += f"{CAUSES[limit.cause]}, {_busy(limit.share)}" if name != "none" else "nothing moves"
    bottleneck = Figure("Bottleneck", name, about)
    if run is None:
        bound = estimate.lower_bound_s
        floor = Figure(
            "Lower bound",
            format_time(bound) if bound else "unknown",
            f"{format_share(estimate.gap or 0.0)} above it" if bound else "",
        )
        return [predicted, floor, bottleneck]
    measured = Figure(
        "Measured",
        format_time(run.makespan_s),
        f"first run; {counted(run.samples, 'sample')} after {run.warmup} warm-up",
        "measured",
    )
    factor = run.error_factor
    tone = error_tone(factor)
    return [
        predicted,
        measured,
        Figure("Error", error_words(factor), "measured ÷ predicted", tone),
        bottleneck,
    ]


def _busy(share: float) -> str:
    return f"{format_share(share)} of the time"


def _judged(objective: ObjectiveResult, unknown: str) -> Judged:
    mark, tone = objective_mark(objective)
    word = {True: "met", False: "missed", None: "unknown"}[objective.passed]
    value = value_or_why(objective, unknown)
    holds = objective.holds_while or ""
    return Judged(mark, tone, word, objective.text, value, margin_words(objective), holds)
