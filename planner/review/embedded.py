"""The result that a report of ours carries: the page can be read back."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from typing import Final

from planner.errors import InputError

ELEMENT_ID: Final = "planner-result"
"""The `id` of the script element that holds the result as JSON."""

_PAGE: Final = re.compile(r"\s*<(!doctype\s+html|html)\b", re.IGNORECASE)
_GENERATOR: Final = '<meta name="generator" content="planner '
"""Stands in the head of every report."""


def embedded(page: str) -> str | None:
    """The JSON of the result in an HTML report, `None` for any other page.

    >>> embedded('<p>a</p><script type="application/json" id="planner-result">{}</script>')
    '{}'
    """
    finder = _Finder()
    finder.feed(page)
    finder.close()
    return None if finder.parts is None else "".join(finder.parts)


def is_page(text: str) -> bool:
    r"""Whether a text begins as an HTML page does; a plan may begin with `<<`, too.

    >>> is_page("\n<!DOCTYPE html><html>"), is_page("<<: {version: 1}")
    (True, False)
    """
    return _PAGE.match(text) is not None


def no_result_in(path: str | os.PathLike[str], page: str) -> InputError:
    """The error for a page without a result: a report of ours that is cut off, or another page.

    The result stands at the end of a report, so what was copied or written half has none.
    """
    if _GENERATOR in page and "</html>" not in page:
        return InputError(
            f"{path} is a report that is cut off after {len(page)} characters: the result at its"
            " end is missing",
            hint="copy it again, or make it anew: `planner report RESULT -o FILE`",
        )
    return InputError(
        f"{path} is HTML, but no report of planner: no result lies in it",
        hint="`planner report RESULT -o FILE` writes one that can be read back",
    )


class _Finder(HTMLParser):
    """Collects the text of the one element; `parts` is `None` until it has begun."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] | None = None
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin where the element does."""
        if tag == "script" and dict(attrs).get("id") == ELEMENT_ID:
            self._inside, self.parts = True, []

    def handle_endtag(self, tag: str) -> None:
        """End with it."""
        if tag == "script":
            self._inside = False

    def handle_data(self, data: str) -> None:
        """Keep what stands inside: the text of a script is never taken for HTML."""
        if self._inside and self.parts is not None:
            self.parts.append(data)
