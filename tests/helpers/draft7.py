"""The part of JSON schema draft-07 that our schemas use, checked as an editor checks a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

KNOWN: Final = {
    *("$defs", "$ref", "$schema", "additionalItems", "additionalProperties", "allOf", "anyOf"),
    *("const", "default", "description", "enum", "examples", "exclusiveMinimum", "format", "items"),
    *("maxItems", "maximum", "minItems", "minLength", "minProperties", "minimum", "oneOf"),
    *("pattern", "properties", "propertyNames", "required", "title", "type"),
    "discriminator",  # of OpenAPI: no keyword of draft-07, which ignores it
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def faults(value: Any, schema: Any, root: dict[str, Any], path: str = "") -> Iterator[str]:
    """What `value` has that the schema does not allow."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{path} is not allowed"
        return
    if "$ref" in schema:  # alone: what stands beside it does not count in draft-07
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from faults(value, target, root, path)
        return
    yield from _of_type(value, schema, path)
    yield from _of_parts(value, schema, root, path)
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, path)
    if isinstance(value, list):
        yield from _of_array(value, schema, root, path)


def _of_parts(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from faults(value, part, root, path)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            tried = [list(faults(value, part, root, path)) for part in schema[key]]
            if all(tried):
                yield min(tried, key=len)[0]


def _of_type(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    kind = schema.get("type")
    if kind is not None:
        fits = isinstance(value, _TYPES[kind])
        if isinstance(value, bool) and kind in ("integer", "number"):
            fits = False
        if not fits:
            yield f"{path} is no {kind}: {value!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is none of {schema['enum']}: {value!r}"
    if "const" in schema and value != schema["const"]:
        yield f"{path} is not {schema['const']}: {value!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path} does not match {schema['pattern']}: {value!r}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low = schema.get("minimum", float("-inf"))
        if value < low or value <= schema.get("exclusiveMinimum", float("-inf")):
            yield f"{path} is too small: {value!r}"
        if value > schema.get("maximum", float("inf")):
            yield f"{path} is too large: {value!r}"


def _of_object(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], path: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    yield from (f"{path} lacks {key}" for key in schema.get("required", ()) if key not in value)
    for key, inner in value.items():
        below = properties.get(key, schema.get("additionalProperties", True))
        yield from faults(inner, below, root, f"{path}.{key}")
        if "propertyNames" in schema:
            yield from faults(key, schema["propertyNames"], root, f"{path} key")


def _of_array(
    value: list[Any], schema: dict[str, Any], root: dict[str, Any], path: str
) -> Iterator[str]:
    items = schema.get("items", True)
    for at, inner in enumerate(value):
        if isinstance(items, list):
            below = items[at] if at < len(items) else schema.get("additionalItems", True)
        else:
            below = items
        yield from faults(inner, below, root, f"{path}[{at}]")
    if len(value) < schema.get("minItems", 0):
        yield f"{path} is too short"
