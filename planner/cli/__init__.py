"""The door: one file a verb. Parse, call one function, print, give the exit code."""

from planner.cli.entry import main

__all__ = ["main"]
