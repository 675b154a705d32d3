"""The excess of a flow is split over its parts, and the parts sum to it."""

from __future__ import annotations

import pytest

from planner.review.blame import blame, blame_run, flow_excess
from tests.helpers import results


def test_the_hop_that_took_longer_is_to_blame() -> None:
    flow = results.flow_run(factor=1.5)
    parts = blame(flow, results.flow_estimate())
    # 2.06 s x 0.5, all of it in the read.
    assert parts[0].part == "disk0 → host0"
    assert parts[0].excess_s == pytest.approx(1.03)
    assert flow_excess(flow) == pytest.approx(1.03)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.1, 3.0])
def test_the_parts_sum_to_the_excess(factor: float) -> None:
    flow = results.flow_run(factor=factor)
    parts = blame(flow, results.flow_estimate())
    assert sum(part.excess_s for part in parts) == pytest.approx(flow_excess(flow))


def test_setup_that_took_longer_is_to_blame() -> None:
    slow = results.SETUP.model_copy(update={"duration_s": 2.05})
    flow = results.flow_run(factor=1.0)
    flow = flow.model_copy(update={"setup": (slow,), "duration_s": 4.06})
    # 2.05 s instead of 0.05 s; the hops were as predicted.
    part, excess = blame(flow, results.flow_estimate())[0]
    assert part == "setup"
    assert excess == pytest.approx(2.0)


def test_what_no_part_took_is_lost_overlap() -> None:
    flow = results.flow_run(factor=1.0).model_copy(update={"duration_s": 2.56})
    part, excess = blame(flow, results.flow_estimate())[0]
    assert part == "overlap"
    assert excess == pytest.approx(0.5)


def test_every_flow_of_a_run_has_its_blame() -> None:
    run = results.run(results.flow_run(), results.flow_run("kv", factor=2.0))
    assert [flow.name for flow, _ in blame_run(run)] == ["weights", "kv"]
