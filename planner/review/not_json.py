"""What is said of a saved result whose JSON cannot be read: cut off, or broken inside."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, Final, NoReturn

from planner.errors import InputError

_WORDS: Final = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_IN_NUMBER: Final = re.compile(r"\.|[eE][+-]?")
"""What of a number the parser has left over where its digits are missing."""
_ESCAPE: Final = 6
"""Characters of `\\u00e9`."""


def read_json(text: str) -> Any:
    """What a JSON text states; raises `ValueError` also for what Python alone takes for a number.

    No result holds NaN or an infinity: whoever wrote one did not mean it.
    """
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of all proportion")
    return number


def not_json(
    path: str | os.PathLike[str], text: str, error: ValueError | RecursionError, *, hint: str
) -> InputError:
    """The error for the text of a file, with the place where it ends or goes wrong."""
    if not isinstance(error, json.JSONDecodeError):
        return InputError(f"{path} is not JSON: {error}", hint=hint)
    if _ends_early(text, error):
        lines = text.count("\n") + 1
        return InputError(
            f"{path} is cut off: its JSON ends early, after {len(text)} characters in line {lines}",
            hint=hint,
        )
    place = f"line {error.lineno}, column {error.colno}"
    return InputError(f"{path} is not JSON: {error.msg} in {place}", hint=hint)


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text stops before its value is over, rather than going wrong on the way."""
    if error.msg.startswith("Unterminated string"):  # it starts anywhere, and never ends
        return True
    rest = text[error.pos :].rstrip()
    if error.msg.startswith("Invalid \\u"):
        return len(rest) < _ESCAPE and '"' not in rest
    begun = any(word.startswith(rest) for word in _WORDS)  # also where nothing is left
    return begun or _IN_NUMBER.fullmatch(rest) is not None
