"""The axes of a sweep: which keys change, and which values each of them takes.

A key is what `--set` takes: a variable, a key of the plan, a figure of the machine, `machine` or
`nodes`. Its values are a list, or a range with its ends: `{from: 1MiB, to: 256MiB, times: 4}`
multiplies, `{from: 1, to: 9, step: 2}` adds, and counts go one by one without either. A value is
kept as the text that `--set` would get, so a point of a sweep is the plan with a handful of
settings, and nothing else.

>>> read_axis("chunk", {"from": "64KiB", "to": "4MiB", "times": "8"})
Axis(key='chunk', values=('64KiB', '512KiB', '4MiB'))
>>> read_axis("rate", {"from": "10GB/s", "to": "20GB/s", "step": "5GB/s"}).values
('10GB/s', '15GB/s', '20GB/s')
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any, Final

from planner.plan.words import WrittenError
from planner.wording import quoted

MOST_VALUES: Final = 10_000
"""Values of one axis: a slip in `step` would write far more."""
MOST_POINTS: Final = 100_000
"""Points of one sweep: a quarter of an hour on one core at 10 ms each."""

_RANGE_KEYS: Final = frozenset({"from", "to", "times", "step"})
_QUANTITY: Final = re.compile(
    r"\s*(?P<number>[+-]?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>\D*)"
)
_EXAMPLE: Final = "write [1MiB, 16MiB] or {from: 1MiB, to: 256MiB, times: 4}"

_STEPS: Final = "write times: 4 to multiply, step: 4MiB to add"

_DECIMAL: Final = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
# What units may stand in for each other, each with its size in the smallest one of the kind.
_KINDS: Final[tuple[dict[str, Decimal], ...]] = (
    {f"{p}B": Decimal(10**e) for p, e in _DECIMAL.items()}
    | {f"{p}B": Decimal(2**e) for p, e in _BINARY.items()},
    {f"{p}B/s": Decimal(10**e) for p, e in _DECIMAL.items()}
    | {f"{p}B/s": Decimal(2**e) for p, e in _BINARY.items()}
    | {f"{p}b/s": Decimal(10**e) / 8 for p, e in _DECIMAL.items()},
    {"ns": Decimal(1), "us": Decimal(10**3), "ms": Decimal(10**6), "s": Decimal(10**9)}
    | {"min": Decimal(60 * 10**9), "h": Decimal(3600 * 10**9)},
    {"%": Decimal(1)},
    {"x": Decimal(1)},
    {"": Decimal(1)},
)
_LADDERS: Final = (
    ("B", "kB", "MB", "GB", "TB", "PB"),
    ("KiB", "MiB", "GiB", "TiB", "PiB"),
    ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"),
    ("KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"),
    ("b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s"),
    ("ns", "us", "ms", "s"),
)
"""Units that one writes a value in, by the unit that its range starts with."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One key of a sweep and the values that it takes, each as `--set` takes it."""

    key: str
    values: tuple[str, ...]


class AxisError(WrittenError):
    """An axis that cannot be read; `index` is the value at fault, `None` for all of it."""

    def __init__(
        self, message: str, suggestion: str | None = None, *, index: int | None = None
    ) -> None:
        super().__init__(message, suggestion)
        self.index = index


def read_axis(key: str, written: object) -> Axis:
    """The axis that plain data describes: text, lists and mappings, as the plan's reader gives.

    Raises `AxisError` that says what is wrong.
    """
    if isinstance(written, Mapping):
        return Axis(key, tuple(_range(written)))
    if not isinstance(written, list):
        if written == "":
            raise AxisError("has no values", _EXAMPLE)
        return Axis(key, (_text(written),))
    if not written:
        raise AxisError("has no values", _EXAMPLE)
    values = [_text(value) for value in written]
    for index, value in enumerate(values):
        if value == "":
            raise AxisError("this value is empty", "take it out of the list", index=index)
        if value in values[:index]:
            raise AxisError(f"{value} is given twice", "give each value once", index=index)
    return Axis(key, tuple(values))


