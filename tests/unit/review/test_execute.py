"""What `execute` decides before and after the engine: machine, schedule, judgement.

The engine is replaced by one that measures exactly what was predicted, times a factor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.errors import ExitCode, UnavailableError
from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.plan.load import loads_plan
from planner.plan.schema import Plan
from planner.results import Estimate, Run
from planner.review import answers
from tests.helpers import results

TEXT = """\
version: 1
name: small
machine: h200-sxm-1
flows: {weights: {from: disk0, to: gpu0, size: 1GB, cache: warm}}
objectives: [weights.duration <= 100ms, weights.error <= 1.2x]
"""


class Engine:
    """Remembers what it was given; takes `factor` times the predicted time."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.given: dict[str, Any] = {}

    def __call__(self, plan: Plan, machine: Machine, **given: Any) -> Run:
        self.given = {"plan": plan, "machine": machine, **given}
        estimate: Estimate = given["estimate"]
        predicted = estimate.flows[0].duration_s
        flow = results.flow_run(factor=1.0).model_copy(
            update={
                "duration_s": predicted * self.factor,
                "predicted_s": predicted,
                "error_factor": self.factor,
            }
        )
        run = results.run(flow)
        backend = {"auto": "host"}.get(given["backend"], given["backend"])
        where = run.environment.model_copy(update={"backend": backend})
        return run.model_copy(
            update={"estimate": estimate, "error_factor": self.factor, "environment": where}
        )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine's place, and `h200-sxm-2` as the computer that everything runs on."""
    engine = Engine(1.1)
    monkeypatch.setattr(answers, "_carry_out", engine)
    machine = load_machine("h200-sxm-2")
    monkeypatch.setattr(answers, "this_computer", lambda *_, **__: machine)
    return engine


def test_the_prediction_is_for_the_machine_that_it_runs_on_and_that_is_said(
    engine: Engine,
) -> None:
    run = answers.execute(loads_plan(TEXT).plan)
    assert engine.given["machine"].name == "h200-sxm-2"
    assert run.estimate.machine["name"] == "h200-sxm-2"
    assert run.warnings[0] == (
        "the plan is for h200-sxm-1; predicted and measured on h200-sxm-2 instead"
    )


def test_nothing_is_said_where_the_plan_is_for_here(engine: Engine) -> None:
    run = answers.execute(loads_plan(TEXT.replace("h200-sxm-1", "here")).plan)
    assert engine.given["machine"].name == "h200-sxm-2"
    assert run.warnings == ()


def test_nothing_is_said_of_an_estimate_that_was_made_for_this_computer(engine: Engine) -> None:
    saved = answers.estimate(loads_plan(TEXT).plan, machine="h200-sxm-2")
    assert answers.execute(saved).warnings == ()
    other = answers.estimate(loads_plan(TEXT).plan)
    assert answers.execute(other).warnings == (
        "the plan is for h200-sxm-1; predicted and measured on h200-sxm-2 instead",
    )
    assert engine.given["machine"].name == "h200-sxm-2"


def test_the_null_backend_runs_on_the_plans_own_machine(engine: Engine) -> None:
    run = answers.execute(loads_plan(TEXT).plan, backend="null")
    assert engine.given["machine"].name == "h200-sxm-1"
    assert engine.given["backend"] == "null"
    assert run.warnings == ()


def test_objectives_are_judged_on_the_measurement(engine: Engine) -> None:
    run = answers.execute(loads_plan(TEXT).plan)
    duration, error = run.objectives
    assert duration.value == pytest.approx(run.estimate.flows[0].duration_s * 1.1)
    assert (error.value, error.passed) == (1.1, True)
    assert run.verdict.exit_code == ExitCode.DONE
    engine.factor = 1.3
    assert answers.execute(loads_plan(TEXT).plan).verdict.exit_code == ExitCode.OBJECTIVE


def test_a_prediction_too_far_off_is_12_where_that_was_asked(engine: Engine) -> None:
    assert engine.factor == 1.1
    plan = loads_plan(TEXT).plan
    assert answers.execute(plan, max_error=1.05).verdict.exit_code == ExitCode.PREDICTION
    assert answers.execute(plan, max_error=1.15).verdict.exit_code == ExitCode.DONE


