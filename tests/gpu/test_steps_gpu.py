"""When flows run on real GPUs: transfers behind compute, and classes on one copy engine."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from planner.engine.execute import execute
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import MIB, one_gpu

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu


def run(words: dict[str, Any], **options: Any) -> Run:
    machine, plan = one_gpu(), Plan.model_validate(words)
    prediction = estimate(plan, machine)
    return execute(plan, machine, estimate=prediction, backend="cuda", **options)


def prefetch(buffers: int) -> dict[str, Any]:
    """64 MiB, 1.2 ms over PCIe 5.0 x16 and 5.4 ms over 3.0, before each step of 12 ms."""
    batch = {"from": "host0", "to": ["gpu0"], "size": 64 * MIB, "memory": "pinned", "repeat": 10}
    step = {"gpu": "gpu0", "time": 0.012, "repeat": 10, "after": ["batch"]}
    return {"flows": {"batch": batch | {"buffers": buffers}}, "compute": {"step": step}}


def test_one_buffer_hides_nothing_and_two_all_but_the_first() -> None:
    one = run(prefetch(1), samples=3)
    two = run(prefetch(2), samples=3)
    for found in (one, two):
        assert found.flows[0].verified is True
        # Ten steps of 12 ms; the device's clock and the host's agree to much less than 1 %.
        assert found.compute[0].duration_s >= 0.119
    assert one.flows[0].hidden_share is not None
    assert two.flows[0].hidden_share is not None
    assert one.flows[0].hidden_share < 0.05
    # Nine of ten batches come in while a step runs. A tenth of slack for a slower second batch.
    assert two.flows[0].hidden_share > 0.8
    assert two.makespan_samples_s[0] < one.makespan_samples_s[0]


def test_flows_out_and_in_keep_step_with_compute() -> None:
    words = prefetch(2)
    words["flows"]["back"] = {
        "from": "gpu0",
        "to": ["host0"],
        "size": 16 * MIB + 1,
        "memory": "pinned",
        "repeat": 10,
        "after": ["step"],
    }
    found = run(words, samples=2)
    assert [flow.verified for flow in found.flows] == [True, True]


def shared(high_class: int) -> dict[str, Any]:
    """512 MiB that come 10 ms into 4 GiB, both in copies of 8 MiB over one engine, two at a time.

    4 GiB take at least 64 ms over PCIe 5.0 x16, so `low` is under way when `high` comes.
    """
    flow = {"from": "host0", "to": ["gpu0"], "memory": "pinned", "chunk": 8 * MIB, "depth": 2}
    high = flow | {"size": 512 * MIB, "priority": high_class, "start": 0.01}
    return {"flows": {"high": high, "low": flow | {"size": 4096 * MIB}}}


def test_a_higher_class_hardly_notices_the_lower_one() -> None:
    alone = shared(0)
    del alone["flows"]["low"]
    lonely = run(alone, samples=3).flows[0].steady_s
    with_order = run(shared(1), samples=3)
    without = run(shared(0), samples=3)
    assert [flow.verified for flow in with_order.flows] == [True, True]
    # 64 chunks; two of the lower class are queued when it comes, then one at most.
    assert with_order.flows[0].steady_s < 1.4 * lonely
    # Without classes the hardware shares the engine among streams as it likes: in turns high takes
    # twice as long, but a stream that came later was also seen to go first (10.05 ms where 10.0 ms
    # are alone, H200), or to wait until low was through. The engine moves the bytes of both, 9/8 of
    # low's own.
    for shared_run in (with_order, without):
        assert median(shared_run.makespan_samples_s) > 8 * lonely * 1.08
    assert without.flows[0].steady_s > 0.95 * lonely
    assert not any("priorit" in warning for warning in with_order.warnings)
