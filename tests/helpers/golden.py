"""Recorded transcripts: compare with what is on disk, or rewrite it when asked to.

A transcript is for things whose *form* is the claim (a report, an error message). Numbers that are
measured differ from run to run; mask them first, with `mask_measured` or `mask_json`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "golden"

# What `planner.units` and the reports print: 2.060 s, 12.34 ms, 6.8 GB/s, 95 %, 1.07×, 64 MiB.
# A time stands for its unit too, as 9.9 ms of one run are 10.1 ms, or 0.990 s, of the next.
_NUMBER: Final = r"(?<![\w.])[−+-]?\d+(?:[.,]\d+)*"
_KINDS: Final = (
    ("<date>", r"(?<!\d)\d{4}-\d{2}-\d{2}(?:[T ]?\d{2}:?\d{2}(?::?\d{2}(?:\.\d+)?)?Z?)?(?!\d)"),
    ("<rate>", _NUMBER + r"\s?(?:[kMGT]i?)?[Bb]/s(?!\w)"),
    ("<time>", _NUMBER + r"\s?(?:ns|us|µs|μs|ms|s|min|h)(?![\w/])"),
    ("<factor>", _NUMBER + r"\s?[×x](?!\w)"),
    ("<share>", _NUMBER + r"\s?%"),
    ("<bar>", r"[█▉▊▋▌▍▎▏░]+|#{5,}"),
)


@dataclass(frozen=True, slots=True)
class Golden:
    """Compares texts with the transcripts under `folder`; with `update` it writes them instead."""

    folder: Path = FOLDER
    update: bool = False

    def check(self, name: str, text: str) -> None:
        """Fail with a diff unless `text` is what the file `name` under the folder holds.

        Blanks at line ends are no difference: editors and hooks strip them.
        """
        path = self.folder / name
        wanted = _tidy(text)
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
            return
        if not path.exists():
            message = f"no transcript {name}; write it with `make golden` and read it"
            raise AssertionError(message)
        recorded = path.read_text(encoding="utf-8")
        if recorded != wanted:
            lines = difflib.unified_diff(
                recorded.splitlines(), wanted.splitlines(), f"recorded {name}", "now", lineterm=""
            )
            message = "\n".join(["differs; if it is meant: `make golden`", *lines])
            raise AssertionError(message)


def _tidy(text: str) -> str:
    """Cut blanks at line ends; one line feed at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def mask_measured(text: str, *, keep: tuple[str, ...] = ()) -> str:
    """Replace what a measurement may change by its kind, and runs of blanks by one.

    Times, rates, factors, shares, dates and bars go; sizes, counts and words stay, as the plan
    decides them. `keep` names kinds to leave alone: `keep=("share",)`. Leading blanks stay, so
    the outline of the text remains a claim.
    """
    for mark, pattern in _KINDS:
        if mark.strip("<>") not in keep:
            text = re.sub(pattern, mark, text)
    return "\n".join(
        line[: len(line) - len(line.lstrip())] + re.sub(r"[ \t]{2,}", " ", line.strip())
        for line in text.splitlines()
    )


def mask_json(document: Any, *, suffixes: tuple[str, ...] = ("_s",)) -> Any:
    """Copy a parsed JSON document, numbers under keys that end in a suffix replaced by `<key>`.

    `_s` covers times and rates alike (`duration_s`, `rate_bytes_per_s`); a list of samples
    becomes the list with one mark, for how many there are is a choice of the engine.
    """
    if isinstance(document, dict):
        return {
            key: _mask_leaf(value, key, suffixes)
            if key.endswith(suffixes)
            else mask_json(value, suffixes=suffixes)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [mask_json(value, suffixes=suffixes) for value in document]
    return document


def _mask_leaf(value: Any, key: str, suffixes: tuple[str, ...]) -> Any:
    """`<key>` for a number, one of them for numbers in a list; anything else is looked into."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"<{key}>"
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        return [f"<{key}>"]
    return mask_json(value, suffixes=suffixes)
