"""Where a verb writes: the result to stdout, everything else to stderr.

Colour, width and characters follow the terminal and the flags. Only `NO_COLOR` and `CI` are read
from the environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import Final, Literal, TextIO

from planner.cli.save import check_writable, save_text
from planner.report.style import Style

PAGE_WIDTH: Final = 100
"""Columns of a page that goes to a file or a pipe: the same everywhere, so that pages compare."""

ColorChoice = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Manners:
    """The options that every verb has."""

    json: bool = False
    output: str | None = None
    color: ColorChoice = "auto"
    quiet: bool = False
    verbose: bool = False
    progress: bool = True
    width: int | None = None


class Console:
    """The two streams and how to write on them."""

    def __init__(
        self, manners: Manners, *, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> None:
        self.manners = manners
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        if manners.output not in (None, "-"):
            check_writable(str(manners.output))

    @property
    def json(self) -> bool:
        """Whether stdout carries JSON."""
        return self.manners.json or self.manners.output == "-"

    @property
    def style(self) -> Style:
        """How a page on stdout may look."""
        return self._style(self.stdout)

    @property
    def error_style(self) -> Style:
        """How a note on stderr may look."""
        return self._style(self.stderr)

    @property
    def live(self) -> bool:
        """Whether bars that move may be drawn on stderr: on a terminal, and never under CI."""
        return self.stderr.isatty() and not os.environ.get("CI")

    @property
    def progress(self) -> bool:
        """Whether progress is shown at all."""
        return self.manners.progress and not self.manners.quiet

    def page(self, text: str) -> None:
        """Write the result to stdout."""
        self.stdout.write(text if text.endswith("\n") else text + "\n")
        self.stdout.flush()

    def note(self, text: str) -> None:
        """Write a line for the person who watches, to stderr; silent with `--quiet`."""
        if not self.manners.quiet:
            self.stderr.write(self.error_style.spell(text) + "\n")
            self.stderr.flush()

    def complain(self, text: str) -> None:
        """Write an error to stderr, also with `--quiet`."""
        self.stderr.write(text if text.endswith("\n") else text + "\n")
        self.stderr.flush()

    def save(self, text: str) -> str | None:
        """Save `text` where `-o` says; the file's name, or `None` where there is none."""
        output = self.manners.output
        if output is None or output == "-":
            return None
        save_text(output, text if text.endswith("\n") else text + "\n")
        return output

    def _style(self, stream: TextIO) -> Style:
        return Style(
            width=self.manners.width or _columns(stream),
            color=_colored(self.manners.color, stream),
            unicode="utf" in (getattr(stream, "encoding", None) or "ascii").lower(),
        )


def _columns(stream: TextIO) -> int:
    """The terminal's width; for a file or a pipe the fixed page."""
    return shutil.get_terminal_size((PAGE_WIDTH, 24)).columns if stream.isatty() else PAGE_WIDTH


def _colored(choice: ColorChoice, stream: TextIO) -> bool:
    """NO_COLOR (https://no-color.org) decides unless the flag does."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR")
