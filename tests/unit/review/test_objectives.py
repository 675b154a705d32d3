"""Metrics of a result, and objectives held against them."""

from __future__ import annotations

import pytest

from planner.plan.objectives import METRICS, parse_objective
from planner.review.objectives import estimate_metrics, judge, margin, price_per_hour, run_metrics
from tests.helpers import results


def test_an_estimate_knows_its_metrics() -> None:
    metrics = estimate_metrics(results.estimate(results.flow_estimate(repeat=2)))
    # 0.05 s once and twice 2.01 s.
    assert metrics.values["weights.duration"] == pytest.approx(4.07)
    assert metrics.values["weights.first"] == 2.06
    assert metrics.values["weights.steady"] == 2.01
    # 2 x 14 GB in 4.07 s.
    assert metrics.values["weights.rate"] == pytest.approx(28e9 / 4.07)
    assert metrics.values["host0.pinned"] == 2**27  # 4 workers x 2 slots x 16 MiB
    assert metrics.values["storage0.busy"] == 0.971


def test_a_flow_with_copies_is_as_slow_as_its_slowest() -> None:
    slow = results.flow_estimate("load[gpu1]").model_copy(update={"duration_s": 4.0})
    estimate = results.estimate(results.flow_estimate("load[gpu0]"), slow)
    values = estimate_metrics(estimate).values
    assert values["load[gpu0].duration"] == pytest.approx(2.06)
    assert values["load.duration"] == 4.0
    assert values["load.rate"] == 28e9 / 4.0  # both copies' bytes


def test_the_error_of_copies_is_the_one_farthest_off() -> None:
    run = results.run(
        results.flow_run("load[gpu0]", factor=1.2), results.flow_run("load[gpu1]", factor=0.5)
    )
    assert run_metrics(run).values["load.error"] == 0.5  # 2x off, the other 1.2x


def test_a_link_counts_its_busier_direction_and_rests_at_zero() -> None:
    estimate = results.estimate()
    machine: dict[str, object] = {"links": dict.fromkeys(("storage0", "pcie0", "idle"))}
    values = estimate_metrics(estimate.model_copy(update={"machine": machine})).values
    assert values["pcie0.busy"] == 0.121
    assert values["idle.busy"] == 0.0


def test_a_run_knows_what_only_a_run_can() -> None:
    values = run_metrics(results.run(results.flow_run(factor=1.5))).values
    assert values["weights.error"] == 1.5
    assert values["weights.duration"] == pytest.approx(3.09)  # 2.06 s x 1.5
    # The read took 2 s + 2.06 s x 0.5 = 3.03 s of 3.09 s.
    assert values["storage0.busy"] == pytest.approx(3.03 / 3.09)


def test_both_results_know_every_metric_of_the_table() -> None:
    priced = {"nodes": {"gpu0": {"cost": 3.6}}}
    estimate = results.estimate()
    estimate = estimate.model_copy(update={"machine": {**estimate.machine, **priced}})
    run = results.run().model_copy(update={"estimate": estimate})
    # A run does not measure what computation hides.
    not_measured = {"exposed"}
    for result, of, missing in (
        (estimate_metrics(estimate), "estimate", set()),
        (run_metrics(run), "run", not_measured),
    ):
        known = {name.rpartition(".")[2] for name in result.values}
        wanted = {m.name for m in METRICS.values() if m.of in (of, "both")}
        assert wanted - missing <= known


def test_the_cost_is_an_hours_price_for_the_makespan() -> None:
    machine = {"nodes": {"gpu0": {"cost": 3.0}, "host0": {"cost": 0.6}, "disk0": {}}}
    estimate = results.estimate().model_copy(update={"machine": machine, "makespan_s": 1800.0})
    # 3.6 an hour, for half an hour.
    assert estimate_metrics(estimate).values["cost"] == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("text", "passed", "value", "left"),
    [
        ("weights.duration <= 4.12s", True, 2.06, 0.5),
        ("weights.duration <= 1.03s", False, 2.06, -1.0),
        ("weights.steady < 2.01s", False, 2.01, 0.0),
        ("weights.steady <= 2.01s", True, 2.01, 0.0),
        ("host0.pinned <= 256MiB", True, 2**27, 0.5),
        # 14 GB of 141 GB; (0.5 - 0.0993) / 0.5.
        ("gpu0.peak <= 50%", True, 14 / 141, (0.5 - 14 / 141) / 0.5),
        # (0.971 - 0.5) / 0.5: above the limit is good here.
        ("storage0.busy >= 50%", True, 0.971, 0.942),
    ],
)
def test_judging(text: str, passed: bool, value: float, left: float) -> None:
    found = judge(parse_objective(text), estimate_metrics(results.estimate()))
    assert found.passed is passed
    assert found.value == pytest.approx(value)
    assert found.margin == pytest.approx(left)


def test_what_the_result_lacks_is_unknown_not_missed() -> None:
    found = judge(parse_objective("weights.p95 <= 3s"), estimate_metrics(results.estimate()))
    assert (found.passed, found.value, found.margin) == (None, None, None)


def test_a_node_that_holds_nothing_has_a_peak_of_zero() -> None:
    machine = {"nodes": {"host0": {"capacity": 2**36}, "gpu0": {}, "host1": {"capacity": 2**36}}}
    estimate = results.estimate().model_copy(update={"machine": machine, "nodes": ()})
    metrics = estimate_metrics(estimate)
    for text in ("host1.pinned <= 0", "host1.pinned <= 10%", "gpu0.peak <= 1GB"):
        found = judge(parse_objective(text), metrics)
        assert (found.passed, found.value) == (True, 0), text


def test_a_share_of_a_node_without_capacity_is_unknown() -> None:
    estimate = results.estimate()
    nodes = tuple(n.model_copy(update={"capacity_bytes": None}) for n in estimate.nodes)
    metrics = estimate_metrics(estimate.model_copy(update={"nodes": nodes}))
    assert judge(parse_objective("gpu0.peak <= 50%"), metrics).passed is None


def test_the_margin_of_a_limit_of_zero_is_none() -> None:
    assert margin(parse_objective("weights.exposed <= 0"), 1.0) is None


def test_slack_is_told_only_while_the_objective_holds() -> None:
    metrics = estimate_metrics(results.estimate())
    missed = judge(parse_objective("makespan <= 1s"), metrics, holds_while="x >= 1 GB/s")
    met = judge(parse_objective("makespan <= 3s"), metrics, holds_while="x >= 1 GB/s")
    assert (missed.holds_while, met.holds_while) == (None, "x >= 1 GB/s")


def test_every_member_of_a_class_has_its_price() -> None:
    # Four hosts at 2 and eight GPUs at 3 an hour: 8 + 24.
    machine = {
        "nodes": {"n{n}.host0": {"cost": 2.0}, "n{n}.gpu{g}": {"cost": 3.0}, "disk0": {}},
        "replicate": {"n": "0..3", "g": "0..1"},
    }
    assert price_per_hour(machine) == 32.0
    assert price_per_hour({"nodes": {"disk0": {}}}) is None
