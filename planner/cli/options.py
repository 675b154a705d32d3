"""The options that several verbs share, each with one meaning everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from planner.cli import complete
from planner.cli.console import Console, Manners
from planner.cli.save import check_writable
from planner.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Save the result as JSON; - is stdout."),
]
Color = Annotated[
    Literal["auto", "always", "never"],
    typer.Option("--color", help="Colour the text; auto: on a terminal without NO_COLOR."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the verdict alone, no progress, no warnings.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Show no progress.")]
Width = Annotated[
    int | None,
    typer.Option("--width", min=40, max=1000, metavar="N", help="Columns of the text."),
]

PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN", help="A plan (YAML).", autocompletion=complete.plans)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a variable or a key of the plan; repeatable.",
        autocompletion=complete.settings,
    ),
]
FailLink = Annotated[
    list[str] | None,
    typer.Option("--fail-link", metavar="LINK", help="Take a link out, as failed; repeatable."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="FLOW",
        help="Leave out all other flows; repeatable.",
        autocompletion=complete.flows,
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Show every rejected candidate, and the arithmetic."),
]
Backend = Annotated[
    Literal["auto", "cuda", "host", "null"],
    typer.Option(
        "--backend",
        help="What moves the bytes; auto: cuda where a GPU is, else host (emulated).",
    ),
]

Format = Annotated[
    Literal["text", "markdown", "json"],
    typer.Option("--format", help="How to print the result; json is --json."),
]
MarkdownFile = Annotated[
    str | None,
    typer.Option("--markdown", metavar="FILE", help="Save a summary for a pull request."),
]
JunitFile = Annotated[
    str | None,
    typer.Option("--junit", metavar="FILE", help="Save the verdict as JUnit XML."),
]
HtmlFile = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Save a report: one page that needs no network."),
]
TraceFile = Annotated[
    str | None,
    typer.Option("--trace", metavar="FILE", help="Save a trace for Perfetto (JSON)."),
]
MaxError = Annotated[
    str | None,
    typer.Option(
        "--max-error",
        metavar="FACTOR",
        help="Fail (12) if the prediction is off by more, either way: 1.25x.",
    ),
]

WRITTEN: Final = ("markdown", "junit", "html", "trace")
"""Options that name a file to be written beside `-o`: each is checked before the work begins."""

_SHARED: Final[dict[str, tuple[Any, Any]]] = {
    "json": (Json, False),
    "output": (Output, None),
    "color": (Color, "auto"),
    "quiet": (Quiet, False),
    "verbose": (Verbose, False),
    "no_progress": (NoProgress, False),
    "width": (Width, None),
}
"""Name, type and default of the options that every verb has."""


def all_settings(settings: list[str] | None, failed: list[str] | None) -> list[str]:
    """The settings of `--set`, and those that `--fail-link` stands for."""
    return [*(settings or ()), *(f"links.{name}.failed=true" for name in failed or ())]


class Session:
    """What `main` must know of the verb that ran: its name, its console, and whether it ended.

    `answered` tells a verb that was interrupted and said so from one that was cut off, `verbose` is
    the flag in front of the verb.
    """

    verb: str = ""
    answered: bool = False
    verbose: bool = False
    console: Console | None = None


def factor_of(text: str | None) -> float | None:
    """`1.25x`, as `--max-error` gives it, as a number from 1 up."""
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


def _check_written(written: dict[str, str], given: Iterable[object]) -> None:
    """Raise `InputError` for a file to write that is read too, or written twice, or cannot be."""
    read = [item for value in given for item in (value if isinstance(value, list) else [value])]
    seen: dict[Path, str] = {}
    for option, name in written.items():
        path = Path(name)
        if path in seen and not path.is_char_device():
            raise InputError(f"{seen[path]} and {option} name the same file, {name}")
        seen[path] = option
        if option != _OUTPUT:
            if name == "-":
                raise InputError(f"{option} wants a file", hint="--format prints to stdout")
            check_writable(name)
        for item in read if path.exists() else ():
            is_file = isinstance(item, str | Path) and Path(item).exists()
            if is_file and path.samefile(str(item)):
                raise InputError(f"{option} {name} is what is read", hint="name another file")


_OUTPUT: Final = "-o"

_SAVED: Final = {"calibrate": "a machine file (YAML)", "report": "a page (HTML)"}
"""What `-o` makes of the result of a verb, where that is no JSON of ours."""


def _shared_by(verb_name: str) -> dict[str, tuple[Any, Any]]:
    """The shared options as that verb explains them."""
    saved = _SAVED.get(verb_name)
    if saved is None:
        return _SHARED
    words = f"Save the result as {saved}; - is stdout."
    output = typer.Option("--output", "-o", metavar="FILE", help=words)
    return {**_SHARED, "output": (Annotated[str | None, output], None)}


def verb(function: Callable[..., int]) -> Callable[..., int]:
    """Give `function` the options that every verb has, and hand it a `console` made of them.

    `function` takes its own options and a keyword `console`; it returns the exit code.
    """

    @wraps(function)
    def with_console(ctx: typer.Context, **given: Any) -> int:
        shared = {name: given.pop(name) for name in _SHARED}
        shared["progress"] = not shared.pop("no_progress")
        if given.get("format") == "json":
            shared["json"] = True
        elif shared["json"] and given.get("format") not in (None, "text"):
            raise typer.BadParameter("--json and another --format contradict each other")
        written = {f"--{n}": str(given[n]) for n in WRITTEN if given.get(n) is not None}
        if shared["output"] not in (None, "-"):
            written = {_OUTPUT: str(shared["output"]), **written}
        # Before the file is checked: `main` reports also that error as the flags ask for.
        session = ctx.find_object(Session) or Session()
        session.verb = function.__name__
        shared["verbose"] = shared["verbose"] or session.verbose
        session.console = Console(Manners(**{**shared, "output": None}))
        _check_written(written, [value for name, value in given.items() if name not in WRITTEN])
        session.console = Console(Manners(**shared))
        code = function(**given, console=session.console)
        session.answered = True
        return code

    own = inspect.signature(function, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    first = inspect.Parameter("ctx", keyword, annotation=typer.Context)
    mine = [p.replace(kind=keyword) for p in own if p.name != "console"]
    shared_parameters = [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in _shared_by(function.__name__).items()
    ]
    parameters = [first, *mine, *shared_parameters]
    vars(with_console)["__signature__"] = inspect.Signature(parameters)
    with_console.__annotations__ = {p.name: p.annotation for p in parameters}
    del with_console.__wrapped__
    return with_console
