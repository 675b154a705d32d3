"""`planner calibrate`: measure this computer, and write its machine file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.console import Console
from planner.cli.options import Backend, verb
from planner.errors import ExitCode

if TYPE_CHECKING:
    from planner.machine.schema import Machine

Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the machine; else the host's.")
]
EmulateGpus = Annotated[
    int | None,
    typer.Option(
        "--emulate-gpus", min=1, metavar="N", help="Stand in for N GPUs with memory in RAM."
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="DIR", help="Folder of the disk to measure."),
]


@verb
def calibrate(
    name: Name = None,
    backend: Backend = "auto",
    emulate_gpus: EmulateGpus = None,
    scratch: Scratch = None,
    *,
    console: Console,
) -> int:
    """Measure this computer and write its machine file.

    Takes a while and loads the machine; nothing else should run. The result is kept for
    `machine: here`, unless --scratch measures another disk. With -o FILE it is saved as a machine
    file (YAML) that plans can name.
    """
    machine = _measure(backend, emulate_gpus, scratch, console)
    if name is not None:
        machine = machine.model_copy(update={"name": name})
    _show(machine, console)
    return int(ExitCode.DONE)


def _measure(
    backend: str, emulate_gpus: int | None, scratch: Path | None, console: Console
) -> Machine:
    """This computer, measured now; kept as `here` where it is what `here` stands for."""
    from planner.cli.progress import progress_on

    with progress_on(console) as progress:
        if scratch is None:
            from planner.engine.here import here

            return here(
                backend=backend, recalibrate=True, emulate_gpus=emulate_gpus, progress=progress
            )
        from planner.engine.calibrate import calibrate as measure

        return measure(
            backend=backend, emulate_gpus=emulate_gpus, scratch=scratch, progress=progress
        )


def _show(machine: Machine, console: Console) -> None:
    """Print the machine as a page, as JSON, or (with `-o -`) as the file that `-o` would save."""
    from planner.machine.dump import dump_machine

    file = dump_machine(machine) if console.manners.output else ""
    saved = console.save(file)
    if console.manners.json:
        console.page(machine.model_dump_json(indent=2, by_alias=True))
    elif console.manners.output == "-":
        console.page(file)
    elif console.manners.quiet:
        console.page(f"{machine.name} is measured.")
    else:
        from planner.report.machine import machine_text

        console.page(machine_text(machine, console.style, saved=saved))
