r"""Pieces of Markdown for pull requests: escaping, tables, folds, and the limit on the length.

>>> table(["Flow", "Time"], [["a|b", "1 s"]], "lr").splitlines()
['| Flow | Time |', '|:--|--:|', '| a\\|b | 1 s |']
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LIMIT: Final = 65_536
"""Characters that a comment on GitHub may have."""
_NOTE: Final = 400
"""Characters kept free for the sentence that says what was left out."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~!$])")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `align` has `l` or `r` for each column; `rows` are escaped already or plain."""

    titles: Sequence[str]
    align: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part that may be left out or cut short where the page grows too long.

    `name` says what it holds, for the sentence about what was left out; `summary` folds it.
    """

    name: str
    content: Table | Sequence[str]
    summary: str | None = None


def escape(text: str) -> str:
    r"""`text` so that Markdown shows it as it is, on one line.

    >>> escape("a_b | <c>")
    'a\\_b \\| \\<c\\>'
    """
    flat = " ".join(text.split())
    # A name after @ would call a person: an empty character between them prevents it.
    return _SPECIAL.sub(r"\\\1", flat).replace("@", "@\u200b").replace("&", "&amp;")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A table of plain texts, which are escaped here."""
    lines = [_row(titles), "|" + "|".join(":--" if a == "l" else "--:" for a in align) + "|"]
    return "\n".join([*lines, *(_row([escape(cell) for cell in row]) for row in rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def marker(name: str) -> str:
    """The hidden comment by which a bot finds its own post again: `<!-- planner:llm-load -->`."""
    # Two dashes would end the comment.
    safe = re.sub(r"[^\w.]+", "-", name).strip("-")
    return f"<!-- planner:{safe} -->"


def page(headline: str, sections: Sequence[Section], name: str, *, limit: int = LIMIT) -> str:
    """The headline, as many sections as fit, what was left out, and the marker of `name`.

    Parameters
    ----------
    headline
        the verdict, one line, escaped.
    sections
        the most important first: those at the end are cut first.
    name
        the plan's name.
    limit
        the most characters; never fewer than the headline and the marker take.
    """
    end = f"{marker(name)}\n"
    parts = [f"### {_shortened(headline, limit - len(end) - _NOTE)}"]
    left = limit - len(parts[0]) - len(end) - _NOTE - 4
    dropped: list[str] = []
    for section in sections:
        text, missing = _fitted(section, left)
        if missing:
            dropped.append(missing)
        if text:
            parts.append(text)
            left -= len(text) + 2
    if dropped:
        parts.append(_left_out(dropped, limit))
    return "\n\n".join([*parts, end])


def _shortened(text: str, room: int) -> str:
    """`text`, cut with dots at a blank where it is longer than `room`."""
    if len(text) <= room:
        return text
    return text[: max(0, room - 2)].rpartition(" ")[0].rstrip("\\") + " …"


def _left_out(dropped: Sequence[str], limit: int) -> str:
    """What is missing, in one sentence that is shorter than the room kept for it."""
    start = f"> Left out to stay within {limit:,} characters: "
    return _shortened(f"{start}{', '.join(dropped)}.", _NOTE - 4)


def _fitted(section: Section, room: int) -> tuple[str, str]:
    """The section's text, cut to `room`, and what is missing from it."""
    lines = _lines(section.content)
    head, tail = _frame(section)
    fixed = 2 if isinstance(section.content, Table) else 0
    used, kept = len(head) + len(tail), 0
    for line in lines:
        if used + len(line) + 1 > room:
            break
        used += len(line) + 1
        kept += 1
    if kept == len(lines):
        return head + "\n".join(lines) + tail, ""
    if kept <= fixed:
        return "", section.name
    missing = len(lines) - kept
    return head + "\n".join(
        lines[:kept]
    ) + tail, f"{missing} of {len(lines) - fixed} {section.name}"


def _lines(content: Table | Sequence[str]) -> list[str]:
    if isinstance(content, Table):
        return table(content.titles, content.rows, content.align).split("\n")
    return [f"- {escape(line)}" for line in content]


def _frame(section: Section) -> tuple[str, str]:
    """What stands before and after the lines of a section that is folded."""
    if section.summary is None:
        return "", ""
    return f"<details><summary>{html.escape(section.summary)}</summary>\n\n", "\n\n</details>"
