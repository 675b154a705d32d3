"""Plans from the words of the file, and flows that many tests use."""

from __future__ import annotations

from typing import Any

from planner.plan.schema import Plan
from tests.helpers.machines import GB


def plan_of(flows: dict[str, Any], **more: Any) -> Plan:
    """A plan with these flows."""
    return Plan.model_validate({"name": "test", "flows": flows, **more})


def up(**more: Any) -> dict[str, Any]:
    """1 GB from a pinned buffer to the GPU: 0.1 s and 10 us on `one_gpu`."""
    return {"from": "host0", "to": "gpu0", "size": GB, "memory": "pinned", **more}


def down(**more: Any) -> dict[str, Any]:
    """The way back."""
    return {"from": "gpu0", "to": "host0", "size": GB, "memory": "pinned", **more}


def load(**more: Any) -> dict[str, Any]:
    """4 GB from a cached file: 0.4 s and a little on `one_gpu`."""
    return {"from": "disk0", "to": "gpu0", "size": 4 * GB, "cache": "warm", **more}
