"""The JSON schemas of a plan, of a machine and of every result, made from the models."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Final

from planner.report.schema_words import words_of

_MODELS: Final = {
    "plan": ("planner.plan.schema", "Plan"),
    "machine": ("planner.machine.schema", "Machine"),
    "estimate": ("planner.results", "Estimate"),
    "run": ("planner.results", "Run"),
    "check": ("planner.results", "CheckResult"),
    "diff": ("planner.results.diff", "Diff"),
    "history": ("planner.results.history", "History"),
    "sweep": ("planner.results.sweep", "Sweep"),
    "topo": ("planner.results.topo", "Topo"),
    "doctor": ("planner.results.doctor", "Doctor"),
}

_WRITTEN: Final = ("plan", "machine")

KINDS: Final = tuple(_MODELS)
"""What a schema exists of."""


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema of `kind`, one of `KINDS`.

    What people write is described as it is read, in draft-07, which is what the YAML language
    server of editors knows, every key with a sentence and an example; what is emitted as it is
    written.
    """
    module, name = _MODELS[kind]
    model = getattr(import_module(module), name)
    title = {"title": f"planner {kind}"}
    if kind not in _WRITTEN:
        emitted: dict[str, Any] = model.model_json_schema(mode="serialization")
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **emitted, **title}
    written: dict[str, Any] = _draft_07(model.model_json_schema(mode="validation"))
    for owner, body in {name: written, **written["$defs"]}.items():
        for key, described in body.get("properties", {}).items():
            found = words_of(kind, owner, key)
            if found is not None:
                described.setdefault("description", found[0])
                described.setdefault("examples", [found[1]])
    return {"$schema": "http://json-schema.org/draft-07/schema#", **written, **title}


def _draft_07(schema: Any) -> Any:
    """The schema without what came after draft-07.

    There a tuple is a list under `items`, and whatever stands beside `$ref` does not count.
    """
    if isinstance(schema, list):
        return [_draft_07(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # pydantic leaves the bounds of quantities under names that are no keywords.
    found = {key: _draft_07(value) for key, value in schema.items() if key not in ("ge", "gt")}
    if "prefixItems" in found:
        found["items"] = found.pop("prefixItems")
        found["additionalItems"] = False
    if "$ref" in found and len(found) > 1:
        found["allOf"] = [{"$ref": found.pop("$ref")}]
    return found


def schema_text(kind: str) -> str:
    """`schema_of` as text, keys in a fixed order, ending in a newline."""
    return json.dumps(schema_of(kind), indent=2, ensure_ascii=False) + "\n"
