"""Flows with rings on different links queue for one lock: who has more outstanding gets more."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from tests.helpers.machines import linked_gpus

MIB = 1 << 20


def _steady(machine: Machine, workers: tuple[int, int]) -> list[float]:
    flows = {
        f"f{k}": {
            "from": "host0",
            "to": f"gpu{k}",
            "size": 4000 * MIB,
            "memory": "pageable",
            "strategy": "staged",
            "route": ["host0", f"gpu{k}"],
            "chunk": MIB,
            "depth": 2,
            "workers": count,
        }
        for k, count in enumerate(workers)
    }
    answer = estimate(Plan.model_validate({"name": "lock", "flows": flows}), machine)
    return [flow.steady_s for flow in answer.flows]


def _machine(turn: float) -> Machine:
    tree = linked_gpus(2).model_dump(mode="json", by_alias=True)
    for table in tree["nodes"]["host0"]["copy"].values():
        table["turn"] = turn
    return Machine.model_validate(tree)


def test_a_crowded_lock_is_shared_by_workers() -> None:
    # 1 ms a chunk of 1 MiB and 4,000 chunks each: the lock alone takes 8 s. With as many workers
    # both end together; with three times the workers one gets three of four turns until it is
    # through after 4,000 / 3 * 4 = 5,333 turns.
    machine = _machine(1e-3)
    assert _steady(machine, (4, 4)) == pytest.approx([8.0, 8.0], rel=0.02)
    few, many = _steady(machine, (2, 6))
    assert many == pytest.approx(5.333, rel=0.02)
    assert few == pytest.approx(8.0, rel=0.02)
