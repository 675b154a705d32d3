"""Small words that many messages share, each written in one way."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 40
"""Characters of somebody's text that an error repeats: enough to know it again."""


def counted(number: int, thing: str) -> str:
    """A number and what it counts.

    >>> counted(1, "worker"), counted(12, "worker")
    ('1 worker', '12 workers')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def quoted(text: str) -> str:
    """What somebody wrote, in quotes; of a long text the beginning, and how long it is.

    >>> quoted(" 14 "), quoted("9" * 5000)
    ('"14"', '"9999999999999999999999999999999999999999…" (5000 characters)')
    """
    spelled = text.strip()
    shown = begun(spelled)
    return f'"{spelled}"' if shown == spelled else f'"{shown}" ({len(spelled)} characters)'


def begun(text: str) -> str:
    """A text, or the beginning of a long one."""
    return text if len(text) <= 2 * _SHOWN else f"{text[:_SHOWN]}…"
