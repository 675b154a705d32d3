"""Reading the sides of a comparison: from JSON, from a report, from a plan; and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planner import diff
from planner.errors import InputError, PlanError
from planner.review.sides import read_side
from tests.helpers import sides

PLAN = """\
version: 1
machine: h200-sxm-1
flows: {weights: {from: host0, to: gpu0, size: 1GB, memory: pinned}}
"""


def test_json_is_read_as_what_it_says(tmp_path: Path) -> None:
    for made in (sides.estimate(), sides.run()):
        file = tmp_path / "result"
        file.write_text(made.model_dump_json(indent=2), encoding="utf-8")
        assert read_side(file) == made


def test_a_plan_is_estimated(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN, encoding="utf-8")
    found = read_side(file)
    assert found.format == "planner.estimate/1"
    # A plan may be written as one braced mapping, which begins like JSON.
    braced = "{version: 1, machine: h200-sxm-1, flows: {weights: {from: host0, to: gpu0, size: 1GB, memory: pinned}}}"  # noqa: E501
    other = tmp_path / "braced.yaml"
    other.write_text(braced, encoding="utf-8")
    assert diff(file, other).verdict.sentence.startswith("Faster: none. Slower: none. Unchanged")


def test_a_plan_from_a_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        stream.write(PLAN)
    with os.fdopen(reading):
        assert read_side(f"/dev/fd/{reading}").flows[0].name == "weights"


@pytest.mark.parametrize("result", [sides.estimate(), sides.run()], ids=["estimate", "run"])
def test_a_report_carries_its_result(result: object, tmp_path: Path) -> None:
    body = result.model_dump_json().replace("</", "<\\/")  # type: ignore[attr-defined]
    file = tmp_path / "report.html"
    file.write_text(
        "<!doctype html><html><head><script>let a = '{';</script></head><body><p>1 &lt; 2</p>"
        f'<script type="application/json" id="planner-result">{body}</script>'
        "<script>more()</script></body></html>",
        encoding="utf-8",
    )
    assert read_side(file) == result


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<html><body>a page</body></html>", "no report of planner"),
        ('{"name": "something"}', "is no result of planner"),
        ("[1, 2]", "is no result of planner"),
        ('{"format": "other.estimate/1"}', "is no result of planner"),
        (
            '{"format": "planner.estimate/2"}',
            "has the format planner.estimate/2, which",
        ),
        ('{"format": "planner.check/1"}', "a planner.check/1, which cannot be compared"),
        ('{"format": "planner.diff/1"}', "a planner.diff/1, which cannot be compared"),
        ('{"format": "planner.run/1"}', "is damaged: planner: Field required"),
        ('{"format": "planner.run/1", ', "is cut off: its JSON ends early"),
        ('{"format": "planner.run/1" "', "is not JSON: Expecting ',' delimiter in line 1"),
        ('<script id="planner-result">{"format": 3}</script>', "is no result of planner"),
    ],
)
def test_what_is_none_of_ours_is_refused_with_a_reason(
    text: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told) as caught:
        read_side(file)
    assert str(file) in str(caught.value)
    assert "damaged" not in told or "planner estimate" in (caught.value.hint or "")


def test_a_missing_file_and_a_wrong_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_side(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot read"):
        read_side(tmp_path)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("1GB", "1Gb"), encoding="utf-8")
    with pytest.raises(PlanError):
        read_side(plan)


def test_programs_compare_results_and_files(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(sides.estimate().model_dump_json(), encoding="utf-8")
    found = diff(file, sides.estimate(2.0), fail_above="5%")
    assert (found.before.label, found.after.label) == (str(file), "B")
    assert found.verdict.exit_code == 11
    assert json.loads(found.model_dump_json())["format"] == "planner.diff/1"
    with pytest.raises(InputError, match="fail_above"):
        diff(file, file, fail_above="much")
