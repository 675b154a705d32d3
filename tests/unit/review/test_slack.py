"""How far the bottleneck may slow down: by hand, and against the model itself."""

from __future__ import annotations

from typing import Any

import pytest

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.estimate import estimate as predict
from planner.model.slower import with_rate
from planner.plan.load import loads_plan
from planner.plan.objectives import parse_objective
from planner.plan.schema import Plan
from planner.review.answers import estimate as answer, judged
from planner.review.slack import slack
from tests.helpers import results
from tests.helpers.machines import one_gpu
from tests.helpers.plans import down, load, plan_of, up


@pytest.mark.parametrize(
    ("text", "repeat", "busy"),
    [
        # Duration 2.06 s, of which the read is busy 2 s; 2.46 s leave it 2.4 s.
        ("weights.duration <= 2.46s", 1, 2.4),
        # Two repeats, 4.07 s: 0.8 s more for two reads.
        ("weights.duration <= 4.87s", 2, 2.4),
        # The first run alone, whatever the repeats.
        ("weights.first <= 2.16s", 3, 2.1),
        ("weights.steady <= 4.01s", 3, 4.0),
        # 14 GB at 5 GB/s take 2.8 s, 0.74 s more.
        ("weights.rate >= 5GB/s", 1, 2.74),
        ("makespan <= 3.06s", 1, 3.0),
    ],
)
def test_the_limit_leaves_the_bottleneck_this_busy_time(
    text: str, repeat: int, busy: float
) -> None:
    flow = results.flow_estimate(repeat=repeat)
    hops = tuple(
        hop.model_copy(update={"resource": "host0.copy"})
        if hop.resource == flow.bottleneck.resource
        else hop
        for hop in flow.hops
    )
    copies = flow.bottleneck.model_copy(update={"resource": "host0.copy"})
    flow = flow.model_copy(update={"hops": hops, "bottleneck": copies})
    found = slack(parse_objective(text), results.estimate(flow))
    assert found is not None
    assert found.resource == "host0.copy"
    # Three digits, rounded up.
    exact = results.SIZE / busy
    assert exact <= found.rate_bytes_per_s * (1 + 1e-9) <= exact * 1.01


@pytest.mark.parametrize(
    "text", ["weights.duration <= 2s", "host0.pinned <= 1GiB", "weights.duration >= 1s"]
)
def test_no_slack_where_missed_or_not_a_matter_of_speed(text: str) -> None:
    assert slack(parse_objective(text), results.estimate()) is None


def test_nothing_is_claimed_of_flows_that_share_where_the_plan_cannot_be_played() -> None:
    both = results.estimate(results.flow_estimate(), results.flow_estimate("kv"))
    assert slack(parse_objective("weights.duration <= 9s"), both) is None
    assert slack(parse_objective("makespan <= 9s"), both) is None


@pytest.mark.parametrize(
    ("flows", "text", "expected"),
    [
        # 2 GB over one link until 0.4 s: 5 GB/s, and 10 us less for the latency of a copy.
        ({"a": up(), "b": up()}, "makespan <= 400ms", 2e9 / (0.4 - 10e-6)),
        # Each is one call, and a's is served first, alone.
        ({"a": up(), "b": up()}, "a.duration <= 400ms", 1e9 / (0.4 - 10e-6)),
        # a alone, then b: each has the link to itself, and both have to be over.
        ({"a": up(), "b": up(after="a")}, "makespan <= 500ms", 2e9 / (0.5 - 20e-6)),
        # The rate is that of b's whole time, which includes waiting for a: 1 GB in 0.8 s.
        ({"a": up(), "b": up()}, "b.rate >= 1.25GB/s", 2e9 / (0.8 - 10e-6)),
        ({"a": up(), "b": up()}, "b.first <= 400ms", 2e9 / (0.4 - 10e-6)),
    ],
)
def test_where_flows_share_the_plan_is_played_again(
    flows: dict[str, Any], text: str, expected: float
) -> None:
    estimate = predict(plan_of(flows), one_gpu())
    found = slack(parse_objective(text), estimate)
    assert found is not None
    assert found.resource == "pcie0.forward"
    # Three digits, rounded up: never less than what holds, and at most 1 % more.
    assert expected <= found.rate_bytes_per_s * 1.0001
    assert found.rate_bytes_per_s == pytest.approx(expected, rel=0.011)


