"""What programs hand over, checked: the command line checks its own words before it calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.errors import InputError


def one_of(name: str, given: object, choices: Sequence[str]) -> None:
    """Raise `InputError` unless the argument `name` is one of the words."""
    if given not in choices:
        *others, last = choices
        told = f"{', '.join(others)} or {last}"
        raise InputError(f"{name} is {given!r:.60}, which is not known", hint=f"take {told}")


def whole(name: str, given: object, least: int) -> None:
    """Raise `InputError` unless the argument `name` is a whole number from `least` up."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(
            f"{name} is {given!r:.60}, which is no count", hint=f"give a number from {least} up"
        )


def factor(name: str, given: object) -> None:
    """Raise `InputError` unless the argument `name` is a number from 1 up."""
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or given < 1:  # type: ignore[operator, arg-type]
        raise InputError(f"{name} is {given!r:.60}, which is no factor", hint="give it like 1.25")


def texts(name: str, given: object) -> None:
    """Raise `InputError` unless the argument `name` is a list of texts; one text is none."""
    if isinstance(given, str):
        raise InputError(f"{name} is one text, not a list", hint=f"give {name}=[{given!r:.60}]")
    if not isinstance(given, Sequence) or not all(isinstance(item, str) for item in given):
        raise InputError(f"{name} is {given!r:.60}, not a list of texts", hint='give ["…", "…"]')
