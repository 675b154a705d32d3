"""Errors as text with the place, and as JSON."""

from __future__ import annotations

import json

from planner.errors import Fault, InfeasibleError, PlanError
from planner.report.failure import failure_json, failure_text
from planner.report.style import Style

FAULT = Fault(
    file="plans/x.yaml",
    line=9,
    column=11,
    path="flows.weights.size",
    message='"14Gb" is a number of bits',
    suggestion="did you mean 14GB (bytes)?",
    excerpt="    size: 14Gb",
    span=4,
)
NOWHERE = Fault("--set weights", 0, 0, "weights", "a setting is key=value", "write weights=70GB")


def test_a_fault_shows_its_line_with_a_caret_and_a_way_out() -> None:
    page = failure_text(PlanError("x", faults=[FAULT]), Style(), undone="nothing estimated")
    assert page.splitlines() == [
        'plans/x.yaml:9:11  flows.weights.size  "14Gb" is a number of bits',
        "    9 │     size: 14Gb",
        "      │           ^^^^  did you mean 14GB (bytes)?",
        "1 fault; nothing estimated.",
    ]


def test_a_fault_without_a_place_shows_its_suggestion() -> None:
    page = failure_text(PlanError("x", faults=[FAULT, NOWHERE]), Style())
    assert page.splitlines()[3:] == [
        "--set weights  weights  a setting is key=value",
        "    write weights=70GB",
        "2 faults.",
    ]


def test_the_caret_stays_under_its_word_in_a_long_line() -> None:
    line = "a" * 200 + "BAD" + "b" * 200
    fault = Fault("f", 1, 201, "", "wrong", excerpt=line, span=3)
    _, shown, carets, _ = failure_text(PlanError("x", faults=[fault]), Style()).splitlines()
    at = carets.index("^^^")
    assert shown[at : at + 3] == "BAD"
    assert len(shown) <= 100


def test_other_errors_are_one_sentence_and_a_hint() -> None:
    error = InfeasibleError("weights does not fit", hint="use a larger GPU")
    assert failure_text(error, Style()) == "error: weights does not fit\n  use a larger GPU\n"


def test_a_program_gets_the_same_as_json() -> None:
    body = json.loads(failure_json(3, "x has 1 fault", None, [FAULT]))
    assert body["format"] == "planner.error/1"
    assert body["exit_code"] == 3
    assert body["faults"][0]["line"] == 9
    assert body["faults"][0]["suggestion"] == "did you mean 14GB (bytes)?"


def test_a_program_gets_no_line_that_is_too_long_to_look_at() -> None:
    faults = [Fault("f", 1, 9, "", "wrong", excerpt="a" * length) for length in (1000, 1001)]
    body = json.loads(failure_json(3, "x", None, faults))
    assert [fault["excerpt"] for fault in body["faults"]] == ["a" * 1000, None]
    assert body["faults"][1]["column"] == 9


def test_a_suggestion_is_told_once() -> None:
    error = PlanError("x", faults=[NOWHERE], hint=NOWHERE.suggestion)
    page = failure_text(error, Style())
    assert NOWHERE.suggestion is not None
    assert page.count(NOWHERE.suggestion) == 1


def test_the_nearest_three_reasons_are_told_and_all_on_request() -> None:
    error = InfeasibleError("no way", reasons=[f"reason {number}" for number in range(5)])
    assert failure_text(error, Style()).splitlines() == [
        "error: no way",
        "  · reason 0",
        "  · reason 1",
        "  · reason 2",
        "  2 more reasons: planner estimate --explain",
    ]
    assert "  · reason 4\n" in failure_text(error, Style(), explain=True)
    assert "reason 4" in str(error)
