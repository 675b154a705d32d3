"""Small random inputs of the fluid simulation, and the stored cases with known answers.

The numbers are few and round on purpose: ties, in which two resources are full at one level or two
flows finish at one instant, are where such simulators go wrong, and random floats have none.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from planner.model import _fluid_vector
from planner.model.simulate import FluidFlow, Resource

ORACLE = Path(__file__).parents[1] / "data" / "oracle"

HELPERS = ("python", "numpy", "numba")


def use_helper(helper: str, patch: pytest.MonkeyPatch) -> None:
    """Skip where numba is not installed; let numpy fill anew on every small burst as well."""
    if helper == "numba":
        pytest.importorskip("numba")
    patch.setattr(_fluid_vector, "BURST", 2)


def stored_case(name: str) -> tuple[list[Resource], list[FluidFlow], list[float]]:
    """Resources, flows and the finish times in seconds that SimGrid 4.1 computed."""
    case: dict[str, Any] = json.loads((ORACLE / f"{name}.json").read_text())
    resources = [Resource(link["name"], link["capacity"]) for link in case["links"]]
    flows = [
        FluidFlow(
            name=str(flow["id"]),
            work=flow["size"],
            charges=dict.fromkeys(flow["links"], 1.0),
            delay=flow["latency"],
            weight=flow["weight"],
            start=flow["start"],
        )
        for flow in case["flows"]
    ]
    return resources, flows, case["oracle"]["finish"]


@st.composite
def fluid_inputs(draw: st.DrawFn) -> tuple[list[Resource], list[FluidFlow]]:
    """Up to 6 resources and 9 flows with everything that a flow can have."""
    replicas = draw(st.sampled_from([(1,), (1,), (1, 2, 3)]))
    resources = [
        Resource(
            f"r{index}",
            draw(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 12.0, 100.0])),
            members=draw(st.sampled_from(replicas)),
            weight=draw(st.sampled_from([1.0, 1.0, 0.5, 3.0])),
        )
        for index in range(draw(st.integers(1, 6)))
    ]
    members = (1, 1, 1, 2) if len(replicas) == 1 else (6, 12)
    flows = []
    for index in range(draw(st.integers(1, 9))):
        charged = draw(st.sets(st.integers(0, len(resources) - 1), max_size=4))
        multiplicity = {
            resource: draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0, 3.0, 0.25, 0.0]))
            for resource in sorted(charged)
        }
        can_serve = [resource for resource, charge in multiplicity.items() if charge]
        engines = draw(st.sets(st.sampled_from(can_serve), max_size=2)) if can_serve else set()
        before = draw(st.sets(st.integers(0, index - 1), max_size=2)) if index else set()
        flows.append(
            FluidFlow(
                name=f"f{index}",
                work=draw(st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 20.0, 100.0])),
                charges=multiplicity,
                delay=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.5])),
                cap=draw(st.sampled_from([math.inf, math.inf, 0.5, 1.0, 2.0, 5.0])),
                weight=draw(st.sampled_from([1.0, 1.0, 0.5, 2.0, 4.0])),
                priority=draw(st.sampled_from([0, 0, 1, 7])),
                start=draw(st.sampled_from([0.0, 0.0, 1.0, 3.0, 4.5])),
                after=tuple(sorted(before)),
                members=draw(st.sampled_from(members)),
                engines=tuple(sorted(engines)),
                one_call=len(engines) == 1 and draw(st.booleans()),
            )
        )
    return resources, flows
