"""Copies into write-combined memory: the ordinary tables where there is none, else its own."""

from __future__ import annotations

from planner.engine.calibration import combined, tables
from planner.engine.memory import HostBuffer
from planner.machine.schema import Machine, Ram
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from tests.helpers.machines import GB, MIB, one_gpu


def _rates(machine: Machine) -> set[str]:
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    return set(host.copy_rates)


def test_ordinary_memory_has_the_ordinary_tables() -> None:
    plain = {"file", "memory", "save", "save_memory"}
    found = combined.with_plain(one_gpu(write_combined=False))
    assert _rates(found) == plain | {"file_wc", "memory_wc"}
    host = found.nodes["host0"]
    assert isinstance(host, Ram)
    assert host.copy_rates["file_wc"] == host.copy_rates["file"]
    # What was not looked at, and what really is write-combined, is not made up.
    assert _rates(combined.with_plain(one_gpu())) == plain
    assert _rates(combined.with_plain(one_gpu(write_combined=True))) == plain


def test_whoever_asks_for_such_a_ring_gets_its_prediction_and_nobody_else() -> None:
    machine = combined.with_plain(one_gpu(write_combined=False))
    flow = {"from": "host0", "to": ["gpu0"], "size": GB}

    def hops(**more: str) -> list[str]:
        plan = Plan.model_validate({"flows": {"f": flow | more}})
        return [hop.strategy for hop in estimate(plan, machine).flows[0].schedule.hops]

    assert hops(strategy="write_combined") == ["write_combined"]
    assert "write_combined" not in hops()


def test_both_tables_are_measured_as_far_as_the_memory_goes() -> None:
    ring, source = HostBuffer(8 * MIB), bytes(8 * MIB)
    moved: list[int] = []

    def copy(slot: memoryview, offset: int) -> None:
        slot[:] = source[offset : offset + len(slot)]
        moved.append(len(slot))

    side = tables.Side(copy, 8 * MIB)
    axes = {name: ([1, 2], [4 * MIB, 8 * MIB, 16 * MIB]) for name in ("file", "memory")}
    sides = dict.fromkeys(("file", "memory"), side)
    cells = list(combined.table_cells(sides, ring, axes, 0.001))  # type: ignore[arg-type]
    wanted = [
        (name, w, r * MIB) for name in ("file_wc", "memory_wc") for w in (1, 2) for r in (4, 8)
    ]
    assert [cell.key for cell in cells] == wanted
    assert all(cell.take() > 0 for cell in cells)
    # One worker, or each of two, goes round its part of the ring in one call.
    assert set(moved) == {2 * MIB, 4 * MIB, 8 * MIB}
    ring.close()
