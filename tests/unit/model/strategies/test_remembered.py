"""Stages that were made before are found again, and never taken for others."""

from __future__ import annotations

import pytest

from planner.model.stage import Stage
from planner.model.strategies import remembered
from planner.model.strategies.remembered import Remembered


def stage(name: str) -> Stage:
    return Stage(name, "engine", float)


def test_equal_figures_of_the_same_holders_are_made_once() -> None:
    known, holder = Remembered(), [1]
    first = known.stage((1, "pcie0"), (holder,), lambda: stage("first"))
    assert known.stage((1, "pcie0"), (holder,), lambda: stage("second")) is first


def test_other_figures_and_equal_holders_that_are_others_are_made_anew() -> None:
    known, holder = Remembered(), [1]
    first = known.stage((1,), (holder,), lambda: stage("first"))
    assert known.stage((2,), (holder,), lambda: stage("figures")).resource == "figures"
    assert known.stage((1,), ([1],), lambda: stage("holder")).resource == "holder"
    assert known.stage((1,), (holder,), lambda: stage("again")) is first


def test_too_many_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 2)
    known = Remembered()
    known.stage("a", (), lambda: stage("a"))
    known.stage("b", (), lambda: stage("b"))
    known.stage("c", (), lambda: stage("c"))
    assert known.stage("c", (), lambda: stage("again")).resource == "c"
    assert known.stage("a", (), lambda: stage("again")).resource == "again"