def test_choices_reach_the_engine_and_what_is_left_out_is_its_default(engine: Engine) -> None:
    answers.execute(loads_plan(TEXT).plan, samples=3, cache="cold")
    assert engine.given["samples"] == 3
    assert engine.given["cache"] == "cold"
    assert "warmup" not in engine.given


def test_the_prediction_is_for_the_state_that_is_enforced(engine: Engine) -> None:
    """As if the plan said so, for the flows that read a disk alone."""
    text = TEXT.replace("}}", "}, kv: {from: host0, to: gpu0, size: 1GB, after: weights}}")
    answers.execute(loads_plan(text).plan, cache="cold")
    plan, predicted = engine.given["plan"], engine.given["estimate"]
    assert [flow.cache for flow in plan.flows.values()] == ["cold", "auto"]
    written = loads_plan(text.replace("warm", "cold")).plan
    cold = answers.estimate(written, machine=load_machine("h200-sxm-2"))
    assert [f.schedule for f in predicted.flows] == [f.schedule for f in cold.flows]
    assert predicted.makespan_s == cold.makespan_s
    assert predicted.flows[0].schedule.cache == "cold"


def test_a_saved_schedule_is_predicted_for_the_state_that_is_enforced(engine: Engine) -> None:
    saved = answers.estimate(loads_plan(TEXT).plan, machine=load_machine("h200-sxm-2"))
    answers.execute(saved, cache="cold")
    (flow,) = engine.given["estimate"].flows
    assert [hop.strategy for hop in flow.schedule.hops] == [
        hop.strategy for hop in saved.flows[0].schedule.hops
    ]
    # The disk is slower than the page cache.
    assert flow.duration_s > saved.flows[0].duration_s


def test_a_saved_estimate_is_run_with_exactly_its_schedule(engine: Engine) -> None:
    pinned = loads_plan(TEXT.replace("cache: warm", "cache: warm, chunk: 1MiB, workers: 4")).plan
    saved = answers.estimate(pinned)
    free = saved.model_copy(
        update={"plan": {**saved.plan, "flows": loads_plan(TEXT).plan.model_dump()["flows"]}}
    )
    answers.execute(free)
    hops = engine.given["estimate"].flows[0].schedule.hops
    assert hops == saved.flows[0].schedule.hops
    assert {(hop.chunk_bytes, hop.workers) for hop in hops} == {(2**20, 4)}


def test_the_null_backend_runs_a_saved_estimate_on_its_own_machine(engine: Engine) -> None:
    saved = answers.estimate(loads_plan(TEXT).plan)
    answers.execute(saved, backend="null")
    assert engine.given["machine"] == load_machine("h200-sxm-1")
    # The same schedule on the same machine: the same prediction.
    assert engine.given["estimate"].makespan_s == pytest.approx(saved.makespan_s)


@pytest.mark.usefixtures("engine")
def test_a_node_that_this_computer_lacks_is_5() -> None:
    with pytest.raises(UnavailableError) as told:
        answers.execute(loads_plan(TEXT.replace("to: gpu0", "to: gpu7")).plan)
    assert told.value.exit_code == ExitCode.UNAVAILABLE


@pytest.mark.usefixtures("engine")
def test_a_saved_schedule_that_this_computer_cannot_run_is_5() -> None:
    saved = answers.estimate(loads_plan(TEXT).plan)
    flow = saved.flows[0]
    hop = flow.schedule.hops[-1].model_copy(update={"strategy": "gds"})
    schedule = flow.schedule.model_copy(update={"hops": (*flow.schedule.hops[:-1], hop)})
    other = saved.model_copy(update={"flows": (flow.model_copy(update={"schedule": schedule}),)})
    with pytest.raises(UnavailableError, match="cannot run the saved schedule"):
        answers.execute(other)


def test_a_flow_that_stands_for_many_is_5() -> None:
    """One of the equal flows alone would share nothing: its time is not that of all."""
    plan = Path(__file__).resolve().parents[3] / "plans" / "cluster_cold_start.yaml"
    with pytest.raises(UnavailableError, match="stands for 512 equal flows"):
        answers.execute(plan, backend="null")
