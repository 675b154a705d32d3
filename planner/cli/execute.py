"""`planner execute`: move the data for real, and hold the measurement against the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli import complete
from planner.cli.answer import Views, show
from planner.cli.console import Console
from planner.cli.options import (
    Backend,
    Format,
    HtmlFile,
    JunitFile,
    MarkdownFile,
    MaxError,
    Only,
    Settings,
    TraceFile,
    factor_of,
    verb,
)
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.results import Run

What = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="A plan (YAML), or an estimate that -o saved (JSON).",
        autocompletion=complete.plans_and_results,
    ),
]
Samples = Annotated[int, typer.Option("--samples", min=1, metavar="N", help="Measured runs.")]
Warmup = Annotated[
    int, typer.Option("--warmup", min=0, metavar="N", help="Runs before, not counted.")
]
Cache = Annotated[
    Literal["warm", "cold"] | None,
    typer.Option(
        "--cache", help="Page cache before each sample, predicted for too; else the plan's."
    ),
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not compare the data that arrived.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Allow to write over files that exist.")
]
KeepScratch = Annotated[
    bool, typer.Option("--keep-scratch", help="Keep the scratch files for the next run.")
]
Nvtx = Annotated[
    bool, typer.Option("--nvtx", help="Name flows, hops and chunks to a profiler (NVTX).")
]
NoHistory = Annotated[
    bool, typer.Option("--no-history", help="Do not keep the run for `planner history`.")
]


@verb
def execute(
    what: What,
    backend: Backend = "auto",
    samples: Samples = 5,
    warmup: Warmup = 1,
    cache: Cache = None,
    no_verify: NoVerify = False,
    overwrite: Overwrite = False,
    max_error: MaxError = None,
    keep_scratch: KeepScratch = False,
    nvtx: Nvtx = False,
    no_history: NoHistory = False,
    settings: Settings = None,
    only: Only = None,
    format: Format = "text",  # noqa: A002 - the name of the option
    markdown: MarkdownFile = None,
    junit: JunitFile = None,
    html: HtmlFile = None,
    trace: TraceFile = None,
    *,
    console: Console,
) -> int:
    """Move the data for real, and hold the measurement against the prediction.

    Predicts for the computer that it runs on, whatever machine the plan names; `--backend null`
    plays the plan on that machine instead. A saved estimate is run with exactly its schedule.
    Without a GPU its memory is emulated in RAM, which the first line says. Every run is kept for
    `planner history`.
    """
    factor = factor_of(max_error)
    from planner.cli.progress import progress_on
    from planner.review import answers

    with progress_on(console) as progress:
        result = answers.execute(
            what,
            settings=settings or (),
            only=only or (),
            backend=backend,
            samples=samples,
            warmup=warmup,
            cache=cache,
            verify=not no_verify,
            overwrite=overwrite,
            max_error=factor,
            keep_scratch=keep_scratch,
            nvtx=nvtx,
            progress=progress,
        )
    code = show(result, console, views=Views(format, markdown, junit, html, trace))
    if not no_history:
        _keep(result, console)
    return code


def _keep(run: Run, console: Console) -> None:
    """Keep the run in the history; where that fails it is a warning, for the run itself is done."""
    from planner.review.history.store import keep

    try:
        keep(run)
    except PlannerError as error:
        console.note(f"! this run is not in the history: {error.message}")
        if error.hint:
            console.note(f"  {error.hint}")
