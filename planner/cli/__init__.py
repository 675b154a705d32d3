"""The door: one file a verb. Parse, call one function, print, give the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cli.signals import interrupts

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (those of the process if `None`); the exit code.

    Loading the program takes a fifth of a second, in which people press Ctrl-C, too.
    """
    with interrupts(for_good=arguments is None) as signals:
        try:
            from planner.cli.entry import main as run
        except KeyboardInterrupt:
            import sys

            from planner.errors import ExitCode
            from planner.report.failure import failure_json

            given = sys.argv[1:] if arguments is None else arguments
            message = "interrupted; nothing was begun"
            if "--json" in given:
                print(failure_json(ExitCode.INTERRUPTED, message, None, []))
            else:
                print(f"error: {message}", file=sys.stderr)
            return ExitCode.INTERRUPTED
        return run(arguments, ended=signals.over)
