"""Which links share a wire, and what crossing traffic takes, from rates of pairs of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.engine.calibration.assemble import Found
from planner.engine.calibration.ports import ports_of
from planner.engine.calibration.rounds import Cell
from planner.machine.discover import discover
from planner.machine.schema import Direction, Link

GB = 10**9


def _cell(*key: object, value: float, also: float | None = None) -> Cell:
    cell = Cell(key, None, is_rate=True, clean=[value])
    if also is not None:
        cell.also.append(also)
    return cell


def _found(cells: list[Cell], gpus: int = 2) -> Found:
    return Found("here", discover(Path("/nowhere")), list(range(gpus)), emulated=False, cells=cells)


def _links(rate: float, gpus: int = 2) -> dict[str, Link]:
    side = Direction(rate=rate)
    return {
        f"pcie{k}": Link(kind="pcie", ends=("host0", f"gpu{k}"), forward=side, backward=side)
        for k in range(gpus)
    }


def _alone(rate: float, gpus: int = 2) -> list[Cell]:
    return [_cell("duplex", k, way, 0, value=rate) for k in range(gpus) for way in ("h2d", "d2h")]


def test_a_shared_wire_is_scaled_to_what_the_links_reach() -> None:
    # Batches reach 54 of the links' 55 GB/s; both together 102.6 = 95 % of twice 54, so the wire
    # carries 95 % of twice 55. Outward nothing is lost: 99 % is noise.
    cells = [
        *_alone(54 * GB),
        _cell("together", "h2d", 0, 1, value=51.3 * GB, also=51.3 * GB),
        _cell("together", "d2h", 0, 1, value=53.5 * GB, also=53.4 * GB),
    ]
    ports, owner = ports_of(_found(cells), _links(55 * GB))
    assert owner == {"pcie0": "uplink0", "pcie1": "uplink0"}
    assert ports["uplink0"].forward == pytest.approx(0.95 * 110 * GB)
    assert ports["uplink0"].backward is None
    assert ports["uplink0"].forward_across == 0.0


def test_what_crossing_traffic_takes_is_found_without_a_shared_wire_too() -> None:
    # Inward falls from 54 to 49 GB/s while 54 go out of the other GPU: 5 of 54 for each byte.
    cells = [
        *_alone(54 * GB),
        _cell("together", "h2d", 0, 1, value=54 * GB, also=54 * GB),
        _cell("together", "d2h", 0, 1, value=54 * GB, also=54 * GB),
        *(
            _cell("crossed", way, i, j, value=rate * GB, also=54 * GB)
            for way, rate in (("h2d", 49), ("d2h", 53.9))
            for i, j in ((0, 1), (1, 0))
        ),
    ]
    ports, owner = ports_of(_found(cells), _links(55 * GB))
    assert set(owner) == {"pcie0", "pcie1"}
    assert (ports["uplink0"].forward, ports["uplink0"].backward) == (None, None)
    assert ports["uplink0"].forward_across == pytest.approx(5 / 54)
    assert ports["uplink0"].backward_across == 0.0  # 0.1 of 54 is noise


def test_gpus_that_lose_nothing_share_nothing() -> None:
    cells = [*_alone(54 * GB), _cell("together", "h2d", 0, 1, value=54 * GB, also=53.9 * GB)]
    assert ports_of(_found(cells), _links(55 * GB)) == ({}, {})
    assert ports_of(_found(_alone(54 * GB, 1), 1), _links(55 * GB, 1)) == ({}, {})
