"""No strategy asks more of a shared resource than its own time: alone it takes what it takes."""

from __future__ import annotations

from typing import Any

import pytest

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.compose import fluid
from planner.model.need import Need
from planner.model.strategies import Kind, Use
from tests.helpers.machines import GB, one_gpu
from tests.helpers.networks import two_hosts
from tests.helpers.variants import DOWN, UP, by, changed, every, load, upload


def need(first: Kind, size: int = 4 * GB, **more: Any) -> Need:
    start = {"file": "disk0", "device": "gpu0"}.get(first, "host0")
    return Need("n", start, "gpu0", size, first, "device", 64 * GB, 16, **more)


H200 = load_machine("h200-sxm-1")
CASES: dict[str, tuple[Machine, Need]] = {
    "file": (H200, need("file")),
    "half cold file": (H200, need("file", cached=0.5)),
    "memory": (H200, need("pageable")),
    "scattered lookups": (H200, need("mapped", use=Use(0.001, 1, "random"))),
    "dense, again and again": (H200, need("mapped", use=Use(1.0, 20, "dense"))),
    "managed": (H200, need("managed", use=Use(0.001, 3, "strided"))),
    "small pieces": (H200, need("pinned", 4096 * 1000, pieces=((4096, 1000),))),
    "file to another host": (
        two_hosts(cipher=1e9),
        Need("n", "disk0", "node1.gpu0", GB, "file", "device", GB, 8),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_alone_a_fluid_takes_what_its_pipeline_takes(case: str) -> None:
    machine, asked = CASES[case]
    decision = every(machine, asked)
    for candidate in (decision.best, *decision.others):
        for movement, shape in zip(candidate.way.movements, candidate.shapes, strict=True):
            moves = fluid(movement, shape)
            if moves.total == 0.0:
                continue
            flowing = movement.size / moves.cap
            assert moves.delay + flowing == pytest.approx(moves.total, rel=1e-9), (
                candidate.way.names
            )
            # Of every resource it takes at most all of the time in which it flows.
            for resource, per_byte in moves.charges.items():
                assert per_byte * moves.cap <= 1 + 1e-9, resource


def test_the_opposite_direction_loses_by_what_really_crosses() -> None:
    # 1 % of 4 GB three times: 120 MB in place; each takes 0.1 of a byte of the other direction.
    machine = changed(
        one_gpu(), {f"{UP}.curves.zero_copy": {"latency": 0, "rate": 8e9}, f"{DOWN}.against": 0.1}
    )
    found = by(machine, upload(4 * GB, "mapped", use=Use(0.01, 3)), "zero_copy")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.charges["pcie0.backward"] * 4 * GB == pytest.approx(120e6 * 0.1 / 10e9)
    whole = by(machine, load(4 * GB), "buffered", "pinned")
    _, copy = whole.way.movements[0].stages(whole.shapes[0])
    assert copy.charges["pcie0.backward"] == pytest.approx(0.1 / 10e9)
