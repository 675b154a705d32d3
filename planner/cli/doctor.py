"""`planner doctor`: what is wrong with this computer, why it matters, how to mend it."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import complete
from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import verb

MachineName = Annotated[
    str,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="`here`, or a machine (catalogue, file) of which what it says is examined.",
        autocompletion=complete.machines,
    ),
]
OnlyWord = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="WORD",
        help="Make these checks alone; repeatable.",
        autocompletion=complete.checks,
    ),
]


@verb
def doctor(machine: MachineName = "here", only: OnlyWord = None, *, console: Console) -> int:
    """Examine this computer and its calibration: links, GPUs, limits, disks.

    Nothing is measured or changed. What is found stands there with what it costs, why it matters,
    and how to mend it, the worst first.
    """
    from planner.review.doctor import doctor as ask

    return show(ask(machine, only=only or ()), console)
