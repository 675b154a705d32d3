"""The verbs, and the group that imports only the one that is called.

`planner --help` imports no verb: names and their one line of help stand in `VERBS`. That keeps
the start within 0.15 s of Python's own (`benchmarks/startup.py` measures it).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

import planner
from planner.cli.manual import CODES, epilog, exit_codes
from planner.cli.options import Session, Verbose

VERBS: Final[dict[str, str]] = {
    "check": "Read plans or machine files, and report every fault at once.",
    "estimate": "Choose how to move the data and predict how long it takes.",
    "execute": "Move the data for real, and hold the measurement against the prediction.",
    "diff": "Show what changed from one result to another, and whether it may.",
    "sweep": "Estimate many variants of a plan, and name the smallest that is enough.",
    "calibrate": "Measure this computer and write its machine file.",
    "topo": "Show the places and links of a machine, as a matrix or as a tree.",
    "doctor": "Examine this computer and its calibration, and say how to mend what is wrong.",
    "history": "Show how predicted and measured went over time, and what drifted.",
    "report": "Make an HTML page or a trace of a saved result.",
    "schema": "Print the JSON schema of a plan, a machine or a result.",
}
"""Every verb with its line of help. The verb `x` is the function `x` of `planner.cli.x`."""

EPILOG: Final = exit_codes(list(CODES))


class VerbGroup(TyperGroup):
    """A group whose verbs are imported when they are called, and no earlier."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer calls it so
        """The verbs, in the order of `VERBS`."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - likewise
        """The verb's command, or `None` (which typer reports with suggestions)."""
        if cmd_name not in VERBS:
            return None
        return command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As inherited, with all verb names at hand for "did you mean"."""
        if args and args[0] not in VERBS:
            self.commands.update(dict.fromkeys(VERBS))  # type: ignore[arg-type]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """The table of verbs, without importing any."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


def command(verb: str) -> Any:
    """The typer command of `verb`; imports its module."""
    function: Callable[..., Any] = getattr(import_module(f"planner.cli.{verb}"), verb)
    single = typer.Typer(**_PLAIN)
    single.command(name=verb, context_settings=_CONTEXT, epilog=epilog(verb))(function)
    return typer.main.get_command(single)


_PLAIN: Final[dict[str, Any]] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"planner {planner.__version__}")
        raise typer.Exit


def _show_completion(shell: str | None) -> None:
    if shell:
        from planner.cli.complete import script

        typer.echo(script(shell))
        raise typer.Exit


def _group(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has ended the program
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
    show_completion: Annotated[  # noqa: ARG001 - likewise
        Literal["bash", "zsh", "fish"] | None,
        typer.Option(
            "--show-completion",
            help="Print what this shell must read to complete names.",
            callback=_show_completion,
            is_eager=True,
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """EXPLAIN and EXPLAIN ANALYZE for moving data: disk, host RAM, GPU memory.

    Write what must move in a plan; `planner estimate` says how and how long, `planner execute`
    does it and compares. `planner VERB --help` explains a verb.
    """
    if verbose:
        ctx.ensure_object(Session).verbose = True


def group() -> Any:
    """The whole command line."""
    app = typer.Typer(cls=VerbGroup, subcommand_metavar="VERB ...", **_PLAIN)
    app.callback(context_settings=_CONTEXT, epilog=EPILOG, no_args_is_help=True)(_group)
    return typer.main.get_command(app)
