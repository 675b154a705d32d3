"""`planner schema`: the JSON schema of what people write and of what is emitted."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from planner.cli.console import Console
from planner.cli.options import verb
from planner.errors import ExitCode

Kind = Annotated[
    Literal[
        "plan", "machine", "estimate", "run", "check", "diff", "history", "sweep", "topo", "doctor"
    ],
    typer.Option("--of", help="Of what."),
]


@verb
def schema(of: Kind = "plan", *, console: Console) -> int:
    """Print the JSON schema of a plan, a machine or a result.

    An editor that knows JSON schemas completes and checks plans with it.
    """
    from planner.report.schema import schema_text

    text = schema_text(of)
    saved = console.save(text)
    if saved is None:
        console.page(text)
    else:
        console.note(f"saved {saved}")
    return int(ExitCode.DONE)
