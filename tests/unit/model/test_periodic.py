"""Many repeats: exact without playing all of them, and played where that is not possible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.machine.topology import Topology
from planner.model import periodic
from planner.model.arrange import alone
from planner.model.choose import decide
from planner.model.compose import Composition, compose, play
from planner.model.needs import demands
from planner.plan.schema import Plan
from tests.helpers.machines import GB, one_gpu
from tests.helpers.plans import down, plan_of, up


def both(plan: Plan) -> tuple[Composition, Composition]:
    """The plan composed, and with all its repeats played."""
    machine = one_gpu()
    wanted = demands(plan, machine)
    chosen = [alone(d.need, decide(Topology(machine), d.need).best) for d in wanted]
    return compose(plan, machine, wanted, chosen), play(plan, machine, wanted, chosen, None)


def training(repeat: int, buffers: int = 2, time: str = "3ms", **more: Any) -> Plan:
    flows = {
        "batch": up(size=GB // 50, repeat=repeat, buffers=buffers),
        "save": down(size=GB // 100, repeat=repeat, after="step"),
        **more,
    }
    block = {"gpu": "gpu0", "time": time, "repeat": repeat, "after": "batch"}
    return plan_of(flows, compute={"step": block})


@pytest.mark.parametrize("repeat", [241, 500, 1003])
@pytest.mark.parametrize("buffers", [1, 2, 4])
@pytest.mark.parametrize("time", ["1ms", "3ms"])
def test_many_repeats_are_what_playing_them_gives(repeat: int, buffers: int, time: str) -> None:
    quick, full = both(training(repeat, buffers, time))
    assert quick.flows < full.flows
    assert quick.makespan == pytest.approx(full.makespan, rel=1e-11)
    for one, other in zip(
        (*quick.parts, *quick.compute), (*full.parts, *full.compute), strict=True
    ):
        for name in ("start", "first", "finish", "moving", "exposed"):
            wanted = pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12)
            assert getattr(one, name) == wanted
    assert quick.load == pytest.approx(full.load, rel=1e-9)
    assert quick.busy == pytest.approx(full.busy, rel=1e-9)


def test_what_comes_before_and_after_is_kept() -> None:
    first, last = up(size=GB), up(size=GB // 2, after="batch")
    plan = training(600, first={**first, "memory": "pinned"}, last=last)
    quick, full = both(plan)
    assert quick.flows < full.flows
    assert [p.finish for p in quick.parts] == pytest.approx(
        [p.finish for p in full.parts], rel=1e-9
    )


@pytest.mark.parametrize(
    "more",
    [
        {"beside": up(size=3 * GB, chunk=1 << 20)},  # shares the wire over a part of the repeats
        {"later": up(size=GB, start="900ms")},  # comes in when the short runs are over
    ],
)
def test_what_happens_meanwhile_is_played(more: dict[str, Any]) -> None:
    quick, full = both(training(500, **more))
    assert quick == full


def test_ten_thousand_repeats_take_a_few_hundred() -> None:
    composed, _ = both(training(300))
    machine = one_gpu()
    plan = training(10_000)
    wanted = demands(plan, machine)
    chosen = [alone(d.need, decide(Topology(machine), d.need).best) for d in wanted]
    many = compose(plan, machine, wanted, chosen)
    assert many.flows <= 2 * composed.flows
    # A step of 3 ms hides the batch of 2 ms; each further step adds its own time.
    further = many.makespan - composed.makespan
    assert further == pytest.approx((10_000 - 300) * 0.003, rel=1e-9)


def test_unequal_large_counts_are_played() -> None:
    flows = {"a": up(size=GB // 50, repeat=300), "b": down(size=GB // 50, repeat=301)}
    quick, full = both(plan_of(flows))
    assert quick == full


def test_a_run_that_does_not_repeat_itself_is_told() -> None:
    plan = training(300)
    machine = one_gpu()
    wanted = demands(plan, machine)
    chosen = [alone(d.need, decide(Topology(machine), d.need).best) for d in wanted]

    def drifting(repeats: int) -> Composition:
        found = play(plan, machine, wanted, chosen, repeats)
        part = found.parts[0]
        ends = tuple(end * 1.001 if i % 7 == 0 else end for i, end in enumerate(part.ends))
        return replace(found, parts=(replace(part, ends=ends), *found.parts[1:]))

    assert periodic.extrapolated(plan, wanted, drifting) is None
