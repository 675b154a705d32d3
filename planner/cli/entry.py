"""`main`: run one verb; turn what it returns or raises into text and an exit code."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from planner.cli.app import group
from planner.cli.console import Console, Manners
from planner.cli.options import Session
from planner.cli.streams import OutputError, discard, guarded
from planner.errors import ExecutionError, ExitCode, PlannerError

# typer's own names for them are not public: BadParameter -> UsageError -> ClickException.
_USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]
_CLICK_ERROR: Final[Any] = typer.BadParameter.__mro__[2]

COMPLETING: Final = "_PLANNER_COMPLETE"
"""Set by the script of a shell (`--show-completion`) when it asks what fits."""

_COLLECT_AFTER: Final = 200_000
"""Objects made before the collector looks for cycles. Imports make about 100,000 that stay: at
Python's own 700 the collector takes a tenth of the start (measured 2026-11-29, Python 3.11)."""

_UNDONE: Final = {
    "estimate": "nothing estimated",
    "execute": "nothing executed",
    "sweep": "nothing estimated",
    "calibrate": "nothing measured",
    "diff": "nothing compared",
}


def main(
    arguments: Sequence[str] | None = None, *, ended: Callable[[], None] = lambda: None
) -> int:
    """Run the command line `arguments` (those of the process if `None`); the exit code.

    `ended` is called once that is known: what follows is the end of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    session = Session()
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = guarded(sys.stdout, must=True), guarded(sys.stderr, must=False)
    try:
        code = _run(given, session)
        ended()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has left, `planner … | head`
        discard(sys.stdout)
        return int(ExitCode.DONE)
    except OutputError as error:  # also where an error was to be told as JSON
        sys.stderr.write(f"error: {error.message}\n")
        return int(error.exit_code)
    finally:
        gc.set_threshold(*before)
        sys.stdout, sys.stderr = streams
        if arguments is None:
            # The process ends here, and its memory with it: what is left need not be searched for
            # cycles once more, which takes an eighth of an estimate (measured 2026-11-29).
            gc.freeze()
    return code


def _run(given: list[str], session: Session) -> int:
    if COMPLETING in os.environ:
        from typer._completion_classes import completion_init

        completion_init()  # typer's dialects of the shells; the group below answers and ends
    try:
        _refuse_bytes(given)
        answer = group().main(args=given, prog_name="planner", standalone_mode=False, obj=session)
    except _CLICK_ERROR as error:
        return _usage(error, _console(session, given))
    except (OutputError, BrokenPipeError):
        raise
    except (PlannerError, MemoryError) as error:
        explain = "--explain" in given
        return _planner_error(
            _in_words(error), _console(session, given), session.verb, explain=explain
        )
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(_console(session, given))
    except SystemExit as end:  # typer leaves like this when the reader of our output has left
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        raise
    except Exception as error:  # noqa: BLE001 - the one place where a bug becomes an exit code
        return _bug(error, _console(session, given))
    # typer turns Ctrl-C into this without a word; a verb that keeps what is done has said so.
    if answer == ExitCode.INTERRUPTED and not session.answered:
        return _interrupted(_console(session, given))
    return int(answer or ExitCode.DONE)


def _refuse_bytes(given: Sequence[str]) -> None:
    """Raise a usage error for a word that is no UTF-8, as names in plans and results are."""
    for word in given:
        shown = os.fsencode(word).decode(errors="backslashreplace")
        if shown != word:
            hint = "; rename the file" if Path(word).exists() else ""
            raise _USAGE_ERROR(f'the word "{shown}" is not UTF-8{hint}')


def _console(session: Session, given: list[str]) -> Console:
    """The verb's console, or one made of the bare words where parsing did not get that far."""
    if session.console is not None:
        return session.console
    words = given[: given.index("--")] if "--" in given else given
    verbose = "-v" in words or "--verbose" in words
    return Console(Manners(json="--json" in words, verbose=verbose))


def _usage(error: Any, console: Console) -> int:
    """Report a wrong command line; a call without any verb shows the help instead."""
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        console.page(context.get_help())
        return int(ExitCode.USAGE)
    message = error.format_message()
    hint = f"Try '{context.command_path} --help'." if context is not None else None
    usage = context.get_usage() if context is not None else ""
    return _report(console, ExitCode.USAGE, message, hint=hint, before=usage)


def _planner_error(error: PlannerError, console: Console, verb: str, *, explain: bool) -> int:
    from planner.report.failure import failure_text

    code = ExitCode(error.exit_code)
    if console.manners.verbose:
        traceback.print_exception(error, file=console.stderr)
    if console.json:
        found = {name: getattr(error, name, ()) for name in ("faults", "reasons")}
        _print_json(console, code, error.message, error.hint, **found)
    else:
        style, undone = console.error_style, _UNDONE.get(verb, "")
        console.complain(failure_text(error, style, undone=undone, explain=explain))
    return int(code)


def _in_words(error: PlannerError | MemoryError) -> PlannerError:
    """The error; memory that is used up is no bug, and says no word of what to do."""
    if isinstance(error, PlannerError):
        return error
    found = f": {error}" if str(error) else ""
    hint = "take a smaller size, fewer workers, or a higher limit (ulimit -v, the cgroup's)"
    told = ExecutionError(f"memory is used up{found}", hint=hint)
    return told.with_traceback(error.__traceback__)


def _interrupted(console: Console) -> int:
    message = "interrupted; nothing half-written is kept"
    kept = console.manners.output
    if kept not in (None, "-"):
        message += f", and {kept} was not touched"
    return _report(console, ExitCode.INTERRUPTED, message)


def _bug(error: Exception, console: Console) -> int:
    if console.manners.verbose:
        traceback.print_exception(error, file=console.stderr)
    message = f"a bug in planner: {type(error).__name__}: {error}".split("\n", 1)[0]
    hint = None if console.manners.verbose else "-v shows the traceback; please report it."
    return _report(console, ExitCode.BUG, message, hint=hint)


def _report(
    console: Console, code: ExitCode, message: str, *, hint: str | None = None, before: str = ""
) -> int:
    """Print an error that is not about a file, as text or as JSON; its exit code."""
    if console.json:
        _print_json(console, code, message, hint)
    else:
        lines = [before, f"error: {message}", hint or ""]
        console.complain(console.error_style.spell("\n".join(line for line in lines if line)))
    return int(code)


def _print_json(
    console: Console,
    code: ExitCode,
    message: str,
    hint: str | None,
    faults: Sequence[Any] = (),
    reasons: Sequence[str] = (),
) -> None:
    from planner.report.failure import failure_json

    console.page(failure_json(int(code), message, hint, faults, reasons=reasons))
