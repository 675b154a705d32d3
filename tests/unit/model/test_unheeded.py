"""Words of a plan that change nothing are told, each once, and words that count are not."""

from __future__ import annotations

from typing import Any

import pytest

from planner.machine.load import load_machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan

ONE = load_machine("h200-sxm-1")


def told(flow: dict[str, Any]) -> list[str]:
    """What an estimate of one flow says of words without effect."""
    plan = Plan.model_validate({"name": "p", "flows": {"f": {"size": "1GB", **flow}}})
    return [w for w in estimate(plan, ONE).warnings if "changes nothing" in w]


@pytest.mark.parametrize(
    ("flow", "line"),
    [
        ({"from": "host0", "to": "gpu0", "cache": "warm"}, "cache changes nothing: the page cache"),
        ({"from": "host0", "to": "gpu0", "release_cache": True}, "release_cache changes nothing"),
        ({"from": "host0", "to": "gpu0", "fsync": True}, "fsync changes nothing: it does not end"),
        (
            {"from": "disk0", "to": "gpu0", "cache": "warm", "memory": "pinned"},
            "memory changes nothing: no end of it is a buffer in host memory",
        ),
        (
            {"from": "gpu0", "to": "host0", "source": "hot"},
            "source changes nothing: the bytes do not start in host memory",
        ),
        (
            {"from": "host0", "to": "gpu0", "strategy": "pageable", "depth": 3},
            "depth 3 changes nothing: pageable has no ring",
        ),
        (
            {"from": "host0", "to": "gpu0", "strategy": "pageable", "workers": 8},
            "workers 8 changes nothing: pageable is issued by 1",
        ),
    ],
)
def test_a_word_that_changes_nothing_is_told_with_the_reason(
    flow: dict[str, Any], line: str
) -> None:
    assert [w for w in told(flow) if w.startswith(f"f: {line}")] == told(flow) != []


@pytest.mark.parametrize(
    "flow",
    [
        {"from": "disk0", "to": "gpu0", "cache": "warm", "depth": 2, "workers": 8},
        {"from": "disk0", "to": "host0", "cache": "cold", "release_cache": True},
        {"from": "gpu0", "to": "disk0", "fsync": True},
        {"from": "host0", "to": "gpu0", "memory": "pinned", "depth": 1, "workers": 1},
        {"from": "host0", "to": "gpu0", "source": "hot", "strategy": "staged", "depth": 2},
        {"from": "disk0", "to": "gpu0", "cache": "warm", "memory": "pageable"},
    ],
)
def test_a_word_that_counts_is_not_told(flow: dict[str, Any]) -> None:
    assert told(flow) == []


def test_equal_flows_are_told_once() -> None:
    flow = {"from": "host0", "to": "gpu0", "cache": "warm", "for_each": {"k": "0..3"}}
    assert len(told(flow)) == 1