def points(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Every combination of the axes' values; the last axis turns fastest."""
    return list(product(*(axis.values for axis in axes)))


def count(axes: Iterable[Axis]) -> int:
    """How many points there are."""
    return math.prod(len(axis.values) for axis in axes)


def setting(axis: Axis, value: str) -> str:
    """The text that `--set` takes for `value` of the axis."""
    return f"{axis.key}={value}"


def magnitude(value: str) -> float | None:
    """The size of a quantity, to put the values of one axis in order; `None` for other text.

    >>> magnitude("64KiB") < magnitude("1MB"), magnitude("true")
    (True, None)
    """
    try:
        number, unit = _quantity(value)
    except AxisError:
        return None
    return float(number * next(kind[unit] for kind in _KINDS if unit in kind))


def _text(value: object) -> str:
    """A value as `--set` takes it: lists and mappings in YAML's brackets and braces."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_quoted(str(k))}: {_inside(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_inside(item) for item in value)}]"
    return str(value)


def _inside(value: object) -> str:
    return _text(value) if isinstance(value, Mapping | list | tuple) else _quoted(str(value))


def _quoted(text: str) -> str:
    """Text that stays one value inside brackets."""
    plain = re.fullmatch(r"[\w./*~$%-][\w ./*~$%>-]*", text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _range(written: Mapping[str, Any]) -> list[str]:
    """The values of `{from, to, times}` or `{from, to, step}`."""
    for key in written:
        if key not in _RANGE_KEYS:
            raise AxisError(f'a range has no "{key}"', "it has from, to, and times or step")
    if "from" not in written or "to" not in written:
        raise AxisError("a range has both ends", _EXAMPLE)
    if "times" in written and "step" in written:
        raise AxisError("takes times or step, not both", _STEPS)
    first, unit = _quantity(written["from"])
    last, other = _quantity(written["to"])
    kind = _kind(unit, other)
    low, high = first * kind[unit], last * kind[other]
    if high < low:
        raise AxisError(
            f"the range runs backwards, from {written['from']} to {written['to']}",
            "write the smaller end first",
        )
    whole = kind is _KINDS[0] or kind is _KINDS[-1]
    if "times" in written:
        found = _multiplied(low, high, written["times"])
    elif "step" in written or kind is _KINDS[-1]:
        found = _added(low, high, written.get("step", "1"), kind)
    else:
        raise AxisError("needs times or step", _STEPS)
    shown = other if unit == "B" else unit
    values = [_spelled(Decimal(round(v)) if whole else v, shown, kind) for v in found]
    return list(dict.fromkeys(values))


def _multiplied(low: Decimal, high: Decimal, times: object) -> list[Decimal]:
    factor, unit = _quantity(times)
    if unit not in ("", "x") or factor <= 1:
        raise AxisError(f'times is a factor above 1, not "{times}"', "write times: 2")
    if low <= 0:
        raise AxisError("a range that multiplies starts above 0", "or write step:")
    values = [low]
    while values[-1] * factor <= high:
        values.append(values[-1] * factor)
        _bounded(values)
    return values


def _added(low: Decimal, high: Decimal, step: object, kind: Mapping[str, Decimal]) -> list[Decimal]:
    width, unit = _quantity(step)
    if unit not in kind:
        raise AxisError(f'step is no quantity of the same kind: "{step}"', "write it like from")
    width *= kind[unit]
    if width <= 0:
        raise AxisError(f'step is above 0, not "{step}"')
    values = [low]
    while values[-1] + width <= high:
        values.append(values[-1] + width)
        _bounded(values)
    return values


def _bounded(values: Sequence[Decimal]) -> None:
    if len(values) > MOST_VALUES:
        raise AxisError(f"the range has more than {MOST_VALUES} values", "take larger steps")


def _quantity(written: object) -> tuple[Decimal, str]:
    """The number of a text, and its unit."""
    text = str(written)
    match = _QUANTITY.fullmatch(text) if len(text) < 100 else None
    unit = match["unit"].strip().replace("µ", "u").replace("×", "x") if match else ""
    if match is None or all(unit not in kind for kind in _KINDS):
        raise AxisError(
            f"{quoted(text)} is not a quantity", "write it like 16MiB, 25GB/s, 5ms or 8"
        )
    number = Decimal(match["number"].replace("_", ""))
    if abs(number) > Decimal(10) ** 30:
        raise AxisError(f"{quoted(text)} is more than there is")
    return number, unit


def _kind(unit: str, other: str) -> dict[str, Decimal]:
    found = next((kind for kind in _KINDS if unit in kind and other in kind), None)
    if found is None:
        raise AxisError("the ends of the range have different kinds of units", "write both alike")
    return found


def _spelled(value: Decimal, unit: str, kind: Mapping[str, Decimal]) -> str:
    """The value in the largest unit of its ladder that leaves at least 1; bytes to the last one."""
    ladder = next((units for units in _LADDERS if unit in units), (unit,))
    fitting = [name for name in ladder if abs(value) >= kind[name]]
    number = _plain(value / kind[fitting[-1] if fitting else ladder[0]])
    if kind is not _KINDS[0]:
        # What a range gets by multiplying means nothing beyond nine digits.
        return f"{_plain(Decimal(f'{Decimal(number):.9g}'))}{fitting[-1] if fitting else ladder[0]}"
    if not fitting or len(number) > 9:
        return f"{_plain(value)}B"
    return f"{number}{fitting[-1]}"


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
