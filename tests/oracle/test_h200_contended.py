"""The catalogue's H200 against flows that were measured together, beyond what went into it.

Measured 2026-11-29 on a virtual machine with one H200 and 16 cores, medians of 7 to 14 samples,
with buffers that the user pinned: one call each. The catalogue comes from other such machines.
"""

from __future__ import annotations

import pytest

from planner.machine.load import load_machine
from planner.model.estimate import estimate
from tests.helpers.plans import plan_of

IN = {"from": "host0", "to": "gpu0", "memory": "pinned"}
OUT = {"from": "gpu0", "to": "host0", "memory": "pinned"}

CLOSE = 0.08


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        (68_853_517, 449_713_879, (1.361e-3, 9.18e-3)),
        (68_517_405, 430_694_459, (1.348e-3, 8.818e-3)),
    ],
)
def test_two_calls_of_one_direction_take_turns(
    first: int, second: int, seconds: tuple[float, float]
) -> None:
    flows = {"one": {**IN, "size": first}, "two": {**IN, "size": second}}
    predicted = estimate(plan_of(flows), load_machine("h200-sxm-1"))
    assert [flow.steady_s for flow in predicted.flows] == pytest.approx(seconds, rel=CLOSE)


@pytest.mark.parametrize(
    ("inward", "outward", "seconds"),
    [
        (65_717_731, 371_263_957, (1.405e-3, 6.934e-3)),  # the quieter of two passes
        (201_067_167, 239_862_203, (4.225e-3, 4.722e-3)),
        (107_794_211, 492_114_619, (2.222e-3, 9.140e-3)),
    ],
)
def test_a_small_call_is_not_starved_by_a_big_one_of_the_other_direction(
    inward: int, outward: int, seconds: tuple[float, float]
) -> None:
    flows = {"in": {**IN, "size": inward}, "out": {**OUT, "size": outward}}
    predicted = estimate(plan_of(flows), load_machine("h200-sxm-1"))
    assert [flow.steady_s for flow in predicted.flows] == pytest.approx(seconds, rel=CLOSE)
