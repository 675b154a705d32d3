"""The groups of a calibration: what is looked at, and what twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.engine.backends import Backend, open_backend
from planner.engine.calibration.arena import open_arena
from planner.engine.calibration.groups import Plan, axes_of
from planner.engine.calibration.scope import FULL, MIB, QUICK, Scope
from planner.engine.progress import Quiet
from tests.helpers.machines import one_gpu


def small(scope: Scope) -> Scope:
    """The scope with little to write and to touch."""
    return replace(scope, stock_few=16 * MIB, stock=16 * MIB, cold=16 * MIB, cold_s=0.1)


def test_what_varies_from_minute_to_minute_is_looked_at_twice(tmp_path: Path) -> None:
    backend = open_backend("host")

    def start() -> Backend:
        return backend

    try:
        for scope in (QUICK, FULL):
            with open_arena(start, [0], tmp_path, 2, small(scope), Quiet()) as arena:
                plan = Plan(backend, arena, [0], axes_of(arena, 2), one_gpu)
                groups = {group.name: group for group in plan.groups()}
                twice = {name for name in groups if f"{name} again" in groups}
                joints = {f"joint {copy}" for copy in ("file", "memory", "save", "save_memory")}
                others = {"in_place pcie0", "pageable pcie0", "disk"}
                assert twice == (joints | others if scope.full else set())
                if not scope.full:
                    continue
                # The second look at the disk takes samples of its own by the same readers, which
                # are there until the end: cells of the first one may be taken again then.
                first, second = ([*groups[name].make()] for name in ("disk", "disk again"))
                assert [cell.key for cell in second] == [cell.key for cell in first]
                assert all(a is not b for a, b in zip(first, second, strict=True))
                for cell in (second[0], first[0]):
                    assert cell.take() > 0
                assert (first[0].taken, second[0].taken) == (1, 1)
    finally:
        backend.close()
