"""A cap on a flow's rate is part of the choice: of the way, of its shape, and of every time told.

1 GB under a cap of 100 MB/s takes ten seconds by any way that moves its bytes once.
"""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.results import FlowEstimate, Rejected
from tests.helpers.machines import GB, MIB, one_gpu
from tests.helpers.plans import load, plan_of, up
from tests.helpers.variants import changed

CAP = {"rate": "100MB/s"}
KIB = 1024


def machine() -> Machine:
    """A ring costs 10 ms a GiB to touch, so one call from pageable memory wins where none caps."""
    setup = {"register": 100e9, "touch_fresh": 100e9, "map_touch": 1e18, "workers": 1e-3}
    return one_gpu(setup=setup)


def flow(**more: object) -> FlowEstimate:
    return estimate(plan_of({"a": load(**{"size": GB, **more})}), machine()).flows[0]


def row(found: FlowEstimate, *names: str) -> Rejected:
    return next(r for r in found.rejected if r.strategies == names)


def test_bytes_are_not_moved_twice_under_a_cap() -> None:
    found = flow(budget=CAP)
    assert [hop.strategy for hop in found.schedule.hops] == ["buffered", "pinned"]
    assert found.duration_s == pytest.approx(10.0, rel=1e-3)
    # Into host memory and from there: each half of such a way keeps the cap for ten seconds.
    twice = row(found, "buffered", "pageable")
    assert twice.duration_s == pytest.approx(20.0, rel=0.01)
    assert found.bottleneck.resource == "a.budget"


def test_one_worker_does_where_the_cap_is_all_that_limits() -> None:
    # 100 MB/s are worth 64 KiB in a millisecond; two slots, so that one copy queues behind another.
    hop = flow(budget=CAP).schedule.hops[0]
    assert (hop.chunk_bytes, hop.depth, hop.workers) == (64 * KIB, 2, 1)


def test_the_neighbourhood_that_is_told_is_one_of_chunks_that_the_cap_allows() -> None:
    assert (flow(budget=CAP).flat or "64 KiB chunks").startswith("64 KiB chunks")
    # 4 GB/s allow up to 2 MiB (4 MB in a millisecond, a power of two): nothing larger is told of.
    told = flow(budget={"rate": "4GB/s"}).flat
    assert told is None or "4 MiB" not in told


def test_the_times_told_are_those_under_the_cap() -> None:
    found = flow(budget=CAP)
    assert found.alone_s == pytest.approx(found.duration_s, rel=1e-9)
    assert f"= {10.0:.2f} s" in found.arithmetic[-1]
    timed = [r for r in found.rejected if r.duration_s is not None]
    assert min(r.duration_s or 0.0 for r in timed) >= 10.0


def test_one_call_is_not_taken_where_a_cap_must_space_it() -> None:
    # A mapping copied by the driver needs no ring, but goes at 4 GB/s for a quarter of a second.
    dear = changed(machine(), {"nodes.host0.setup.workers": 1.0})
    found = estimate(plan_of({"a": load(size=GB, budget=CAP)}), dear).flows[0]
    assert [hop.strategy for hop in found.schedule.hops] == ["buffered", "pinned"]
    other = row(found, "mmap", "pageable")
    assert (other.duration_s or 0.0) < found.duration_s
    assert other.reason == "it moves too much in one call to keep to 100 MB/s"


def test_a_cap_that_does_not_bind_changes_no_time() -> None:
    free = flow(chunk=MIB)
    loose = flow(chunk=MIB, budget={"rate": "40GB/s"})
    assert loose.duration_s == free.duration_s
    assert loose.schedule == free.schedule


def test_the_plans_cap_counts_like_the_flows_own() -> None:
    flows = {"a": up(size=GB)}
    own = estimate(plan_of({"a": up(size=GB, budget=CAP)}), machine())
    whole = estimate(plan_of(flows, budget=CAP), machine())
    assert whole.flows[0].schedule == own.flows[0].schedule
    assert whole.makespan_s == pytest.approx(own.makespan_s, rel=1e-9)


def test_each_repeat_keeps_the_cap() -> None:
    found = flow(budget=CAP, repeat=3)
    assert found.duration_s == pytest.approx(30.0, rel=1e-3)
    assert found.alone_s == pytest.approx(found.duration_s, rel=1e-6)


@pytest.mark.parametrize("pins", [{}, {"chunk": 16 * MIB, "depth": 1}, {"chunk": 4 * MIB}])
def test_what_a_candidate_takes_longer_is_the_difference_of_the_times_told(
    pins: dict[str, int],
) -> None:
    found = flow(size=4 * GB, **pins)
    assert found.alone_s == pytest.approx(found.duration_s, rel=1e-9)
    best = found.duration_s
    slower = [r for r in found.rejected if r.reason.startswith("takes ")]
    assert slower
    for one in slower:
        words = one.reason.removeprefix("takes ").split(" longer")[0].split()
        scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[words[1]]
        assert float(words[0]) * scale == pytest.approx((one.duration_s or 0.0) - best, rel=1e-3)
    # The arithmetic ends at the headline.
    assert found.arithmetic[-1].startswith("duration = ")
