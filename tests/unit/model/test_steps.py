"""Which parts go in step."""

from __future__ import annotations

from planner.model.steps import pairs_in_step


def test_equal_repeats_go_in_step() -> None:
    parts = {"a": (4, ()), "b": (4, ("a",)), "c": (2, ("b",)), "d": (1, ("a",)), "e": (1, ("d",))}
    assert pairs_in_step(parts) == {("a", "b")}


def test_a_detour_over_the_whole_takes_a_pair_out_of_step() -> None:
    parts = {"a": (4, ()), "b": (1, ("a",)), "c": (4, ("a", "b"))}
    assert pairs_in_step(parts) == set()


def test_a_chain_in_step_stays_in_step() -> None:
    parts = {"a": (4, ()), "b": (4, ("a",)), "c": (4, ("a", "b"))}
    assert pairs_in_step(parts) == {("a", "b"), ("a", "c"), ("b", "c")}
