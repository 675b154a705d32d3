"""A machine of many equal parts of which one was changed: the others are still alike."""

from __future__ import annotations

from functools import cache

import pytest

import planner.model.estimate as module
from planner.machine.load import load_machine
from planner.machine.override import with_overrides
from planner.machine.schema import Machine
from planner.model.classes import fitted
from planner.model.compose import Composition
from planner.model.follow import EACH, what_if
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.plans import plan_of

SLOW = "node3.gpu0"
HOSTS = 12


@cache
def machine() -> Machine:
    """Twelve hosts of eight GPUs on one storage system, one of whose links is half as fast."""
    whole = load_machine("plans/machines/cluster-64x8.yaml")
    several = whole.model_copy(update={"replicate": {"node": f"0..{HOSTS - 1}", "gpu": "0..7"}})
    return with_overrides(several, {"links.node3.pcie0.rate": "50%"})


def plan() -> Plan:
    each = {"node": f"0..{HOSTS - 1}", "gpu": "0..7"}
    flow = {"from": "disk0", "to": "node{node}.gpu{gpu}", "for_each": each, "size": "17.5GB"}
    return plan_of({"start": {**flow, "cache": "cold"}})


@pytest.fixture(scope="module")
def found() -> tuple[Estimate, int]:
    """The prediction, and how often the plan was played on another machine for it."""
    played = 0
    again = module._again

    def counted(*args: object) -> Composition:
        nonlocal played
        played += 1
        return again(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_again", counted)
        return module.estimate(plan(), machine()), played


def test_the_equal_flows_go_the_same_way(found: tuple[Estimate, int]) -> None:
    hops = {
        flow.name: {(hop.strategy, hop.chunk_bytes, hop.depth, hop.workers) for hop in rows}
        for flow in found[0].flows
        for rows in [flow.schedule.hops]
    }
    assert len(hops) == 8 * HOSTS
    others = {frozenset(row) for name, row in hops.items() if SLOW not in name}
    assert len(others) == 1


def test_the_storage_limits_as_without_the_change(found: tuple[Estimate, int]) -> None:
    # 12 hosts of 40 GB/s bring 8 x 17.5 GB each: 3.5 s, whatever one link does at 27 GB/s; the
    # setup of workers and rings comes first.
    assert found[0].makespan_s == pytest.approx(3.5, rel=5e-3)


def test_equal_links_are_doubled_once(found: tuple[Estimate, int]) -> None:
    estimate, played = found
    assert len(estimate.what_if) > EACH
    # Mounts, links in and copies of the hosts: those of the one, of its host, and of the others.
    assert played <= 16
    told = {row.resource: row.makespan_s for row in estimate.what_if}
    assert told["node0.mount.forward"] == told["node5.mount.forward"]


def test_a_part_that_was_changed_stands_for_itself_alone() -> None:
    whole = fitted(plan(), machine())
    links = [f"node{node}.pcie{gpu}.forward" for node in range(HOSTS) for gpu in range(8)]
    composed = Composition((), (), tuple(links), (1.0,) * len(links), (1.0,) * len(links), 2.0)
    asked: list[float] = []

    def makespan(faster: Machine) -> float:
        asked.append(max(getattr(link.forward, "rate", 0.0) for link in faster.links.values()))
        return 1.0 + len(asked)

    rows = what_if(whole, composed, makespan)
    assert len(rows) == len(links)
    assert len(asked) == 2
    assert len({row.makespan_s for row in rows if "node3.pcie0." not in row.resource}) == 1
    # Up to so many each is doubled by itself.
    few = Composition((), (), tuple(links[:EACH]), (1.0,) * EACH, (1.0,) * EACH, 2.0)
    asked.clear()
    what_if(whole, few, makespan)
    assert len(asked) == EACH
