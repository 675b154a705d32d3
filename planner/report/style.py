"""What a page of text may use: its width, colour, and characters beyond ASCII."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Tone = Literal["good", "bad", "warn", "dim", "strong", "plain"]

# ECMA-48 select graphic rendition: 32 green, 31 red, 33 yellow, 2 faint, 1 bold.
_CODES: Final[dict[Tone, str]] = {
    "good": "32",
    "bad": "31",
    "warn": "33",
    "dim": "2",
    "strong": "1",
}

_ASCII: Final = {
    "→": "->",
    "✓": "ok",
    "✗": "no",
    "×": "x",
    "±": "+-",
    "–": "-",
    "—": "-",
    "−": "-",
    "·": "|",
    "µ": "u",
    "≥": ">=",
    "≤": "<=",
    "█": "#",
    "▏": " ",
    "▎": " ",
    "▍": " ",
    "▌": "#",
    "▋": "#",
    "▊": "#",
    "▉": "#",
    "░": ".",
    "▒": ":",
    "▓": "+",
    "│": "|",
    "├": "|",
    "└": "`",
    "─": "-",
    "←": "<-",
    "…": "...",
    "▸": ">",
    "η": "eta",
    "α": "alpha",
    "√": "sqrt",
}


# Control characters but tab and line feed (ECMA-48), and what turns the direction of writing round
# (Unicode 15, section 23.2): a terminal obeys them.
_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Style:
    """How to write a page: `width` in columns, `color` and `unicode` allowed or not.

    >>> Style(unicode=False).spell("disk0 → gpu0")
    'disk0 -> gpu0'
    """

    width: int = 100
    color: bool = False
    unicode: bool = True

    def spell(self, text: str) -> str:
        """`text` in the characters that this page may use; call it before measuring a length.

        A name or a path may hold what a terminal would obey: that is shown, and does nothing.
        """
        text = _OBEYED.sub("\ufffd", text)
        if self.unicode or text.isascii():
            return text
        spelled = "".join(_ASCII.get(character, character) for character in text)
        return spelled.encode("ascii", "replace").decode("ascii")

    def paint(self, text: str, tone: Tone) -> str:
        """`text` in a colour, where colour is allowed; never the only signal."""
        if not self.color or tone == "plain" or not text.strip():
            return text
        return f"\x1b[{_CODES[tone]}m{text}\x1b[0m"


def bar(share: float, cells: int) -> str:
    """A bar of at most `cells` characters, in eighths of a cell.

    >>> bar(0.5, 4), bar(1.0, 2), bar(0.0, 2)
    ('██', '██', '')
    """
    eighths = round(max(0.0, min(1.0, share)) * cells * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
