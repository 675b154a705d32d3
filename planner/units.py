"""Quantities as people write them, turned into the three units that the code uses.

Inside the project there are only `int` bytes, `float` seconds and `float` bytes per second. This
module is the one place that converts: `14GB` is 14 * 10**9 bytes, `14GiB` is 14 * 2**30, `400Gb/s`
is bits per second. A bare number is refused unless it is 0, because a reader cannot tell what it
counts.

>>> parse_size("64MiB"), parse_time("3us"), parse_rate("400Gb/s"), parse_share("95%")
(67108864, 3e-06, 50000000000.0, 0.95)
>>> format_size(64 * 2**20), format_time(0.01234), format_rate(54.8e9)
('64 MiB', '12.34 ms', '54.8 GB/s')
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Final

from planner.wording import quoted

_DECIMAL: Final = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
_TIME: Final = {"ns": -9, "us": -6, "µs": -6, "μs": -6, "ms": -3, "s": 0}
_SHOWN_SIZES: Final = (("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_SHOWN_TIMES: Final = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
_MINUTES: Final = {"min": 60, "h": 3600}

_NUMBER = r"[+-]?(?:\d+(?:_\d+)*)(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+(?:[eE][+-]?\d+)?"
# Longer text is no quantity, and 10**30 of any unit is more than there is.
_LONGEST: Final = 100
_MOST_DIGITS: Final = 30
# Only the digits of ASCII, as the schemas say: what looks like another number is none here.
_QUANTITY = re.compile(rf"\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\s\d].*?)?\s*", re.ASCII)


class UnitError(ValueError):
    """A quantity that cannot be read; `suggestion` is the nearest right spelling, if there is one.

    It carries no position: the loader that knows the file turns it into a fault.
    """

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message if suggestion is None else f"{message}; {suggestion}")
        self.message = message
        self.suggestion = suggestion


def _split(text: str, kind: str, example: str) -> tuple[Decimal, str]:
    """The number and the unit of `text`, or a `UnitError` that shows an `example`."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise UnitError(f"{quoted(text)} is not {kind}", f"write it like {example}")
    try:
        number = Decimal(match["number"].replace("_", ""))
    except InvalidOperation as error:  # pragma: no cover - the pattern admits only decimals
        raise UnitError(f"{quoted(text)} is not {kind}", f"write it like {example}") from error
    if number < 0:
        raise UnitError(f"{quoted(text)} is negative", f"{kind} counts from 0 up")
    if number and abs(number.adjusted()) > _MOST_DIGITS:
        raise UnitError(f"{quoted(text)} is out of all proportion", f"write it like {example}")
    return number, match["unit"] or ""


def _bytes_factor(prefix: str) -> Decimal | None:
    if prefix in _DECIMAL:
        return Decimal(10) ** _DECIMAL[prefix]
    if prefix in _BINARY:
        return Decimal(2) ** _BINARY[prefix]
    return None


def parse_size(text: str) -> int:
    """Bytes of `14GB`, `64MiB`, `4096B` or `0`; raises `UnitError` for anything else."""
    number, unit = _split(text, "a size", "14GB or 64MiB")
    if unit == "" and number == 0:
        return 0
    spelled = text.strip()
    if unit == "":
        raise UnitError(
            f"{quoted(spelled)} has no unit",
            f"did you mean {spelled}B, {spelled}MiB or {spelled}GB?",
        )
    factor = _bytes_factor(unit[:-1]) if unit.endswith("B") else None
    if factor is None:
        raise UnitError(*_wrong_size_unit(str(number), unit))
    size = number * factor
    if size != size.to_integral_value():
        raise UnitError(
            f"{quoted(spelled)} is not a whole number of bytes", "round it to whole bytes"
        )
    return int(size)


def _wrong_size_unit(number: str, unit: str) -> tuple[str, str]:
    """Why `unit` is no size, and the nearest spelling that is one."""
    if unit.endswith(("/s", "Bps", "bps")):
        return f'"{number}{unit}" is a rate', f"a size has no /s: {number}GB?"
    if unit.endswith("b") and _bytes_factor(unit[:-1]) is not None:
        return (
            f'"{number}{unit}" is a number of bits',
            f"did you mean {number}{unit[:-1]}B (bytes)?",
        )
    canonical = {u.lower(): u for u in (*_DECIMAL, *_BINARY) if u != "K"}
    stem = unit.lower().removesuffix("b").removesuffix("byte").removesuffix("bytes")
    if stem in canonical:
        return f'"{unit}" is not a unit of size', f"did you mean {number}{canonical[stem]}B?"
    return f'"{unit}" is not a unit of size', "use B, kB, MB, GB, TB or KiB, MiB, GiB, TiB"


