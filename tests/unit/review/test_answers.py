"""The functions that the command line and programs call."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.progress import Quiet
from planner.errors import InputError, PlanError
from planner.plan.load import loads_plan
from planner.results import Estimate
from planner.review import answers

ROOT = Path(__file__).resolve().parents[3]
PLAN = ROOT / "plans" / "llm_load.yaml"
CLUSTER = ROOT / "plans" / "cluster_cold_start.yaml"


def test_checking_resolves_every_plan() -> None:
    found = answers.check([PLAN, str(PLAN)])
    assert [plan["name"] for plan in found.plans] == ["llm-load", "llm-load"]
    assert found.verdict.sentence == "2 plans are right."
    assert answers.check(PLAN).verdict.sentence == "1 plan is right."


def test_the_faults_of_all_plans_come_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(PLAN.read_text(encoding="utf-8").replace("13.5GB", "13.5Gb"), encoding="utf-8")
    second.write_text(PLAN.read_text(encoding="utf-8").replace("gpu0", "gpuO"), encoding="utf-8")
    with pytest.raises(PlanError) as told:
        answers.check([first, PLAN, second])
    assert [Path(fault.file) for fault in told.value.faults] == [first, second]


def test_an_estimate_is_judged() -> None:
    found = answers.estimate(PLAN)
    # Both objectives are generous: 1 s for what 50 GB/s carry in 0.27 s; 512 MiB of ring.
    assert [o.passed for o in found.objectives] == [True, True]
    assert found.verdict.sentence == "All 2 objectives met."
    assert found.objectives[0].holds_while is not None


def test_settings_and_machines_change_the_answer() -> None:
    usual = answers.estimate(PLAN).makespan_s
    double = answers.estimate(PLAN, settings=["weights=27GB"]).makespan_s
    # Twice the bytes take twice the time, but for the setup that is paid once.
    assert 1.8 * usual < double < 2 * usual
    slow = answers.estimate(PLAN, settings=["links.pcie0.forward.rate=13.5GB/s"])
    # 13.5 GB at 13.5 GB/s are 1 s, and the fill and the setup come on top.
    assert 1.0 < slow.makespan_s < 1.1
    assert slow.verdict.exit_code == 10


def test_a_saved_estimate_takes_no_settings() -> None:
    estimate = answers.estimate(PLAN)
    with pytest.raises(InputError, match="exactly as it was saved"):
        answers.execute(estimate, settings=["weights=1GB"])


def test_an_estimate_survives_json() -> None:
    estimate = answers.estimate(PLAN)
    assert Estimate.model_validate_json(estimate.model_dump_json()) == estimate


class Listener(Quiet):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_many_flows_are_told_before_they_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three copies to two places are six; a class of equal flows is predicted as one."""
    monkeypatch.setattr(answers, "MANY_FLOWS", 6)
    text = "{from: host0, to: [gpu0, gpu1], size: 1MB, for_each: {i: 0..%d}}"
    for last, told in (
        (2, ["6 flows are predicted one by one, at some milliseconds each"]),
        (1, []),
    ):
        plan = loads_plan(f"version: 1\nmachine: h200-sxm-2\nflows: {{w: {text % last}}}\n").plan
        listener = Listener()
        answers.estimate(plan, progress=listener)
        assert listener.notes == told
    listener = Listener()
    answers.estimate(CLUSTER, progress=listener)
    assert listener.notes == []
