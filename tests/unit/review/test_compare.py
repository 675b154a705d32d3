"""What a comparison finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from planner.errors import ExitCode, InputError
from planner.results import Estimate, Run
from planner.results.diff import Diff, FlowChange
from planner.review.compare import compare
from planner.review.gate import parse_limit
from planner.units import UnitError
from tests.helpers import results, sides


def flow(diff: Diff) -> FlowChange:
    assert len(diff.flows) == 1
    return diff.flows[0]


def direction(diff: Diff, metric: str = "duration") -> str | None:
    return next(c.direction for c in flow(diff).times if c.metric == metric)


def gated(before: Estimate | Run, after: Estimate | Run, limit: str) -> int:
    return compare(before, after, fail_above=parse_limit(limit)).verdict.exit_code


@pytest.mark.parametrize("made", [sides.estimate(), sides.run()], ids=["estimate", "run"])
def test_nothing_changed_from_a_result_to_itself(made: Estimate | Run) -> None:
    diff = compare(made, made)
    assert flow(diff).kind == "unchanged"
    assert {change.direction for change in flow(diff).times} == {"same"}
    assert {hop.kind for hop in flow(diff).hops} == {"unchanged"}
    assert {node.kind for node in diff.nodes} == {"unchanged"}
    assert not [*diff.plan, *diff.machine, *diff.warnings]
    assert diff.verdict.sentence == "Faster: none. Slower: none. Unchanged: 1 flow."


@given(st.floats(0.2, 5.0), st.floats(0.2, 5.0))
def test_the_way_back_mirrors_the_way_there(a: float, b: float) -> None:
    there = compare(sides.estimate(a), sides.estimate(b))
    back = compare(sides.estimate(b), sides.estimate(a))
    opposite = {"faster": "slower", "slower": "faster", "same": "same"}
    for one, other in zip(flow(there).times, flow(back).times, strict=True):
        assert (one.before_s, one.after_s) == (other.after_s, other.before_s)
        assert one.difference_s == -(other.difference_s or 0.0)
        assert one.direction == opposite[other.direction or ""]


def test_estimates_are_exact() -> None:
    # 2.06 s x 0.5 = 1.03 s, half of it saved.
    change = flow(compare(sides.estimate(), sides.estimate(0.5))).duration
    assert (change.before_s, change.after_s) == pytest.approx((2.06, 1.03))
    assert change.share == pytest.approx(-0.5)
    assert (change.direction, change.judged, change.noise_s) == ("faster", "exact", None)


def test_what_was_chosen_differently_is_named() -> None:
    before, base = sides.estimate(), results.flow_estimate()
    hop = base.hops[0]
    other = hop.model_copy(update={"hop": hop.hop.model_copy(update={"depth": 8, "workers": 2})})
    flows = (base.model_copy(update={"hops": (other, base.hops[1])}),)
    hops = flow(compare(before, before.model_copy(update={"flows": flows}))).hops
    assert [(h.kind, h.settings) for h in hops] == [
        ("changed", ("depth", "workers")),
        ("unchanged", ()),
    ]


def test_flows_come_and_go() -> None:
    both = results.estimate(*map(results.flow_estimate, "ab"), objectives=())
    other = results.estimate(*map(results.flow_estimate, "bc"), objectives=())
    diff = compare(both, other)
    assert [(f.name, f.kind) for f in diff.flows] == [
        ("a", "removed"),
        ("b", "unchanged"),
        ("c", "added"),
    ]
    assert diff.verdict.sentence == (
        "Faster: none. Slower: none. Unchanged: 1 flow. Removed: 1 flow. Added: 1 flow."
    )


def test_the_machine_and_the_plan_are_compared_key_by_key() -> None:
    a = sides.estimate()
    links = {**a.machine["links"], "storage0": {"ends": ["disk0", "host0"], "rate": 7e9}}
    machine = {**a.machine, "links": {**links, "pcie1": {"kind": "pcie"}}}
    plan = {**a.plan, "source_file": "elsewhere.yaml", "vars": {"n": "2"}}
    diff = compare(a, a.model_copy(update={"machine": machine, "plan": plan}))
    assert [(d.kind, d.path, d.before, d.after) for d in diff.machine] == [
        ("added", "links.storage0.rate", None, 7e9),
        ("added", "links.pcie1", None, "pcie"),
    ]
    # Where the plan lies is no part of what it says.
    assert [(d.kind, d.path) for d in diff.plan] == [("added", "vars")]


def test_a_difference_within_the_noise_is_none() -> None:
    diff = compare(sides.run(), sides.run((1.02, 0.99, 1.01, 1.0, 1.01)))
    assert direction(diff, "steady") == direction(diff) == "noise"
    assert flow(diff).kind == "unchanged"
    assert diff.verdict.sentence.endswith("No difference beyond noise: 1 flow.")


def test_a_difference_beyond_the_noise_is_told() -> None:
    # All samples of B above all of A: 25 pairs agree. The first runs are 0.3 s apart, with
    # samples that spread over 0.03 s.
    diff = compare(sides.run(), sides.run(factor=1.3))
    assert direction(diff, "steady") == direction(diff) == direction(diff, "first") == "slower"
    steady = next(change for change in flow(diff).times if change.metric == "steady")
    assert steady.judged == "samples"
    assert steady.noise_s is not None
    assert 0 < steady.noise_s[0] < 0.3 < steady.noise_s[1]
    assert flow(diff).duration.judged == "first_run"
    assert diff.makespan.direction == "slower"


def test_few_samples_are_said_to_be_too_few() -> None:
    diff = compare(sides.run((1.0,)), sides.run((1.01,)))
    assert (direction(diff), flow(diff).duration.judged) == ("slower", "too_few")
    assert "too few samples" in diff.warnings[0]
    assert "A has 1, B has 1" in diff.warnings[0]


def test_a_run_beside_an_estimate() -> None:
    # Predicted 2.01 s steady and 2.06 s in all; B takes 2.5 s and 2.55 s.
    diff = compare(sides.estimate(), sides.run(factor=2.5))
    assert direction(diff, "steady") == direction(diff) == "slower"
    assert flow(diff).inside_interval is False  # (1.85, 2.27)
    back = compare(sides.run(factor=2.5), sides.estimate())
    assert direction(back, "steady") == direction(back) == "faster"
    assert flow(back).inside_interval is None


def test_repeats_add_the_noise_of_the_steady_runs() -> None:
    def repeated(made: Run) -> Run:
        own = made.flows[0]
        took = own.first_s + 9 * own.steady_s
        flows = (own.model_copy(update={"repeat": 10, "duration_s": took}),)
        return made.model_copy(update={"flows": flows})

    once = flow(compare(sides.run(), sides.run(factor=1.05)))
    often = flow(compare(repeated(sides.run()), repeated(sides.run(factor=1.05))))
    halves = [(c.noise_s[1] - c.noise_s[0]) / 2 for c in once.times if c.noise_s is not None]
    duration, first, steady = halves
    assert duration == pytest.approx(first)
    assert often.duration.noise_s is not None
    low, high = often.duration.noise_s
    assert (high - low) / 2 == pytest.approx(first + 9 * steady)


@pytest.mark.parametrize(
    ("factor", "limit", "code"),
    [
        (1.04, "5%", ExitCode.DONE),
        (1.06, "5%", ExitCode.REGRESSION),
        (1.06, "100ms", ExitCode.REGRESSION),  # 2.06 s x 0.06 = 124 ms
        (1.04, "100ms", ExitCode.DONE),  # 82 ms
        (0.5, "0%", ExitCode.DONE),
        (1.0, "0%", ExitCode.DONE),
        (1.001, "0%", ExitCode.REGRESSION),
        (2.4, "150%", ExitCode.DONE),
    ],
)
def test_the_gate_on_estimates(factor: float, limit: str, code: ExitCode) -> None:
    assert gated(sides.estimate(), sides.estimate(factor), limit) == code


def test_noise_is_no_regression() -> None:
    # The first run of B happens to be 4 % slower; its samples spread as far.
    noisy = (1.04, 0.96, 1.05, 0.97, 1.0)
    assert gated(sides.run((1.0, 0.96, 1.04, 1.0, 0.97)), sides.run(noisy), "1%") == ExitCode.DONE
    assert gated(sides.run(), sides.run(factor=1.2), "5%") == ExitCode.REGRESSION


def test_of_runs_the_steady_time_is_held_too() -> None:
    # Ten times longer by its setup, the first run cannot tell 8 % from noise; all samples can.
    def with_setup(made: Run) -> Run:
        own = made.flows[0]
        first = own.first_s + 9
        flows = (own.model_copy(update={"first_s": first, "duration_s": first}),)
        return made.model_copy(update={"flows": flows, "makespan_s": first})

    a, b = with_setup(sides.run()), with_setup(sides.run(factor=1.08))
    diff = compare(a, b, fail_above=parse_limit("5%"))
    assert direction(diff) == "noise"
    assert [(gate.metric, gate.passed) for gate in diff.gates] == [
        ("weights.duration", True),
        ("weights.steady", False),
    ]
    assert diff.verdict.exit_code == ExitCode.REGRESSION
    assert diff.verdict.sentence == (
        "Faster: none. Slower: 1 flow. Regression beyond 5%: weights.steady."
    )


@pytest.mark.parametrize("text", ["5", "fast", "-3%", "%", "5x%", "10GB", ""])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match=r"write it like|counts from"):
        parse_limit(text)


def test_plans_without_a_common_flow_are_refused() -> None:
    with pytest.raises(InputError, match=r"A moves weights \(plan llm-load\), B moves kv"):
        compare(sides.estimate(), sides.estimate(name="kv"))


def test_only_a_run_can_be_held_to_its_prediction() -> None:
    with pytest.raises(InputError, match="B is an estimate"):
        compare(sides.run(), sides.estimate(), max_error=1.1)


def test_emulated_times_are_not_taken_for_real_ones() -> None:
    real = sides.run().model_copy(update={"environment": results.run(emulated=False).environment})
    assert "their times do not compare" in compare(sides.run(), real).warnings[0]


def test_an_objective_that_is_stated_twice_is_judged_twice() -> None:
    twice = (results.objective(), results.objective(passed=False))
    diff = compare(sides.estimate(), sides.estimate(objectives=twice))
    assert [(c.kind, c.after.passed if c.after else None) for c in diff.objectives] == [
        ("added", True),
        ("added", False),
    ]
    assert diff.verdict.exit_code == ExitCode.OBJECTIVE


def test_a_missed_objective_that_was_met_is_a_change() -> None:
    met, missed = (sides.estimate(objectives=(results.objective(passed=p),)) for p in (True, False))
    assert [c.kind for c in compare(met, missed).objectives] == ["changed"]
    assert [c.kind for c in compare(met, met).objectives] == ["unchanged"]