def test_it_holds_at_the_rate_and_not_much_below() -> None:
    flows = {"a": load(), "b": load(), "c": down(repeat=3)}
    plan, machine = plan_of(flows), one_gpu()
    first = predict(plan, machine)
    found = slack(parse_objective("makespan <= 1500ms"), first)
    assert found is not None
    schedules = {flow.name: flow.schedule for flow in first.flows}

    def makespan(rate: float) -> float:
        slower = with_rate(machine, found.resource, rate)
        return predict(plan, slower, schedules=schedules).makespan_s

    assert makespan(found.rate_bytes_per_s) <= 1.5
    assert makespan(found.rate_bytes_per_s * 0.98) > 1.5


def test_no_slack_where_the_link_does_not_matter_or_all_is_missed() -> None:
    flows = {"a": up(), "b": up()}
    estimate = predict(plan_of(flows), one_gpu())
    assert slack(parse_objective("makespan <= 1000000s"), estimate) is None
    assert slack(parse_objective("makespan <= 1ms"), estimate) is None
    assert slack(parse_objective("host0.pinned <= 1GB"), estimate) is None


def test_at_the_slack_rate_the_model_says_the_limit() -> None:
    text = """
version: 1
machine: h200-sxm-1
flows: {weights: {from: disk0, to: gpu0, size: 13.5GB, cache: warm}}
"""
    plan = loads_plan(text).plan
    machine = load_machine("h200-sxm-1")
    first = predict(plan, machine)
    found = slack(parse_objective("weights.duration <= 1s"), first)
    assert found is not None
    assert found.resource == "pcie0.forward"
    slower = load_machine(
        "h200-sxm-1",
        overrides={"links.pcie0.forward.rate": f"{found.rate_bytes_per_s / 1e9:.6f}GB/s"},
    )
    schedules = {flow.name: flow.schedule for flow in first.flows}
    again = predict(plan, slower, schedules=schedules)
    # Kept fixed: fill and drain, a chunk of 6 MiB in 13.5 GB each, 0.05 %; hence 1 % at most.
    assert again.flows[0].duration_s == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("plan", "only", "which"),
    [
        # A queued chunk costs the engine more than its bytes, so the wire's own rate is not enough.
        ("bf16_7b_gen4", (), 0),
        ("llm_load", (), 0),
        # 20,000 small copies, in company and alone.
        ("small_tensors", (), 2),
        ("small_tensors", ("norms",), 0),
    ],
)
def test_what_is_shown_holds_when_it_is_typed_in(
    plan: str, only: tuple[str, ...], which: int
) -> None:
    path = f"plans/{plan}.yaml"
    told = answer(path, only=only)
    resource, rate = (told.objectives[which].holds_while or "").split(" >= ")
    typed = rate.replace(" ", "")
    again = answer(path, only=only, settings=[f"links.{resource}.rate={typed}"])
    assert again.objectives[which].passed
    # A twentieth less is too little with the same schedules, as they are played.
    machine = Machine.model_validate(told.machine)
    slower = with_rate(machine, resource, 0.95 * float(typed[:-4]) * 1e9)
    schedules = {flow.name: flow.schedule for flow in told.flows}
    missed = predict(Plan.model_validate(told.plan), slower, schedules=schedules)
    assert not judged(missed, Plan.model_validate(told.plan)).objectives[which].passed


def test_a_link_that_has_to_be_as_fast_as_it_is_has_no_slack() -> None:
    # 0.1 s and 10 us of latency at 10 GB/s: a hair less, told in three digits, is 10 GB/s again.
    estimate = predict(plan_of({"a": up()}), one_gpu())
    found = slack(parse_objective("a.duration <= 100.01001ms"), estimate)
    assert found is None or found.rate_bytes_per_s == pytest.approx(10e9)
    assert slack(parse_objective("a.duration <= 100.009ms"), estimate) is None
