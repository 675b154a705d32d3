"""`planner execute`: move the data for real, and hold the measurement against the prediction."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import Backend, Only, Settings, verb

What = Annotated[
    str, typer.Argument(metavar="PLAN", help="A plan (YAML), or an estimate that -o saved (JSON).")
]
Samples = Annotated[int, typer.Option("--samples", min=1, metavar="N", help="Measured runs.")]
Warmup = Annotated[
    int, typer.Option("--warmup", min=0, metavar="N", help="Runs before, not counted.")
]
Cache = Annotated[
    Literal["warm", "cold"] | None,
    typer.Option("--cache", help="Page cache before each sample; else as the plan says."),
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not compare the data that arrived.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Allow to write over files that exist.")
]
MaxError = Annotated[
    str | None,
    typer.Option(
        "--max-error",
        metavar="FACTOR",
        help="Fail (12) if the prediction is off by more, either way: 1.25x.",
    ),
]
KeepScratch = Annotated[
    bool, typer.Option("--keep-scratch", help="Keep the scratch files for the next run.")
]
Nvtx = Annotated[
    bool, typer.Option("--nvtx", help="Name flows, hops and chunks to a profiler (NVTX).")
]


def _factor(text: str | None) -> float | None:
    """`1.25x` as a number from 1 up."""
    if text is None:
        return None
    from planner.units import UnitError, parse_factor

    try:
        factor = parse_factor(text)
    except UnitError as error:
        raise typer.BadParameter(str(error), param_hint="--max-error") from error
    if factor < 1:
        raise typer.BadParameter("a factor below 1 can never be met", param_hint="--max-error")
    return factor


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
    settings: Settings = None,
    only: Only = None,
    *,
    console: Console,
) -> int:
    """Move the data for real, and hold the measurement against the prediction.

    Predicts for the computer that it runs on, whatever machine the plan names. A saved estimate
    is run with exactly its schedule. Without a GPU its memory is emulated in RAM, which the first
    line says.
    """
    factor = _factor(max_error)
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
    return show(result, console)
