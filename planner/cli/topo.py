"""`planner topo`: the places and links of a machine, as a matrix, a tree, or JSON."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from planner.cli import complete
from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import verb

PlanFile = Annotated[
    str | None,
    typer.Argument(
        metavar="PLAN",
        help="A plan (YAML), whose machine is shown; without it, this computer.",
        show_default=False,
        autocompletion=complete.plans,
    ),
]
MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="NAME",
        help="A machine of the catalogue, a machine file, or `here`.",
        autocompletion=complete.machines,
    ),
]
View = Annotated[Literal["matrix", "tree"], typer.Option("--view", help="How to show it as text.")]


@verb
def topo(
    plan: PlanFile = None,
    machine: MachineName = None,
    view: View = "matrix",
    *,
    console: Console,
) -> int:
    """Show the places and links of a machine, as a matrix or as a tree.

    Nothing is measured. This computer is shown as it was calibrated; where it was not, as the
    system and the driver describe it.
    """
    from planner.report.topo import topo_text
    from planner.review.topo import topo as look

    found = look(plan, machine=machine)
    return show(
        found,
        console,
        page=lambda saved: topo_text(found, console.style, view=view, saved=saved),
    )
