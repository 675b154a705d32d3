"""Saved results: which file is one, and whether its schedule is one of its own plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import ExitCode, InputError, PlanError
from planner.plan.load import loads_plan
from planner.results import Estimate
from planner.review import answers, inputs, saved
from planner.review.sides import read_side
from tests.helpers import results
from tests.helpers.pages import page_of

PLAN = """\
version: 1
machine: h200-sxm-1
flows:
  weights: {from: disk0, to: gpu0, size: 1GB, cache: warm}
  kv: {from: gpu0, to: host0, size: 1MB, repeat: 2, after: weights, strategy: pageable}
"""


def test_a_saved_estimate_reads_back_equal(tmp_path: Path) -> None:
    file = tmp_path / "any name at all"
    file.write_text(results.estimate().model_dump_json(), encoding="utf-8")
    assert saved.saved_estimate(file) == results.estimate()


def test_fields_of_a_newer_minor_version_are_ignored(tmp_path: Path) -> None:
    body = {**json.loads(results.estimate().model_dump_json()), "new_field": 1}
    file = tmp_path / "e.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    assert saved.saved_estimate(file) == results.estimate()


@pytest.mark.parametrize("text", [PLAN, "{flows: {}}", "[1, 2]", "{}", '{"flows": {}}'])
def test_what_is_no_result_is_left_to_the_reader_of_plans(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text, encoding="utf-8")
    assert saved.saved_estimate(file) is None
    assert saved.saved_estimate(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"format": "planner.run/1"}, "only a plan or a planner.estimate/1"),
        ({"format": "planner.estimate/2"}, "only a plan or a planner.estimate/1"),
        ({"format": "planner.estimate/1"}, "damaged: planner"),
    ],
)
def test_another_result_is_refused(tmp_path: Path, body: dict[str, str], told: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(InputError, match=told) as caught:
        saved.saved_estimate(file)
    assert caught.value.hint


TEXT = """\
{
  "format": "planner.estimate/1", "text": "a \\" \\u00e9 {", "numbers": [-1.5e-07, 2, true, null],
  "last": {}
}
"""


@pytest.mark.parametrize("length", range(len('{\n  "format": "planner.'), len(TEXT) - 2))
def test_a_result_that_ends_early_is_said_to(tmp_path: Path, length: int) -> None:
    """Wherever it stops: in a text, a number, a word, an escape, between two values."""
    assert json.loads(TEXT)["numbers"][0] == -1.5e-07
    file = tmp_path / "e.json"
    file.write_text(TEXT[:length], encoding="utf-8")
    with pytest.raises(InputError, match="is cut off: its JSON ends early") as caught:
        saved.saved_estimate(file)
    assert f"after {length} characters in line {TEXT[:length].count(chr(10)) + 1}" in str(
        caught.value
    )
    assert caught.value.hint == "`planner estimate PLAN -o FILE` makes a new one"


@pytest.mark.parametrize(
    ("before", "after", "at", "told"),
    [
        ("null]", "nul]", "nul]", "Expecting value"),
        ("2, true", "2 true", "true", "Expecting ',' delimiter"),
        ("u00e9", "u00g9", "u00g9", "Invalid \\uXXXX escape"),
        ("}\n}", "}\n}]", "]", "Extra data"),
    ],
)
def test_a_result_that_is_broken_inside_is_told_where(
    tmp_path: Path, before: str, after: str, at: str, told: str
) -> None:
    assert TEXT.count(before) == 1
    broken = TEXT.replace(before, after)
    lines = broken[: broken.rindex(at) + 1].split("\n")  # the last ends with what is wrong
    file = tmp_path / "e.json"
    file.write_text(broken, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        saved.saved_estimate(file)
    place = f"line {len(lines)}, column {len(lines[-1])}"
    assert caught.value.message == f"{file} is not JSON: {told} in {place}"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        ("NaN", "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ("1e999", "1e999 is out of all proportion"),
        ("9" * 5000, "limit"),  # of digits, which Python sets
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_number_is_no_result(
    tmp_path: Path, made: Estimate, number: str, told: str
) -> None:
    text = made.model_dump_json(indent=2)
    at = text.index('"makespan_s": ') + len('"makespan_s": ')
    file = tmp_path / "e.json"
    file.write_text(text[:at] + number + text[text.index(",", at) :], encoding="utf-8")
    for read in (saved.saved_estimate, inputs.read_plan, read_side):
        with pytest.raises(InputError, match=rf"e\.json is not JSON: .*{told}"):
            read(file)


@pytest.fixture(scope="module")
def page(made: Estimate) -> str:
    return page_of(made)


@pytest.mark.parametrize(
    "behind", ['name="generator" content="planner ', "<main", "planner-result"]
)
def test_a_report_that_is_cut_off_is_said_to_be(tmp_path: Path, page: str, behind: str) -> None:
    """Not taken for a plan, wherever it stops: in the head, between sections, in the result."""
    file = tmp_path / "r.html"
    file.write_text(page[: page.index(behind) + 200], encoding="utf-8")
    for read in (saved.saved_estimate, inputs.read_plan, read_side):
        with pytest.raises(InputError, match="is cut off") as caught:
            read(file)
        assert str(file) in caught.value.message
        assert caught.value.hint


def test_a_report_may_stop_anywhere(tmp_path: Path, page: str) -> None:
    """Where the result begins, and inside a character of several bytes."""
    begin = page.index('id="planner-result"')
    raw = page.encode()
    wide = next(at for at, byte in enumerate(raw) if byte >= 0xC0) + 1
    file = tmp_path / "r.html"
    for text in (*(page[:at].encode() for at in range(begin, begin + 40)), raw[:wide]):
        file.write_bytes(text)
        with pytest.raises(InputError, match="is cut off"):
            saved.saved_estimate(file)


def test_another_page_is_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "p.html"
    file.write_text("<html><body>a page</body></html>", encoding="utf-8")
    with pytest.raises(InputError, match="is HTML, but no report of planner"):
        inputs.read_plan(file)


@pytest.mark.parametrize("kind", ["estimate", "run"])
def test_a_result_in_the_place_of_a_plan_is_one_error(tmp_path: Path, kind: str) -> None:
    result = results.estimate() if kind == "estimate" else results.run()
    file = tmp_path / "r.json"
    file.write_text(result.model_dump_json(indent=2), encoding="utf-8")
    with pytest.raises(InputError, match=f"is a saved planner.{kind}/1, not a plan") as told:
        inputs.read_plan(file)
    assert "the plan that it was made from" in str(told.value.hint)
    with pytest.raises(PlanError) as several:
        answers.check([file])
    assert [fault.file for fault in several.value.faults] == [str(file)]


@pytest.fixture(scope="module")
def made() -> Estimate:
    return answers.estimate(loads_plan(PLAN).plan)


def changed(made: Estimate, flow: int, **update: Any) -> Estimate:
    """The estimate with one flow's fields replaced; `hop` replaces fields of its last hop."""
    hop, of_schedule = update.pop("hop", None), update.pop("schedule", {})
    flows = list(made.flows)
    schedule = flows[flow].schedule.model_copy(update=of_schedule)
    if hop is not None:
        last = schedule.hops[-1].model_copy(update=hop)
        schedule = schedule.model_copy(update={"hops": (*schedule.hops[:-1], last)})
    flows[flow] = flows[flow].model_copy(update={"schedule": schedule, **update})
    return made.model_copy(update={"flows": tuple(flows)})


def test_an_estimate_agrees_with_its_own_plan(made: Estimate) -> None:
    saved.require_agreement(made)


@pytest.mark.parametrize(
    ("flow", "update", "told"),
    [
        (0, {"name": "weight"}, "it has no flow weights"),
        (0, {"repeat": 3}, "weights runs 1 times by the plan, 3 times here"),
        (0, {"size_bytes": 5}, "weights has 1 GB by the plan"),
        (0, {"schedule": {"size_bytes": 2 * 10**9}}, "weights has 1 GB by the plan, 2 GB here"),
        (0, {"hop": {"end": "host0"}}, "weights goes from disk0 to gpu0 by the plan"),
        (0, {"hop": {"start": "disk0"}}, "weights goes from disk0 to gpu0 by the plan"),
        (0, {"schedule": {"hops": ()}}, "nowhere here"),
        (0, {"hop": {"chunk_bytes": 0}}, "chunks of nothing"),
        (0, {"schedule": {"copy_of": "other"}}, "copied from other, which is no flow"),
        (1, {"hop": {"strategy": "staged"}}, "the plan pins pageable for kv"),
    ],
)
def test_a_schedule_that_contradicts_its_plan_is_3(
    made: Estimate, flow: int, update: dict[str, Any], told: str
) -> None:
    wrong = changed(made, flow, **update)
    with pytest.raises(InputError, match=told) as error:
        answers.execute(wrong, backend="null")
    assert error.value.exit_code == ExitCode.INPUT


def test_a_flow_too_many_and_parts_too_few_are_3(made: Estimate) -> None:
    two = made.model_copy(update={"flows": (*made.flows, made.flows[0])})
    with pytest.raises(InputError, match="stands in it twice"):
        saved.require_agreement(two)
    hops = made.flows[0].schedule.hops
    parts = ({"share_bytes": 10**8, "hops": hops}, {"share_bytes": 10**8, "hops": hops})
    body = json.loads(changed(made, 0).model_dump_json())
    body["flows"][0]["schedule"]["parts"] = [
        {**part, "hops": [hop.model_dump() for hop in hops]} for part in parts
    ]
    with pytest.raises(InputError, match="the parts of weights are not its 1 GB together"):
        saved.require_agreement(Estimate.model_validate(body))
