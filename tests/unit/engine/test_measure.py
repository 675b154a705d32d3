"""Figures of samples, worked out by hand."""

from __future__ import annotations

from planner.engine.flow_sample import FlowSample
from planner.engine.measure import quantile, served, spread, union
from planner.engine.sample import settled
from planner.engine.transfer import Moved


def test_union_counts_every_instant_once() -> None:
    assert union([]) == 0.0
    # 0 … 4 (the second and third lie inside or overlap), then 6 … 7.
    assert union([(0.0, 3.0), (1.0, 2.0), (2.5, 4.0), (6.0, 7.0)]) == 5.0


def test_service_starts_when_the_engine_is_free() -> None:
    # Issued at 0, 0 and 1, ended at 2, 4 and 5: served 0 … 2, 2 … 4, 4 … 5, whatever the order.
    issued = [(1.0, 5.0), (0.0, 2.0), (0.0, 4.0)]
    assert served(issued) == [(0.0, 2.0), (2.0, 4.0), (4.0, 5.0)]


def test_flows_on_one_engine_stand_in_one_queue() -> None:
    engine = ("h2d", 0)

    def sample(*pairs: tuple[float, float]) -> FlowSample:
        move = Moved(0.0, 4.0, (pairs, ((0.0, 9.0),)), (engine, None))
        return FlowSample(0.0, 4.0, (), 4.0, 4.0, (move,))

    # a's copies end at 1 and 3, b's at 2 and 4, all issued at 0: each is served for one second.
    found = settled({"a": sample((0.0, 1.0), (0.0, 3.0)), "b": sample((0.0, 2.0), (0.0, 4.0))})
    assert found["a"].moves[0].intervals[0] == ((0.0, 1.0), (2.0, 3.0))
    assert found["b"].moves[0].intervals[0] == ((1.0, 2.0), (3.0, 4.0))
    # A pool has no queue: its intervals stay.
    assert found["a"].moves[0].intervals[1] == ((0.0, 9.0),)


def test_quantiles_lie_between_neighbours() -> None:
    # Of 1, 2, 3, 4, 5: quartiles 2 and 4, so half of the range between them is 1.
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert quantile(samples, 0.5) == 3.0
    assert quantile(samples, 0.95) == 4.8
    assert spread(samples) == 1.0
    assert spread([7.0]) == 0.0
