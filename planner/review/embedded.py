"""The result that a report of ours carries: the page can be read back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

ELEMENT_ID: Final = "planner-result"
"""The `id` of the script element that holds the result as JSON."""


def embedded(page: str) -> str | None:
    """The JSON of the result in an HTML report, `None` for any other page.

    >>> embedded('<p>a</p><script type="application/json" id="planner-result">{}</script>')
    '{}'
    """
    finder = _Finder()
    finder.feed(page)
    finder.close()
    return None if finder.parts is None else "".join(finder.parts)


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
