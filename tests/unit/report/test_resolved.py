"""A plan as it was understood, every value with its origin."""

from __future__ import annotations

from pathlib import Path

from planner.plan.load import load_plan
from planner.report.resolved import resolved_text
from planner.report.style import Style

PLAN = """\
version: 1
machine: h200-sxm-1
vars: {weights: 13.5GB}
flows:
  weights: {from: disk0, to: gpu0, size: $weights, cache: warm}
objectives: [weights.duration <= 10s]
"""


def _rows(page: str) -> dict[str, list[str]]:
    rows = [line.split("  ") for line in page.splitlines()[2:]]
    parts = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    return {key: rest for key, *rest in parts}


def test_variables_are_put_in_and_the_words_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(PLAN, encoding="utf-8")
    rows = _rows(resolved_text([load_plan(file)], Style(width=200)))
    assert rows["flows.weights.from"] == ["disk0", f"{file}:5:19"]
    assert rows["flows.weights.size"][0] == "13.5 GB"
    assert rows["objectives[0]"][0] == "weights.duration <= 10s"
    assert "flows.weights.repeat" not in rows  # nobody wrote it


def test_a_setting_is_its_own_origin(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(PLAN, encoding="utf-8")
    settings = ["weights=1234567891B", "links.pcie0.forward.rate=22GB/s"]
    rows = _rows(resolved_text([load_plan(file, settings=settings)], Style(width=200)))
    # Sizes stay exact where the short form is not.
    assert rows["flows.weights.size"][0] == "1234567891 B"
    assert rows["links.pcie0.forward.rate"] == ["22GB/s", "--set"]
