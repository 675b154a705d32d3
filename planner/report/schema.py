"""The JSON schemas of a plan, of a machine and of every result, made from the models."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Final

_MODELS: Final = {
    "plan": ("planner.plan.schema", "Plan"),
    "machine": ("planner.machine.schema", "Machine"),
    "estimate": ("planner.results", "Estimate"),
    "run": ("planner.results", "Run"),
    "check": ("planner.results", "CheckResult"),
    "diff": ("planner.results.diff", "Diff"),
    "history": ("planner.results.history", "History"),
    "sweep": ("planner.results.sweep", "Sweep"),
}

KINDS: Final = tuple(_MODELS)
"""What a schema exists of."""


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON schema of `kind`, one of `KINDS`.

    What people write is described as it is read; what is emitted as it is written.
    """
    module, name = _MODELS[kind]
    model = getattr(import_module(module), name)
    mode = "validation" if kind in ("plan", "machine") else "serialization"
    body: dict[str, Any] = model.model_json_schema(mode=mode)
    title = {"title": f"planner {kind}"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **body, **title}


def schema_text(kind: str) -> str:
    """`schema_of` as text, keys in a fixed order, ending in a newline."""
    return json.dumps(schema_of(kind), indent=2, ensure_ascii=False) + "\n"