def parse_time(text: str) -> float:
    """Seconds of `3us`, `12ms`, `2.5s`, `5min` or `0`; raises `UnitError` for anything else."""
    number, unit = _split(text, "a time", "12ms or 2.5s")
    if unit == "" and number == 0:
        return 0.0
    if unit in _TIME:
        return float(number.scaleb(_TIME[unit]))
    if unit in _MINUTES:
        return float(number * _MINUTES[unit])
    if unit == "":
        raise UnitError(f"{quoted(text)} has no unit", f"did you mean {number}s or {number}ms?")
    if unit.lower() in _TIME:
        raise UnitError(f'"{unit}" is not a unit of time', f"did you mean {number}{unit.lower()}?")
    if unit.startswith(":"):
        raise UnitError(f"{quoted(text)} reads as a clock time", "write seconds, like 90s")
    raise UnitError(f'"{unit}" is not a unit of time', "use ns, us, ms, s, min or h")


def parse_rate(text: str) -> float:
    """Bytes per second of `25GB/s`, `1GiB/s`, `400Gb/s` (bits) or `0`; raises `UnitError` else."""
    number, unit = _split(text, "a rate", "25GB/s or 400Gb/s")
    if unit == "" and number == 0:
        return 0.0
    spelled = text.strip()
    if unit == "":
        raise UnitError(f"{quoted(spelled)} has no unit", f"did you mean {spelled}GB/s?")
    stem = unit.removesuffix("/s") if unit.endswith("/s") else unit.removesuffix("ps")
    factor = _bytes_factor(stem[:-1]) if stem[-1:] in ("B", "b") else None
    if stem == unit and factor is not None:
        raise UnitError(f"{quoted(spelled)} is not a rate", f"did you mean {spelled}/s?")
    if factor is None:
        raise UnitError(f'"{unit}" is not a unit of rate', "use GB/s, MB/s, GiB/s or Gb/s (bits)")
    return float(number * factor / (8 if stem[-1] == "b" else 1))


def parse_share(text: str) -> float:
    """A fraction from `95%` or `0.95`; between 0 and 1, else `UnitError`."""
    number, unit = _split(text, "a share", "95% or 0.95")
    if unit not in ("", "%"):
        raise UnitError(f"{quoted(text)} is not a share", "write it like 95% or 0.95")
    share = float(number / 100 if unit == "%" else number)
    if not 0.0 <= share <= 1.0:
        raise UnitError(f"{quoted(text)} is not between 0 and 100%", "write it like 95% or 0.95")
    return share


def parse_factor(text: str) -> float:
    """A ratio from `1.15x` (or `1.15`)."""
    number, unit = _split(text, "a factor", "1.15x")
    if unit not in ("", "x", "×"):
        raise UnitError(f"{quoted(text)} is not a factor", "write it like 1.15x")
    return float(number)


def parse_count(text: str) -> int:
    """A whole number from 0 up, with no unit."""
    if len(text) > _LONGEST or not re.fullmatch(r"\s*\d+(?:_\d+)*\s*", text, re.ASCII):
        raise UnitError(f"{quoted(text)} is not a count", "write a whole number, like 8")
    return int(text.strip().replace("_", ""))


def _digits(value: float, significant: int) -> str:
    """`value` with `significant` digits, without exponent and without trailing zeros after a point.

    >>> _digits(54.800001, 3), _digits(1234.5, 4), _digits(0.5, 4)
    ('54.8', '1234', '0.5')
    """
    if value == 0:
        return "0"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    text = f"{rounded:.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_time(seconds: float) -> str:
    """Four significant digits in `s`, `ms` or `µs`; `2.060 s`, `12.34 ms`, `5.800 µs`."""
    if not math.isfinite(seconds):
        return "never"
    unit, scale = next(
        ((unit, scale) for unit, scale in _SHOWN_TIMES if abs(seconds) >= scale * 0.99995),
        _SHOWN_TIMES[-1],
    )
    value = seconds / scale
    if value == 0:
        return "0 s"
    places = max(0, 3 - math.floor(math.log10(abs(value) * 1.00005)))
    return f"{value:.{places}f} {unit}"


def format_rate(bytes_per_s: float) -> str:
    """Three significant digits, decimal: `54.8 GB/s`."""
    if not math.isfinite(bytes_per_s):
        return "unbounded"
    for prefix, scale in _SHOWN_SIZES:
        if abs(bytes_per_s) >= scale * 0.9995:  # what rounds to 1.00 of it
            return f"{_digits(bytes_per_s / scale, 3)} {prefix}B/s"
    return f"{_digits(bytes_per_s, 3)} B/s"


def format_size(size: int) -> str:
    """`64 MiB` where a binary unit divides evenly (or nearly says it), else decimal: `13.5 GB`."""
    for unit, power in (("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power and size % (1 << (power - 2)) == 0 and size < (1 << power) * 1024:
            return f"{_digits(size / (1 << power), 6)} {unit}"
    for prefix, scale in _SHOWN_SIZES:
        if size >= scale * 0.99995:  # what rounds to 1.000 of it
            return f"{_digits(size / scale, 4)} {prefix}B"
    return f"{size} B"


def format_share(share: float) -> str:
    """`12 %`; one decimal below ten per cent."""
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %"
