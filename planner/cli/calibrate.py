"""`planner calibrate`: measure this computer, and write its machine file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.console import Console
from planner.cli.options import Backend, verb
from planner.errors import ExitCode, InputError

if TYPE_CHECKING:
    from planner.machine.schema import Machine

Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the machine; else the host's.")
]
EmulateGpus = Annotated[
    int | None,
    typer.Option(
        "--emulate-gpus", min=1, max=64, metavar="N", help="Stand in for N GPUs with memory in RAM."
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option("--scratch", metavar="DIR", help="Folder of the disk to measure."),
]
Full = Annotated[
    bool,
    typer.Option("--full", help="Measure everything, many times; takes up to three minutes."),
]
LinkName = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="LINK",
        help="Measure this link again, keep all others: pcie0, or its ends host0->gpu0.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a --full that was interrupted.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Allow a quick one to replace a full one that is kept.")
]


@verb
def calibrate(
    name: Name = None,
    backend: Backend = "auto",
    emulate_gpus: EmulateGpus = None,
    scratch: Scratch = None,
    full: Full = False,
    link: LinkName = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    *,
    console: Console,
) -> int:
    """Measure this computer and write its machine file.

    Takes a while and loads the machine; nothing else should run. The result is kept for
    `machine: here`, unless --scratch measures another disk. With -o FILE it is saved as a machine
    file (YAML) that plans can name. A quick calibration takes the place of a full one with
    --overwrite alone; else it is refused, or saved where -o says and not kept.
    """
    asked = Asked(backend, emulate_gpus, scratch, full=full or resume, link=link, resume=resume)
    asked.check()
    better = None if overwrite else _better(asked)
    if better is not None:
        _spare(better, console)
    with _told(console):
        machine = _measure(asked, console, keep=better is None)
    if name is not None:
        machine = machine.model_copy(update={"name": name})
    _show(machine, console)
    return int(ExitCode.DONE)


@contextlib.contextmanager
def _told(console: Console) -> Iterator[None]:
    """With `--verbose` say what each part of the calibration took."""
    if not console.manners.verbose:
        yield
        return
    import logging

    class Notes(logging.Handler):
        """Log records as notes."""

        def emit(self, record: logging.LogRecord) -> None:
            """Say it."""
            console.note(record.getMessage())

    log, notes = logging.getLogger("planner.engine"), Notes()
    before = log.level
    log.addHandler(notes)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(notes)
        log.setLevel(before)


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    backend: str
    emulate_gpus: int | None
    scratch: Path | None
    full: bool
    link: str | None
    resume: bool

    def check(self) -> None:
        """Raise a usage error where two options do not go together."""
        if self.scratch is not None and self.resume:
            raise typer.BadParameter("--resume goes on with the usual folder, not --scratch")
        if self.link is not None:
            others = {
                "--scratch": self.scratch is not None,
                "--resume": self.resume,
                "--emulate-gpus": self.emulate_gpus is not None,
            }
            wrong = [name for name, given in others.items() if given]
            if wrong:
                raise typer.BadParameter(
                    f"--link mends the calibration that is kept, so {wrong[0]} has no meaning"
                )


def _better(asked: Asked) -> str | None:
    """The day of a kept full calibration that this one would replace by less; `None` if none is."""
    if asked.full or asked.link is not None or asked.scratch is not None:
        return None
    from planner.engine.here import kept
    from planner.machine.made import full_day

    machine = kept(asked.backend)
    return None if machine is None else full_day(machine)


def _spare(day: str, console: Console) -> None:
    """Say that the full calibration of `day` stays; raise `InputError` where nothing is left to do.

    It took three minutes of an idle computer, and nobody sees by a prediction that it is gone.
    """
    if console.manners.output is None:
        raise InputError(
            f"this computer has a full calibration of {day}, which a quick one would replace",
            hint="--full measures as much again, --link LINK one link of it; -o FILE saves a quick "
            "one beside it, --overwrite replaces it",
        )
    console.note(f"the full calibration of {day} stays what `here` stands for")


def _measure(asked: Asked, console: Console, *, keep: bool) -> Machine:
    """This computer, measured now; as `here` if it is to be kept and what `here` stands for."""
    from planner.cli.progress import progress_on

    with progress_on(console) as progress:
        if asked.link is not None:
            from planner.engine.here import mend

            return mend(asked.link, backend=asked.backend, full=asked.full, progress=progress)
        if asked.scratch is None and keep:
            from planner.engine.here import here

            return here(
                backend=asked.backend,
                recalibrate=True,
                emulate_gpus=asked.emulate_gpus,
                progress=progress,
                full=asked.full,
                resume=asked.resume,
            )
        from planner.engine.calibrate import calibrate as measure

        return measure(
            backend=asked.backend,
            emulate_gpus=asked.emulate_gpus,
            scratch=asked.scratch,
            progress=progress,
            full=asked.full,
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
