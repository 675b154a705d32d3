"""Standard streams that may be full, closed, or unable to spell a character.

What cannot be written to stdout ends the verb with one line; what cannot be written to stderr is
lost, for there is nobody left to tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from planner.errors import ExecutionError


class OutputError(ExecutionError):
    """The result is there, but stdout does not take it."""


class Stream:
    """A text stream, `None` if it was closed before the process began.

    Everything else is that of the stream itself.
    """

    def __init__(self, stream: TextIO | None, *, must: bool) -> None:
        self._stream = stream
        self._must = must

    def __getattr__(self, name: str) -> Any:
        """Whatever the stream itself has."""
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        """Write, with escapes for characters that the stream cannot spell."""
        if text == "":  # asked by those who want to know what kind of stream this is
            return 0
        with self._told():
            if self._stream is None:
                raise OSError("it is closed")
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:
                self._stream.write(_escaped(text, error.encoding))
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        with self._told():
            if self._stream is not None:
                self._stream.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if self._must:
                raise
            discard(self._stream)
        except (OSError, ValueError) as error:  # a closed file is a ValueError
            discard(self._stream)
            if self._must:
                reason = getattr(error, "strerror", None) or str(error)
                raise OutputError(f"cannot write to stdout: {reason}") from error


def guarded(stream: TextIO | None, *, must: bool) -> TextIO:
    """The stream as a `Stream`; with `must`, failing to write it raises `OutputError`."""
    return cast("TextIO", Stream(stream, must=must))


def discard(stream: TextIO | None) -> None:
    """Let what is still to be written go nowhere: Python flushes once more at its end."""
    # A closed stream, and one in memory, has no number.
    with suppress(AttributeError, OSError, ValueError):
        number = stream.fileno()  # type: ignore[union-attr]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        if nowhere != number:
            os.close(nowhere)


def _escaped(text: str, encoding: str) -> str:
    """The text with JSON's own escapes for what the encoding lacks."""

    def spelled(character: str) -> str:
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            units = character.encode("utf-16-be", "surrogatepass")
            pairs = zip(units[::2], units[1::2], strict=True)
            return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs)
        return character

    return "".join(map(spelled, text))
