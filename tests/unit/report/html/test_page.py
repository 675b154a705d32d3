"""The page as a whole: one file, whole HTML, nothing fetched, small, and the result inside."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from planner.plan.schema import Plan
from planner.results import Estimate, Run
from planner.review import answers
from planner.review.embedded import embedded
from planner.review.sides import read_side
from planner.units import format_time
from tests.helpers.pages import outline, page_of, twenty_estimated, twenty_flows, visible

ROOT = Path(__file__).resolve().parents[4]
BUDGET = 300_000  # bytes of a page that people send


@cache
def _result(name: str) -> Estimate | Run:
    plan, _, kind = name.partition(":")
    path = ROOT / "plans" / f"{plan}.yaml"
    return answers.execute(path, backend="null") if kind else answers.estimate(path)


RESULTS = [
    "llm_load",
    "llm_load:run",
    "kv_cache_offload:run",
    "cluster_cold_start",
    "tensor_parallel_load",
    "two_links_one_gpu",
    "sparse_lookup",
]


@cache
def _page(name: str) -> str:
    return page_of(_result(name))


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_is_whole(name: str) -> None:
    found = outline(_page(name))
    assert found.faults == []
    assert len(found.ids) == len(set(found.ids))
    # Every link inside leads somewhere.
    targets = [value[1:] for _, attribute, value in found.attributes if attribute == "href"]
    assert set(targets) <= set(found.ids)


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_asks_for_nothing(name: str) -> None:
    page = _page(name)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].replace("&#39;", "'").startswith("default-src 'none';")
    for tag, attribute, value in outline(page).attributes:
        assert attribute not in ("src", "srcset", "data", "action", "poster"), tag
        assert not attribute.startswith("on"), (tag, attribute)
        # A style attribute would need a wider policy.
        assert attribute != "style", (tag, value)
    assert not re.search(r"@import|url\((?!#)", page)


@pytest.mark.parametrize("name", RESULTS)
def test_the_page_is_small_enough_to_send(name: str) -> None:
    assert len(_page(name).encode()) < BUDGET


def test_a_page_of_twenty_flows_is_small_enough_too() -> None:
    assert len(page_of(twenty_estimated()).encode()) < BUDGET


def test_a_page_of_a_run_of_twenty_flows_is_small_enough_too() -> None:
    plan = twenty_flows().model_copy(update={"machine": "h200-sxm-1"})
    run = answers.execute(plan, backend="null")
    assert run.timeline is not None
    assert len(page_of(run).encode()) < BUDGET


@pytest.mark.parametrize("name", ["llm_load", "llm_load:run", "cluster_cold_start"])
def test_the_page_carries_its_result(name: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(_page(name), encoding="utf-8")
    assert read_side(file) == _result(name)


def test_a_heavy_result_is_carried_without_far_candidates_and_the_page_says_so() -> None:
    result, page = _result("tensor_parallel_load"), _page("tensor_parallel_load")
    assert isinstance(result, Estimate)
    carried = Estimate.model_validate_json(embedded(page) or "")
    assert "all but the nearest rejected candidates of each flow" in visible(page)
    assert [f.schedule for f in carried.flows] == [f.schedule for f in result.flows]
    assert carried.makespan_s == pytest.approx(result.makespan_s, rel=1e-8)
    assert Plan.model_validate(carried.plan) == Plan.model_validate(result.plan)
    # 16 flows share 24 candidates.
    assert all(len(f.rejected) == 1 for f in carried.flows)


def test_a_tag_in_a_name_is_text() -> None:
    result = _result("llm_load")
    evil = "</script><script>alert(1)</script><b>"
    page = page_of(result.model_copy(update={"plan": {**result.plan, "name": evil}}))  # type: ignore[union-attr]
    assert "<script>alert" not in page
    assert json.loads(embedded(page) or "")["plan"]["name"] == evil
    assert outline(page).faults == []


def test_the_title_is_the_plan_and_its_verdict() -> None:
    assert "<title>llm-load: All 2 objectives met.</title>" in _page("llm_load:run")


@pytest.mark.parametrize("name", ["llm_load", "llm_load:run"])
def test_every_number_is_text(name: str) -> None:
    """Without scripts all numbers can be read: they are in the markup, not drawn alone."""
    text = visible(_page(name))
    result = _result(name)
    estimate = result.estimate if isinstance(result, Run) else result
    for flow in estimate.flows:
        for hop in flow.hops:
            assert format_time(hop.busy_s) in text
        for rejected in flow.rejected[:10]:
            if rejected.duration_s is not None:
                assert format_time(rejected.duration_s) in text
        for line in flow.arithmetic:
            assert line in text
    for objective in result.objectives:
        assert objective.text in text
    for source in estimate.machine["sources"]:
        assert source in text
    if isinstance(result, Run):
        for run in result.flows:
            assert format_time(run.steady_s) in text
            assert format_time(run.first_s) in text


def test_a_missed_objective_is_said_first() -> None:
    estimate = answers.estimate(ROOT / "plans/llm_load.yaml", settings=["weights=70GB"])
    text = visible(page_of(estimate))
    assert "llm-load: 1 of 2 objectives missed." in text
    assert re.search(r"✗ missed ?weights.duration <= 1s ?1\.34", text)


def test_equal_results_make_equal_pages() -> None:
    assert page_of(_result("llm_load")) == _page("llm_load")
