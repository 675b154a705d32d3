"""The small types of a plan: each reads what a person writes and passes what our own JSON holds.

Every scalar of a plan arrives here as text (YAML never guesses a type), so each type parses text
and lets values of the right type through. A value that cannot be read raises `WrittenError`,
which, like `UnitError`, carries a message and a suggestion but no position.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from planner.units import parse_count, parse_share
from planner.wording import quoted

MOST_COPIES: Final = 1_000_000
"""Flows that one `for_each`, or one range of it, may stand for: more than any machine has of
anything; guards against a typing slip."""

_RANGE = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*", re.ASCII)

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}


class WrittenError(ValueError):
    """A value that cannot be read; `suggestion` says how to write it."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def _from_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """A validator that parses text and passes everything else on."""

    def read(value: object) -> object:
        return parse(value) if isinstance(value, str) else value

    return BeforeValidator(read)


def _parse_number_from_one(text: str) -> int:
    count = parse_count(text)
    if count < 1:
        raise WrittenError(f"{quoted(text)} is less than one", "write a whole number from 1 up")
    return count


def _parse_fraction(text: str) -> float:
    share = parse_share(text)
    if share == 0:
        raise WrittenError(f"{quoted(text)} touches nothing", "write a share above 0, like 25%")
    return share


def _parse_cache(text: str) -> str | float:
    word = text.strip()
    if word in ("auto", "warm", "cold"):
        return word
    if not word[:1].isdigit():
        raise WrittenError(
            f"{quoted(word)} is not a cache state",
            "use auto, warm, cold or the cached share, like 40%",
        )
    return parse_share(word)


def _one_or_many(value: object) -> object:
    """One text as a list of one; a list as it is."""
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    return value


def parse_range(text: str) -> tuple[int, ...]:
    """The numbers of `0..63` (both ends count) or of a single `5`."""
    match = _RANGE.fullmatch(text)
    if match is None:
        try:
            return (parse_count(text),)
        except ValueError as error:
            raise WrittenError(
                f"{quoted(text)} is not a range", "write it like 0..7 or [0, 2, 4]"
            ) from error
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise WrittenError(f"{quoted(text)} runs backwards", f"write {last}..{first}")
    if last - first >= MOST_COPIES:
        raise WrittenError(
            f"{quoted(text)} has {last - first + 1} values", f"at most {MOST_COPIES} are allowed"
        )
    return tuple(range(first, last + 1))


def _read_values(value: object) -> object:
    """The values of one `for_each` key: a range, or a list of ranges and numbers, each once."""
    if isinstance(value, str):
        return parse_range(value)
    if not isinstance(value, list):
        return value
    numbers: list[int] = []
    for item in value:
        if not isinstance(item, str | int):
            raise WrittenError("each value must be a number or a range", "write it like [0, 2, 4]")
        numbers.extend(parse_range(item) if isinstance(item, str) else (item,))
    if not numbers:
        raise WrittenError("no values are given", "write a range like 0..7")
    if len(set(numbers)) != len(numbers):
        raise WrittenError("a value is given twice", "list each number once")
    return tuple(numbers)


Text = Annotated[str, Field(strict=True)]

Words = Annotated[
    tuple[Text, ...],
    BeforeValidator(_one_or_many),
    WithJsonSchema({"anyOf": [_STRING, _STRINGS]}),
]
"""One name, or a list of names."""

Count = Annotated[
    int,
    _from_text(_parse_number_from_one),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {**_STRING, "pattern": r"^\$"}]}),
]
"""A whole number from 1 up."""

Whole = Annotated[
    int,
    _from_text(parse_count),
    Field(ge=0),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {**_STRING, "pattern": r"^\$"}]}),
]
"""A whole number from 0 up."""

Fraction = Annotated[
    float,
    _from_text(_parse_fraction),
    Field(gt=0, le=1),
    WithJsonSchema({"anyOf": [_STRING, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]}),
]
"""A share above 0, up to 1."""

Cache = Annotated[
    Literal["auto", "warm", "cold"] | Annotated[float, Field(ge=0, le=1)],
    _from_text(_parse_cache),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto", "warm", "cold"]},
                {**_STRING, "pattern": r"^(\d+(\.\d*)?\s*%?|\$\w+)$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]
"""What is known of the page cache: a word, or the cached share of the file."""

Values = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...],
    BeforeValidator(_read_values),
    WithJsonSchema(
        {
            "anyOf": [
                _STRING,
                {"type": "integer"},
                {"type": "array", "items": {"type": ["integer", "string"]}},
            ]
        }
    ),
]
"""The values that one `for_each` key takes."""


def read_strategy(value: object) -> object:
    """One strategy for all hops, or a mapping of `a -> b` to a strategy; spaces made even."""
    if not isinstance(value, Mapping):
        return value
    even: dict[object, object] = {}
    for hop, strategy in value.items():
        ends = [end.strip() for end in str(hop).split("->")]
        if len(ends) != 2 or not all(ends):
            raise WrittenError(f"{quoted(str(hop))} is not a hop", 'write it like "host0 -> gpu0"')
        even[f"{ends[0]} -> {ends[1]}"] = strategy
    return even


NAME: Final = re.compile(r"\w[\w-]*")
"""What a flow or a compute block may be called: no dots, which separate it from its metrics."""

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


def placeholders(name: str) -> tuple[str, ...]:
    """The `for_each` keys in a node name: `node` and `gpu` of `node{node}.gpu{gpu}`."""
    return tuple(_PLACEHOLDER.findall(name))


def fill(name: str, values: Mapping[str, int]) -> str:
    """The node name that `name` is for one copy of a flow.

    >>> fill("node{node}.gpu{gpu}", {"node": 3, "gpu": 0})
    'node3.gpu0'
    """
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), name)
