"""Flows with rings on different links queue for one lock: who has more outstanding gets more."""

from __future__ import annotations

import pytest

from planner.engine.execute import execute
from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Estimate
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
    # Turns of 1 ms, of which one of four workers takes 9/16 (3/4 are others, squared), and 4,000
    # chunks of 1 MiB each: the lock alone takes 4.5 s. With as many workers both end together. One
    # of six takes 25/36 ms, one of two 1/4; with three times the workers one gets three chunks
    # through for each of the other's: 4,000 / 3 times 75/36 + 1/4 ms, and then the other has 2,667
    # chunks left.
    machine = _machine(1e-3)
    assert _steady(machine, (4, 4)) == pytest.approx([4.5, 4.5], rel=0.02)
    few, many = _steady(machine, (2, 6))
    assert many == pytest.approx(4000 / 3 * (75 / 36 + 1 / 4) * 1e-3, rel=0.02)
    assert few == pytest.approx(many + 2667 * 0.25e-3, rel=0.02)


def test_workers_of_several_flows_crowd_at_copies_and_locks() -> None:
    # Eight workers copy 20 GB/s: a chunk of 1 MiB every 52 us. Where a turn takes as long both
    # sums would allow 8,000 chunks in 0.42 s, and crowding at two equal ones costs 2^(1/8).
    # One of four workers takes 9/16 of a turn.
    apart = 8000 * MIB / 20e9
    turn = MIB / 20e9 * 16 / 9
    assert max(_steady(_machine(turn / 10), (4, 4))) == pytest.approx(apart, rel=0.02)
    assert _steady(_machine(turn), (4, 4)) == pytest.approx([apart * 2**0.125] * 2, rel=0.02)


def _beside_engines(links: tuple[str, str]) -> list[float]:
    """Steady seconds of two staged flows of four workers each, on a table of eight by one engine:
    half of 16 GB/s is left, by several three quarters."""
    tree = linked_gpus(2).model_dump(mode="json", by_alias=True)
    rows = {"workers": [4, 8], "rings": ["1MiB"], "rates": [[16e9], [16e9]], "turn": 1e-9}
    factors = {"beside_dma": [1.0, 0.5], "beside_several": [1.0, 0.75]}
    tree["nodes"]["host0"]["copy"] = {"memory": rows | factors}
    flow: dict[str, object] = {
        "from": "host0",
        "size": 4000 * MIB,
        "memory": "pageable",
        "strategy": "staged",
    }
    shape = {"chunk": MIB, "depth": 2, "workers": 4}
    flows = {
        name: flow | shape | {"to": f"gpu{link[-1]}", "route": [link]}
        for name, link in zip("ab", links, strict=True)
    }
    plan = Plan.model_validate({"name": "engines", "flows": flows})
    machine = Machine.model_validate(tree)
    answer = estimate(plan, machine)
    played = execute(plan, machine, estimate=answer, backend="null")
    steady = [flow.steady_s for flow in answer.flows]
    assert [flow.steady_s for flow in played.flows] == pytest.approx(steady, rel=0.01)
    return steady


def test_several_engines_leave_more_of_the_copies_than_one() -> None:
    both = 8000 * MIB
    # Into one GPU 8 GB/s are left, into two 12.
    assert _beside_engines(("pcie0", "pcie0")) == pytest.approx([both / 8e9] * 2, rel=0.01)
    assert _beside_engines(("pcie0", "pcie1")) == pytest.approx([both / 12e9] * 2, rel=0.01)


@pytest.mark.parametrize("turn", [20e-6, 75e-6, 200e-6])
def test_flows_that_meet_find_shapes_for_locks_and_caches_that_they_share(turn: float) -> None:
    """What is chosen for two is within a tenth of the best of many shapes that both have alike.

    Of those with two slots each, as one slot is taken only where it promises a tenth more.

    Twelve workers copy 40 GB/s into 32 MiB, and a ring of 128 MiB halves that.
    """
    tree = linked_gpus(2).model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"] |= {"cores": 24, "cache": 64 * MIB}
    for way in ("forward", "backward"):
        for link in ("pcie0", "pcie1"):
            tree["links"][link][way]["rate"] = 50e9
            for curve in tree["links"][link][way]["curves"].values():
                curve["rate"] = 50e9
    rates = [[5e9, 2.5e9], [40e9, 20e9], [60e9, 30e9]]
    table = {"workers": [1, 12, 24], "rings": [32 * MIB, 128 * MIB], "rates": rates, "turn": turn}
    tree["nodes"]["host0"]["copy"]["memory"] = table
    machine = Machine.model_validate(tree)
    words = {"from": "host0", "size": 4000 * MIB, "memory": "pageable", "strategy": "staged"}

    def planned(**shape: int) -> Estimate:
        flows = {f"f{k}": words | {"to": f"gpu{k}", "route": ["host0", f"gpu{k}"]} for k in (0, 1)}
        plan = Plan.model_validate({"flows": {name: flow | shape for name, flow in flows.items()}})
        return estimate(plan, machine)

    def span(**shape: int) -> float:
        return max(flow.steady_s for flow in planned(**shape).flows)

    tried = [
        span(chunk=chunk * MIB, depth=depth, workers=workers)
        for chunk in (1, 2, 3, 4, 6)
        for depth in (2, 3)
        for workers in (4, 8, 12)
    ]
    assert span() <= 1.1 * min(tried)
    hops = [flow.schedule.hops[0] for flow in planned().flows]
    assert len({(hop.chunk_bytes, hop.depth, hop.workers) for hop in hops}) == 1


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 12])
@pytest.mark.parametrize("chunk", ["256KiB", "1MiB"])
def test_a_flow_alone_takes_on_the_virtual_clock_what_its_estimate_says(
    workers: int, chunk: str
) -> None:
    # The lock that its own workers meet at is in its pace, and holds it down no further.
    machine = load_machine("h200-sxm-2")
    shape = {"size": "300MB", "chunk": chunk, "workers": workers, "depth": 2}
    flow = {"from": "host0", "to": "gpu0", "memory": "pageable", "strategy": "staged"}
    plan = Plan.model_validate({"flows": {"f": flow | shape | {"route": ["pcie0"]}}})
    answer = estimate(plan, machine)
    played = execute(plan, machine, estimate=answer, backend="null")
    assert played.flows[0].steady_s == pytest.approx(answer.flows[0].steady_s, rel=0.01)
