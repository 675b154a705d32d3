"""Write a machine as the YAML that `planner.machine.load` reads back to an equal machine.

Quantities get the unit that their field has in the schema, in the shortest spelling that keeps
every digit: `5.616us`, `54.81GB/s`, `16MiB`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from planner.machine.curve import Point
from planner.machine.schema import Machine
from planner.quantities import Bytes, BytesPerSecond, Seconds

HEADER: Final = """\
# A machine of planner: what it is and how fast it copies. `planner schema --of machine` explains
# every key.
"""

_Spell = Callable[[Any], str]

# Text that YAML reads as itself without quotes, inside `{}` and `[]` too.
_PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.()+-]*(?: [A-Za-z0-9_/.()+-]+)*")
# Words that some reader of YAML takes for something else than text.
_NOT_TEXT: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_WIDTH: Final = 100
"""Lines up to here are written in one piece, like `{latency: 5.5us, rate: 54.8GB/s}`."""


def dump_machine(machine: Machine) -> str:
    """YAML text of `machine`; keys at their default are left out."""
    lines = [HEADER, f"version: {machine.version}"]
    for key, value in _written(machine).items():
        if isinstance(value, dict):
            lines.append("")
        if key != "version":
            lines += _block(key, value, 0)
    return "\n".join(lines) + "\n"


def _number(value: float, shift: int = 0) -> str:
    """All digits of `value` x 10**shift, without an exponent."""
    text = f"{Decimal(repr(value)).scaleb(shift):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time(value: float) -> str:
    for unit, shift in (("s", 0), ("ms", 3), ("us", 6)):
        if value * 10**shift >= 1:
            return _number(value, shift) + unit
    return "0" if value == 0 else _number(value, 9) + "ns"


def _rate(value: float) -> str:
    for unit, shift in (("TB/s", -12), ("GB/s", -9), ("MB/s", -6)):
        if value * 10.0**shift >= 1:
            return _number(value, shift) + unit
    return _number(value) + "B/s"


def _size(value: int) -> str:
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value and value % (1 << power) == 0:
            return f"{value >> power}{unit}"
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value and value % scale == 0:
            return f"{value // scale}{unit}"
    return f"{value}B" if value else "0"


# The reader that a field's type carries tells which quantity it is.
_SPELLINGS: Final[tuple[tuple[Any, _Spell], ...]] = tuple(
    (get_args(kind)[1], spell)
    for kind, spell in ((Bytes, _size), (Seconds, _time), (BytesPerSecond, _rate))
)


def _spelling(annotation: Any) -> _Spell | None:
    """How the quantities inside a type are written, `None` for a type without any."""
    if get_origin(annotation) is Annotated:
        for reader, spell in _SPELLINGS:
            if reader in annotation.__metadata__:
                return spell
    found = (_spelling(inner) for inner in get_args(annotation) if inner is not annotation)
    return next((spell for spell in found if spell is not None), None)


@lru_cache(maxsize=64)
def _spellings(model: type[BaseModel]) -> Mapping[str, _Spell | None]:
    hints = get_type_hints(model, include_extras=True)
    return {name: _spelling(hints[name]) for name in model.model_fields}


def _written(model: BaseModel) -> dict[str, Any]:
    """The model as nested dicts and lists of text, by the words of the file."""
    spellings = _spellings(type(model))
    block = {}
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if info.is_required() or value != info.get_default(call_default_factory=True):
            block[info.alias or name] = _value(value, spellings[name])
    return block


def _value(value: Any, spell: _Spell | None) -> Any:
    """A field's value as nested dicts and lists of text."""
    if isinstance(value, Point):
        return [_size(value.size_bytes), _time(value.seconds)]
    if isinstance(value, BaseModel):
        return _written(value)
    if isinstance(value, Mapping):
        return {key: _value(inner, spell) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(inner, spell) for inner in value]
    return _scalar(value, spell)


def _scalar(value: Any, spell: _Spell | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if spell is not None:
        return spell(value)
    return str(value) if isinstance(value, int) else _number(value)


def _text(value: str) -> str:
    """Text as YAML reads it back: plain where that is safe, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    escaped = (
        char if char.isprintable() and char not in '"\\' and ord(char) < 0xD800 else _escape(char)
        for char in value
    )
    return f'"{"".join(escaped)}"'


def _escape(char: str) -> str:
    return f"\\{char}" if char in '"\\' else f"\\U{ord(char):08x}"


def _block(key: str, value: Any, depth: int) -> Iterator[str]:
    """The lines of one key: in one piece where it fits, else one line for each part."""
    indent = "  " * depth
    name = _text(key)
    line = f"{indent}{name}: {_flow(value)}"
    holds_blocks = isinstance(value, dict) and any(isinstance(v, dict) for v in value.values())
    if not isinstance(value, (dict, list)) or (
        len(line) <= _WIDTH and not holds_blocks and (depth > 0 or not value)
    ):
        yield line
        return
    yield f"{indent}{name}:"
    if isinstance(value, dict):
        for inner, part in value.items():
            yield from _block(inner, part, depth + 1)
    else:
        for part in value:
            yield f"{indent}  - {_flow(part)}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(part) for part in value) + "]"
    return str(value)
