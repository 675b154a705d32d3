"""`planner sweep`: estimate many variants of a plan, and name the smallest that is enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import FailLink, Only, PlanFile, Settings, all_settings, verb

if TYPE_CHECKING:
    from planner.results.sweep import Sweep

Axes = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=A,B,C",
        help="A key as --set takes it, with its values or {from: A, to: B, times: F}; repeatable.",
    ),
]
Machines = Annotated[
    str | None,
    typer.Option("--machine", metavar="A,B,C", help="Machines to compare: --sweep machine=A,B,C."),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Compare by this metric; else the flow's duration, or the makespan of several flows.",
    ),
]
Format = Annotated[
    Literal["text", "csv", "json", "markdown"],
    typer.Option("--format", help="What stdout carries; -o saves JSON in any case."),
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", min=1, metavar="N", help="Processes at work; else by the cores."),
]

EVERY_S: Final = 5.0
"""Seconds between two lines of progress where no bar is drawn."""


@verb
def sweep(
    plan: PlanFile,
    axes: Axes = None,
    machine: Machines = None,
    settings: Settings = None,
    fail_link: FailLink = None,
    only: Only = None,
    metric: MetricName = None,
    format_: Format = "text",
    processes: Processes = None,
    *,
    console: Console,
) -> int:
    """Estimate every combination of the values of some keys.

    The keys are those of the plan's matrix and of --sweep. Named are the smallest point that meets
    all objectives and the smallest within 1 % of the best: by the machine's price where all
    machines have one, else by hosts, GPUs, slower parts and the ring. Points that cannot be done
    are shown with their reason. Exit code 10 if no point meets the objectives. Ctrl-C keeps the
    points that are done.
    """
    from planner.cli.progress import progress_on
    from planner.review.sweep import sweep as estimate_all

    asked = [*(axes or ()), *([f"machine={machine}"] if machine else ())]
    with progress_on(console) as progress, _counted(console) as told:
        result = estimate_all(
            plan,
            axes=asked,
            settings=all_settings(settings, fail_link),
            only=only or (),
            metric=metric,
            processes=processes,
            told=told,
            progress=progress,
        )
    if not result.complete:
        console.complain(console.error_style.spell(_interrupted(result, console)))
    if format_ == "json" and not console.json:
        console.save(result.model_dump_json(indent=2))
        console.page(result.model_dump_json(indent=2))
        return result.verdict.exit_code
    if format_ in ("csv", "markdown") and not console.json:
        from planner.report.sweep_table import sweep_csv, sweep_markdown

        console.save(result.model_dump_json(indent=2))
        console.page(sweep_csv(result) if format_ == "csv" else sweep_markdown(result))
        return result.verdict.exit_code
    return show(result, console)


def _interrupted(result: Sweep, console: Console) -> str:
    done, planned = len(result.points), result.planned
    kept = (
        f", saved in {console.manners.output}" if console.manners.output not in (None, "-") else ""
    )
    return f"interrupted: {done} of {planned} points are done and kept{kept}"


@contextmanager
def _counted(console: Console) -> Iterator[Callable[[int, int], None] | None]:
    """A callback that shows how many points are done: a bar on a terminal, else lines."""
    if not console.progress:
        yield None
    elif console.live:
        from planner.cli.live import counting_bar

        with counting_bar(console, "points") as told:
            yield told
    else:
        yield _Lines(console)


class _Lines:
    """A line every few seconds, and none for a sweep that is over before the first."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.perf_counter) -> None:
        self._console = console
        self._clock = clock
        self._began = self._said = clock()

    def __call__(self, done: int, planned: int) -> None:
        """Say how far it is, unless that was said a moment ago."""
        now = self._clock()
        if now - self._said < EVERY_S:
            return
        self._said = now
        left = (now - self._began) * (planned - done) / done if done else 0.0
        rest = f", about {left:.0f} s left" if done and done < planned else ""
        self._console.note(f"{done} of {planned} points{rest}")
