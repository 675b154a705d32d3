"""The sentence that is printed and the code that is returned always agree.

Over all combinations of: objectives met, missed, unknown or none; data intact, damaged or not
verified; prediction within its limit, beyond it, or not held to any. The code is worked out here
from the printed words alone.
"""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode
from planner.results import Estimate, ObjectiveResult, Run
from planner.review import answers
from planner.review.verdict import estimate_verdict, run_verdict
from tests.helpers import results

MET = results.objective(passed=True)
MISSED = results.objective(passed=False)
UNKNOWN = results.objective(passed=None)

OBJECTIVES = [
    (),
    (MET,),
    (MET, MET),
    (MISSED,),
    (MET, MISSED),
    (UNKNOWN,),
    (MET, UNKNOWN),
    (MISSED, UNKNOWN),
]
VERIFIED = [True, False, None]
LIMITS = [None, 1.2, 1.6]
FACTORS = [1.0, 1.4, 0.7]


def code_of(sentence: str) -> int:
    """The exit code that a reader of the sentence would expect."""
    if "did not arrive intact" in sentence:
        return 6
    if "missed" in sentence:
        return 10
    return 12 if "off by" in sentence else 0


def run_of(objectives: tuple[ObjectiveResult, ...], verified: bool | None, factor: float) -> Run:
    flow = results.flow_run(factor=factor, verified=verified)
    return results.run(flow, objectives=objectives)


@pytest.mark.parametrize("objectives", OBJECTIVES)
def test_estimates_agree(
    objectives: tuple[ObjectiveResult, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    estimate = results.estimate(objectives=objectives, verdict=estimate_verdict(objectives))
    monkeypatch.setattr(answers, "estimate", lambda *_, **__: estimate)
    _agree("estimate", estimate, capsys)


@pytest.mark.parametrize("objectives", OBJECTIVES)
def test_runs_agree(
    objectives: tuple[ObjectiveResult, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verified, limit, factor in product(VERIFIED, LIMITS, FACTORS):
        run = run_of(objectives, verified, factor)
        verdict = run_verdict(objectives, run.flows, error_factor=run.error_factor, max_error=limit)
        judged = run.model_copy(update={"verdict": verdict})
        monkeypatch.setattr(answers, "execute", lambda *_, judged=judged, **__: judged)
        _agree("execute", judged, capsys)


def _agree(verb: str, result: Estimate | Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, quiet text and JSON all say what the process returns."""
    code = main([verb, "plans/llm_load.yaml"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert code == code_of(last) == result.verdict.exit_code
    assert main([verb, "plans/llm_load.yaml", "-q"]) == code
    assert capsys.readouterr().out.splitlines() == [last]
    assert main([verb, "plans/llm_load.yaml", "--json"]) == code
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert verdict == {"passed": code == 0, "exit_code": code, "sentence": last}


PLAN = """\
version: 1
machine: h200-sxm-1
flows: {weights: {from: host0, to: gpu0, size: 1GB, memory: pinned}}
objectives: [makespan <= 1ms, makespan <= 9s]
"""


def test_every_mark_on_the_page_counts_in_the_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 1 GB over a link of less than 64 GB/s (PCIe 5.0 x16) takes more than 15 ms.
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN, encoding="utf-8")
    code = main(["estimate", str(file)])
    page = capsys.readouterr().out
    assert page.count("✗") == 1
    assert page.splitlines()[-1] == "1 of 2 objectives missed."
    assert code == ExitCode.OBJECTIVE


def test_the_counts_of_a_sentence_are_those_of_its_objectives() -> None:
    for objectives in OBJECTIVES:
        sentence = estimate_verdict(objectives).sentence
        judged = sum(o.passed is not None for o in objectives)
        if found := re.search(r"(\d+) of (\d+) objectives? missed", sentence):
            assert int(found[1]) == sum(o.passed is False for o in objectives)
            assert int(found[2]) == judged
        unknown = len(objectives) - judged
        assert (f"{unknown} objective not known" in sentence) == (unknown > 0)
