"""Weighted max-min: expectations are worked out beside each case."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from planner.model.sharing import max_min


def rates(
    capacities: Sequence[float],
    charges: Sequence[Mapping[int, float]],
    weights: Sequence[float] | None = None,
    caps: Sequence[float] | None = None,
) -> list[float]:
    found: list[float] = max_min(capacities, charges, weights, caps).tolist()
    return found


def test_two_flows_halve_a_link() -> None:
    assert rates([10.0], [{0: 1.0}, {0: 1.0}]) == [5.0, 5.0]


def test_a_line_network_gives_the_long_flow_the_share_of_its_tightest_link() -> None:
    # Link 1: the long flow and b, 4 / 2 = 2 each. Link 0: the long flow has 2, so a gets 10 - 2.
    assert rates([10.0, 4.0], [{0: 1.0, 1: 1.0}, {0: 1.0}, {1: 1.0}]) == [2.0, 8.0, 2.0]


def test_what_one_link_denies_a_flow_is_left_to_the_others() -> None:
    # r0 + r1 + r2 <= 12, r1 + r3 <= 2, r2 + r3 <= 9.
    # The second is full first: r1 = r3 = 1. Then r0 + r2 <= 11 is full at 5.5 each,
    # below r2 = 9 - 1, so r0 = r2 = 5.5.
    charges = [{0: 1.0}, {0: 1.0, 1: 1.0}, {0: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}]
    assert rates([12.0, 2.0, 9.0], charges) == [5.5, 1.0, 5.5, 1.0]


def test_a_capped_flow_leaves_the_rest_to_the_others() -> None:
    # (10 - 2) / 2 = 4
    assert rates([10.0], [{0: 1.0}] * 3, caps=[2.0, math.inf, math.inf]) == [2.0, 4.0, 4.0]


def test_the_smallest_cap_of_several_stops_first() -> None:
    # All below 12 / 3 = 4 but the last: 12 - 1 - 3 = 8, above the cap of 5.
    assert rates([12.0], [{0: 1.0}] * 3, caps=[1.0, 3.0, 5.0]) == [1.0, 3.0, 5.0]


def test_weights_divide_in_their_proportion() -> None:
    assert rates([12.0], [{0: 1.0}] * 2, weights=[1.0, 3.0]) == [3.0, 9.0]


def test_a_cap_is_of_the_rate_not_of_the_rate_by_weight() -> None:
    # Level 12 / 4 = 3 would give the second 9; it stops at 6, the first takes what is left.
    assert rates([12.0], [{0: 1.0}] * 2, weights=[1.0, 3.0], caps=[math.inf, 6.0]) == [6.0, 6.0]


def test_multiplicity_takes_capacity_but_no_smaller_share() -> None:
    # A pageable copy that crosses the memory bus three times: 3 r + r = 8, both at r = 2.
    assert rates([8.0], [{0: 3.0}, {0: 1.0}]) == [2.0, 2.0]


def test_duplex_interference_slows_both_directions() -> None:
    # Each direction charges the other 0.22 times: r (1 + 0.22) = 54.9, r = 45.
    both = rates([54.9, 54.9], [{0: 1.0, 1: 0.22}, {1: 1.0, 0: 0.22}])
    assert both == pytest.approx([45.0, 45.0], rel=1e-15)
    # With the other held at 10: r + 0.22 * 10 = 54.9, r = 52.7; its own link: 10 + 11.6 < 54.9.
    one = rates([54.9, 54.9], [{0: 1.0, 1: 0.22}, {1: 1.0, 0: 0.22}], caps=[math.inf, 10.0])
    assert one == pytest.approx([52.7, 10.0], rel=1e-15)


def test_nothing_charged_runs_at_its_cap() -> None:
    assert rates([1.0], [{}, {}, {0: 0.0}], caps=[3.0, math.inf, 7.0]) == [3.0, math.inf, 7.0]


def test_no_capacity_gives_no_rate() -> None:
    assert rates([0.0, 5.0], [{0: 1.0, 1: 1.0}, {1: 1.0}]) == [0.0, 5.0]


def test_unlimited_capacity_binds_nothing() -> None:
    assert rates([math.inf, 6.0], [{0: 1.0}, {0: 1.0, 1: 1.0}]) == [math.inf, 6.0]


def test_no_flows_have_no_rates() -> None:
    assert rates([1.0], []) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacities": [-1.0]}, "capacity 0 is -1"),
        ({"capacities": [math.nan]}, "capacity 0 is nan"),
        ({"charges": [{0: -2.0}]}, "charge 0 is -2"),
        ({"charges": [{3: 1.0}]}, "outside 0 to 0"),
        ({"weights": [0.0]}, "greater than 0"),
        ({"weights": [1.0, 1.0]}, "1 numbers as weight"),
        ({"caps": [-1.0]}, "cap 0 is -1"),
    ],
)
def test_wrong_numbers_are_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        max_min(**{"capacities": [1.0], "charges": [{0: 1.0}], **change})  # type: ignore[arg-type]


@dataclass(frozen=True)
class System:
    capacities: list[float]
    charges: list[dict[int, float]]
    weights: list[float]
    caps: list[float]


@st.composite
def systems(draw: st.DrawFn) -> System:
    positive = st.floats(0.01, 100.0)
    links = draw(st.integers(1, 5))
    count = draw(st.integers(1, 8))
    row = st.dictionaries(st.integers(0, links - 1), positive, max_size=links)
    cap = st.one_of(st.just(math.inf), positive)
    return System(
        draw(st.lists(positive, min_size=links, max_size=links)),
        draw(st.lists(row, min_size=count, max_size=count)),
        draw(st.lists(positive, min_size=count, max_size=count)),
        draw(st.lists(cap, min_size=count, max_size=count)),
    )


@given(systems())
def test_no_flow_can_gain_without_one_that_has_no_more_losing(system: System) -> None:
    """The definition itself: each flow is at its cap, or among the highest on a full link."""
    result = rates(system.capacities, system.charges, system.weights, system.caps)
    level = [rate / weight for rate, weight in zip(result, system.weights, strict=True)]
    full: set[int] = set()
    for link, capacity in enumerate(system.capacities):
        on_link = [flow for flow, row in enumerate(system.charges) if link in row]
        used = sum(result[flow] * system.charges[flow][link] for flow in on_link)
        assert used <= capacity * (1 + 1e-12)
        if used >= capacity * (1 - 1e-12):
            highest = max(level[flow] for flow in on_link)
            full.update(flow for flow in on_link if level[flow] >= highest * (1 - 1e-12))
    for flow, cap in enumerate(system.caps):
        assert result[flow] <= cap * (1 + 1e-12)
        assert flow in full or result[flow] >= cap * (1 - 1e-12)
