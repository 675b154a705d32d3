"""The choice where flows meet: against brute force, within limits, whatever the order of keys."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model import contend
from planner.model.arrange import alone
from planner.model.choose import evaluate
from planner.model.compose import compose
from planner.model.contend import choose_together
from planner.model.estimate import estimate
from planner.model.needs import demands
from planner.model.options import same_way
from planner.model.ways import ways
from planner.plan.schema import Plan
from tests.helpers.machines import GB, MIB, flat_table, linked_gpus, one_gpu, two_gpus
from tests.helpers.plans import down, load, plan_of, up


def scaling(rate: float, **host: Any) -> Machine:
    """Two GPUs without a link between them; 8 cores that copy `rate` each."""
    table = flat_table(rate, scales=True)
    tree = two_gpus(None).model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"] |= {"copy": {"file": table, "memory": table}, **host}
    return Machine.model_validate(tree)


def test_flows_leave_each_other_cores() -> None:
    # Alone each takes as many of 8 cores as the wire needs; together they may not take more.
    flows = {"a": load(), "b": load(to="gpu1"), "c": load(to="gpu1"), "d": load()}
    predicted = estimate(plan_of(flows), scaling(1.5e9))
    workers = [flow.schedule.hops[0].workers for flow in predicted.flows]
    assert sum(workers) <= 8


def test_flows_share_the_pinned_budget() -> None:
    # Alone each may take all of it, together not: both rings fit.
    budget = 16 * MIB
    flows = {"a": load(), "b": load(to="gpu1")}
    predicted = estimate(plan_of(flows, budget={"pinned": "16MiB"}), scaling(3e9))
    rings = [flow.ring_bytes for flow in predicted.flows]
    assert min(rings) > 0
    assert sum(rings) <= budget
    nodes = {node.name: node for node in predicted.nodes}
    assert nodes["host0"].pinned_bytes <= budget


def test_what_would_be_done_alone_is_kept_with_its_reason() -> None:
    # Registering in place is free here, so that the shared copy stage is left out.
    table = {"memory": flat_table(12e9)}
    tree = two_gpus(None).model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["copy"] = table
    flows = {"a": up(memory="pageable"), "b": up(memory="pageable", to="gpu1")}
    predicted = estimate(plan_of(flows), Machine.model_validate(tree))
    assert predicted.makespan_s == pytest.approx(0.1, rel=0.01)
    taken = {flow.schedule.hops[0].strategy for flow in predicted.flows}
    assert taken == {"registered"}


def random_plan(seed: int) -> tuple[Plan, Machine]:
    """Two or three flows that meet on wires, copies and the disk."""
    draw = random.Random(seed)  # noqa: S311 - the same plans every time
    kinds = [
        lambda: load(size=draw.randint(GB // 40, GB // 4)),
        lambda: load(size=draw.randint(GB // 40, GB // 4), to="gpu1"),
        lambda: load(size=draw.randint(GB // 40, GB // 8), cache="cold"),
        lambda: up(size=draw.randint(GB // 40, GB // 4), memory="pageable"),
        lambda: up(size=draw.randint(GB // 40, GB // 4), memory="pageable", to="gpu1"),
        lambda: down(size=draw.randint(GB // 40, GB // 4), memory="pageable"),
        lambda: up(size=draw.randint(GB // 40, GB // 4), start=f"{draw.randint(1, 20)}ms"),
    ]
    count = draw.choice([2, 2, 3])
    flows = {name: draw.choice(kinds)() for name in "abc"[:count]}
    if count == 3 and draw.random() < 0.5:
        flows["c"]["after"] = draw.choice(["a", "b"])
    setup = {"register": draw.choice([2e9, 20e9]), "register_file": draw.choice([2e9, 50e9])}
    return plan_of(flows), scaling(draw.choice([1e9, 2e9, 4e9]), setup=setup)


def brute_force(plan: Plan, machine: Machine) -> float:
    """The best makespan over every combination of all ways, each at its own best shape."""
    topology = Topology(machine)
    wanted = demands(plan, machine)
    options = []
    for demand in wanted:
        found = [evaluate(machine, demand.need, way) for way in ways(topology, demand.need)]
        options.append([alone(demand.need, c) for c in found if not isinstance(c, str)])
    return min(compose(plan, machine, wanted, several).makespan for several in product(*options))


@pytest.mark.parametrize("block", range(10))
def test_within_three_per_cent_of_brute_force(block: int) -> None:
    """200 plans in ten blocks. Cores are not scarce here: brute force knows no such limit."""
    for seed in range(block * 20, block * 20 + 20):
        plan, machine = random_plan(seed)
        machine = with_cores(machine)
        topology = Topology(machine)
        _, composed = choose_together(plan, topology, demands(plan, machine), {})
        assert composed.makespan <= brute_force(plan, machine) * 1.03, seed


def with_cores(machine: Machine) -> Machine:
    """The same tables up to 8 workers, and cores for several flows of 8."""
    host = machine.nodes["host0"].model_copy(update={"cores": 64})
    return machine.model_copy(update={"nodes": {**machine.nodes, "host0": host}})


def test_the_same_answer_for_any_order_of_keys() -> None:
    plan, machine = random_plan(3)
    once = estimate(plan, machine)
    other = plan.model_copy(update={"flows": dict(reversed(plan.flows.items()))})
    again = estimate(other, machine)
    assert {f.name: f for f in once.flows} == {f.name: f for f in again.flows}


def test_a_single_flow_is_chosen_as_before() -> None:
    predicted = estimate(plan_of({"a": load()}), one_gpu())
    assert predicted.flows[0].schedule.parts == ()
    assert predicted.gap == pytest.approx(0.0, abs=1e-6)


def test_flows_try_one_kind_of_way_together() -> None:
    # Two read a file, one pinned memory, which has ways of its own.
    flows = {"a": load(), "b": load(to="gpu1"), "c": up()}
    machine = linked_gpus(2)
    plan = plan_of(flows)
    search = contend._Search(
        plan, Topology(machine), demands(plan, machine), {}, None, single_ways=True, brief=False
    )
    moves = list(same_way([search.options[i] for i in search.order], search.order))
    kinds = [{a.candidate.way.names for a in move.values()} for move in moves]
    assert all(len(names) == 1 for names in kinds)
    # The first flow's best way comes first, and both that have it take it.
    assert kinds[0] == {search.options[search.order[0]][0].candidate.way.names}
    named = [{search.demands[i].need.name for i in move} for move in moves]
    assert named[0] == {"a", "b"}
    assert {"c"} in named
