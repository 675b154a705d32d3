"""Markdown for pull requests: the verdict first, nothing breaks the tables, and never too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from planner.report.markdown import markdown
from planner.report.markdown_parts import LIMIT, Section, Table, escape, marker, page, table
from planner.results import Estimate, Run
from planner.results.diff import Diff
from planner.review.compare import compare
from planner.review.gate import parse_limit
from tests.helpers import results, sides

Result = Estimate | Run | Diff
RESULTS: dict[str, Result] = {
    "estimate": results.estimate(),
    "run": results.run(),
    "diff": compare(sides.estimate(), sides.estimate(2.0), fail_above=parse_limit("5%")),
}
NASTY = "a|b `c` <b>*d*</b> [e](f) \\ ~~g~~ #1 @you\n| next"


def cells(row: str) -> list[str]:
    """The cells of a table's row, as GitHub splits it: at pipes without a backslash."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


@pytest.mark.parametrize("kind", RESULTS)
def test_the_first_line_carries_the_verdict_and_the_last_the_marker(kind: str) -> None:
    lines = markdown(RESULTS[kind]).splitlines()
    assert lines[0].startswith("### planner: weights")
    assert (" · ✗ " if kind == "diff" else " · ✓ ") in lines[0]
    assert lines[-1] == "<!-- planner:llm-load -->"


@pytest.mark.parametrize("kind", RESULTS)
def test_the_same_result_gives_the_same_characters(kind: str) -> None:
    result = RESULTS[kind]
    again = type(result).model_validate_json(result.model_dump_json())
    assert markdown(again) == markdown(result)


@pytest.mark.parametrize("kind", RESULTS)
def test_tables_are_whole_and_no_html_but_folds_and_the_marker(kind: str) -> None:
    text = markdown(RESULTS[kind])
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(cells(row)) for row in block.splitlines()}) == 1
    tags = set(re.findall(r"(?<!\\)<[^>]*>", text))
    assert tags <= {"<details>", "</details>", "<summary>", "</summary>", lines_last(text)}
    assert text.count("<details>") == text.count("</details>") > 0


def lines_last(text: str) -> str:
    return text.splitlines()[-1]


def test_the_headline_of_a_comparison() -> None:
    diff = compare(sides.estimate(), sides.estimate(0.5, objectives=(results.objective(),)))
    # 2.06 s halves; no gate was asked for, so the objective is all that the verdict holds.
    first = markdown(diff).splitlines()[0]
    assert first == (
        "### planner: weights 2.060 s → 1.030 s (2.00× faster) · ✓ The objective is met"
    )


def test_what_did_not_change_still_gets_its_tick() -> None:
    text = markdown(compare(sides.estimate(), sides.estimate()))
    assert "(unchanged) · ✓" in text.splitlines()[0]


def test_texts_from_outside_stay_in_their_cell() -> None:
    rows = table(["a", "b"], [[NASTY, "x"]], "ll").splitlines()
    assert len(rows) == 3
    assert len(cells(rows[2])) == 2
    # Not one of the signs that would begin a link, code, emphasis, a tag or a mention is bare.
    assert not re.search(r"(?<!\\)[`*<\[~]|@you", rows[2])


@given(st.text(max_size=60))
def test_any_text_is_one_cell_on_one_line(text: str) -> None:
    row = f"| {escape(text)} |"
    assert len(row.splitlines()) == 1
    # An escaped backslash before a pipe is a pair of its own.
    bare = re.sub(r"\\.", "", row)
    assert bare.count("|") == 2
    assert "<" not in bare


@given(st.text(max_size=40))
def test_no_name_ends_the_hidden_comment(name: str) -> None:
    inside = marker(name).removeprefix("<!-- planner:").removesuffix(" -->")
    assert "--" not in inside
    assert ">" not in inside
    assert len(inside.splitlines()) <= 1


def test_a_plan_of_thousands_of_flows_fits_and_says_what_is_missing() -> None:
    flows = [results.flow_estimate(f"flow{k}") for k in range(3000)]
    text = markdown(results.estimate(*flows))
    assert len(text) <= LIMIT
    shown = len(re.findall(r"^\| flow\d+ \| 14 GB", text, re.MULTILINE))
    assert 0 < shown < 3000
    # 3,000 flows and the row of the makespan.
    found = re.search(r"Left out to stay within 65,536 characters: (\d+) of 3001 flows", text)
    assert found
    assert int(found[1]) == 3001 - shown
    assert "hops" in text.splitlines()[-3]
    assert lines_last(text) == "<!-- planner:llm-load -->"


@given(
    st.integers(900, 3000),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60), st.booleans()), max_size=5),
    st.text("ab ", max_size=2000),
)
def test_no_page_is_longer_than_its_limit(
    limit: int, shapes: list[tuple[int, int, bool]], headline: str
) -> None:
    sections = [
        Section(f"rows{k}", Table(["t"], "l", [["x" * wide]] * tall), "fold" if fold else None)
        for k, (tall, wide, fold) in enumerate(shapes)
    ]
    text = page(headline, sections, "name", limit=limit)
    assert len(text) <= limit
    assert text.endswith("\n\n<!-- planner:name -->\n")
    for k, (tall, wide, _) in enumerate(shapes):
        rows = len(re.findall(rf"^\| {'x' * wide} \|$", text, re.MULTILINE))
        if rows == 0 and tall:
            assert f"rows{k}" in text
    assert text.count("<details>") == text.count("</details>")
