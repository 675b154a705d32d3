"""`planner history`: how predicted and measured went over time, what drifted; runs shown again."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli import complete
from planner.cli.answer import show
from planner.cli.console import Console
from planner.cli.options import verb
from planner.cli.save import save_text
from planner.errors import ExitCode

if TYPE_CHECKING:
    from planner.review.history.store import Which

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[show ID | forget [ID...]]",
        help="A kept run to print, or runs to take out; without it, the trends.",
        show_default=False,
        autocompletion=complete.history_words,
    ),
]
PlanName = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="NAME", help="Of this plan.", autocompletion=complete.kept_plans
    ),
]
MachineName = Annotated[
    str | None,
    typer.Option(
        "--machine", metavar="NAME", help="On this machine.", autocompletion=complete.kept_machines
    ),
]
LinkName = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="LINK",
        help="Of this link: pcie0, or its ends host0->gpu0.",
        autocompletion=complete.kept_links,
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="From this day on: 2026-11-29 (UTC)."),
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="DATE", help="forget: runs before this day.")
]
Everything = Annotated[bool, typer.Option("--all", help="forget: every run.")]
Yes = Annotated[bool, typer.Option("--yes", help="forget: without a question.")]
Latest = Annotated[
    int, typer.Option("--latest", min=0, metavar="N", help="How many of the latest runs to list.")
]
Csv = Annotated[
    str | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Write every figure of every run as CSV; - is stdout, instead of the page.",
    ),
]
FailOnDrift = Annotated[
    bool, typer.Option("--fail-on-drift", help="Fail (11) if something drifted for the worse.")
]

_DAY: Final = "%Y-%m-%d"
_DIGITS: Final = 100
"""More than any run's number has; Python reads no number of some thousand digits."""


@verb
def history(
    what: What = None,
    plan: PlanName = None,
    machine: MachineName = None,
    link: LinkName = None,
    since: Since = None,
    before: Before = None,
    latest: Latest = 5,
    csv: Csv = None,
    fail_on_drift: FailOnDrift = False,
    everything: Everything = False,
    yes: Yes = False,
    *,
    console: Console,
) -> int:
    """Show how predicted and measured went over time, and what drifted.

    Each run of `planner execute` is kept in $PLANNER_STATE_DIR/history.sqlite3, else in
    $XDG_STATE_HOME/planner, else in ~/.local/state/planner. `history show ID` prints one again
    (-o saves it), `history forget` takes runs out.
    """
    from planner.review.history.store import Which

    words = what or []
    forgets = words[:1] == ["forget"]
    if not forgets and (before or everything or yes):
        raise typer.BadParameter("--before, --all and --yes are for `planner history forget`")
    which = Which(
        plan=plan, machine=machine, link=link, since_s=_time(since), before_s=_time(before)
    )
    if words[:1] == ["show"] and len(words) == 2:
        return _show(_number(words[1]), console)
    if forgets:
        ids = tuple(_number(word) for word in words[1:])
        return _forget(which, ids, console, everything=everything, yes=yes)
    if words:
        raise typer.BadParameter(f'"{" ".join(words)}": say show ID, or forget, or nothing')
    if csv == "-" and console.json:
        raise typer.BadParameter("--csv - and --json both write to stdout: take one of them")
    if csv is not None:
        _export(which, csv, console)
        if csv == "-":
            return int(ExitCode.DONE)
    from planner.review.history.trend import history as ask

    return show(ask(which, latest=latest, fail_on_drift=fail_on_drift), console)


def _time(day: str | None) -> float | None:
    """Seconds since 1970 of the begin of a day (UTC)."""
    if day is None:
        return None
    try:
        return datetime.strptime(day, _DAY).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise typer.BadParameter(f'"{day}" is no day like 2026-11-29') from error


def _number(word: str) -> int:
    if not word.isdecimal() or len(word) > _DIGITS:
        raise typer.BadParameter(f'"{word}" is no number of a run; `planner history` lists them')
    return int(word)


def _show(number: int, console: Console) -> int:
    """Print a kept run as `planner execute` did; its exit code is that of its verdict."""
    from planner.review.history.store import Store

    with Store.open() as store:
        run = store.find(number)
    return show(run, console)


def _forget(
    which: Which, ids: tuple[int, ...], console: Console, *, everything: bool, yes: bool
) -> int:
    """Take runs out, after a question that only a terminal can answer."""
    from dataclasses import replace

    from planner.review.history.store import Store

    if which.link is not None:
        raise typer.BadParameter("a run is forgotten whole: --link has no meaning for forget")
    if console.json:
        raise typer.BadParameter("forget has no result to print: leave out --json")
    which = replace(which, ids=ids)
    narrowed = which.where()[1]
    if bool(narrowed) == everything:
        raise typer.BadParameter(
            "forget which runs? name them, or --plan, --machine, --since, --before; or --all alone"
        )
    with Store.open(write=True) as store:
        count = store.count(which)
        told = "1 run" if count == 1 else f"{count} runs"
        if count and not yes:
            if not console.stderr.isatty():
                raise typer.BadParameter(f"{told} would be forgotten for good: say so with --yes")
            typer.confirm(f"Forget {told} of {store.path} for good?", abort=True, err=True)
        gone = store.forget(which) if count else 0
    console.page("1 run is forgotten." if gone == 1 else f"{gone} runs are forgotten.")
    return int(ExitCode.DONE)


def _export(which: Which, target: str, console: Console) -> None:
    """Write every figure of every run, one a line, the oldest first."""
    from planner.review.history.export import COLUMNS, figures
    from planner.review.history.store import Store

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    with Store.open() as store:
        rows.writerows(figures(store, which))
    if target == "-":
        console.page(text.getvalue())
    else:
        save_text(target, text.getvalue())
        console.note(f"saved {target}")
