"""Quantities as fields of schemas: written with a unit in YAML, numbers in our own JSON.

They stand apart from `units`, which a load of weights needs too: it has no schemas, and importing
pydantic takes as long as the rest of its imports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from planner.units import parse_rate, parse_size, parse_time

SIZE_PATTERN: Final = (
    r"^\s*[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*(([kKMGTP]|[KMGTP]i)?B)?\s*$"
)
TIME_PATTERN: Final = r"^\s*[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*(ns|us|µs|ms|s|min|h)?\s*$"
RATE_PATTERN: Final = (
    r"^\s*[0-9][0-9_]*(\.[0-9]*)?([eE][+-]?[0-9]+)?\s*(([kKMGTP]|[KMGTP]i)?(B|b)(/s|ps))?\s*$"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a field holds, for messages about what is no quantity at all: `a time`, and one."""

    kind: str
    example: str


def _field(
    parse: Callable[[str], Any], pattern: str, quantity: Quantity, about: str
) -> tuple[Any, ...]:
    """Pydantic annotations of a quantity: text is parsed, numbers (of our JSON) pass."""

    def read(value: object) -> object:
        return parse(value) if isinstance(value, str) else value

    schema = {
        "anyOf": [
            {"type": "string", "pattern": pattern},
            {"type": "string", "pattern": r"\$"},  # a variable stands in it
            {"type": "number", "minimum": 0},
        ],
        "description": about,
        "examples": [quantity.example],
    }
    return BeforeValidator(read), WithJsonSchema(schema), quantity


_SIZE: Final = Quantity("a size", "14GB")
_TIME: Final = Quantity("a time", "12ms")
_RATE: Final = Quantity("a rate", "25GB/s")

Bytes = Annotated[int, *_field(parse_size, SIZE_PATTERN, _SIZE, "Bytes, with a unit: 14GB, 64MiB")]
Seconds = Annotated[float, *_field(parse_time, TIME_PATTERN, _TIME, "Seconds, with a unit: 12ms")]
BytesPerSecond = Annotated[
    float, *_field(parse_rate, RATE_PATTERN, _RATE, "Bytes per second, with a unit: 25GB/s")
]
