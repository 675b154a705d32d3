"""The fluid simulation: expectations are worked out beside each case."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from planner.errors import UnavailableError
from planner.model._fluid_events import Trace
from planner.model._fluid_problem import Problem
from planner.model.simulate import FluidFlow, FluidResult, Helper, RateChange, Resource, simulate
from tests.helpers.fluid_cases import HELPERS, fluid_inputs, use_helper

LINK = [Resource("link", 10.0)]
ON_LINK = {0: 1.0}

Simulate = Callable[[list[Resource], list[FluidFlow]], FluidResult]


@pytest.fixture(params=HELPERS)
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """`simulate` by each helper in turn, with the rates recorded."""
    helper: Helper = request.param
    use_helper(helper, monkeypatch)
    return lambda resources, flows: simulate(resources, flows, record=True, helper=helper)


def test_one_flow_takes_its_work_over_the_capacity(run: Simulate) -> None:
    result = run(LINK, [FluidFlow("a", 25.0, ON_LINK)])
    assert result.finish == (2.5,)  # 25 / 10
    assert result.busy == (2.5,)
    assert result.load == (2.5,)
    assert result.makespan == 2.5
    assert result.bottleneck == (0,)
    assert result.events == 2
    assert result.rates == (RateChange(0.0, 0, 10.0), RateChange(2.5, 0, 0.0))


def test_what_a_finished_flow_leaves_goes_to_the_others(run: Simulate) -> None:
    # Both at 5 until a is done at 2; b has 20 - 10 left and the link alone: 2 + 10 / 10.
    result = run(LINK, [FluidFlow("a", 10.0, ON_LINK), FluidFlow("b", 20.0, ON_LINK)])
    assert result.finish == (2.0, 3.0)
    assert result.events == 3


def test_a_flow_that_starts_later_slows_the_first(run: Simulate) -> None:
    # a alone: 10 by t=1, 10 left; then 5 each: a is done at 3, b has 15 - 10 left: 3 + 0.5.
    flows = [FluidFlow("a", 20.0, ON_LINK), FluidFlow("b", 15.0, ON_LINK, start=1.0)]
    result = run(LINK, flows)
    assert result.ready == (0.0, 1.0)
    assert result.finish == (3.0, 3.5)
    assert result.rates == (
        RateChange(0.0, 0, 10.0),
        RateChange(1.0, 0, 5.0),
        RateChange(1.0, 1, 5.0),
        RateChange(3.0, 0, 0.0),
        RateChange(3.0, 1, 10.0),
        RateChange(3.5, 1, 0.0),
    )


def test_the_delay_takes_no_share(run: Simulate) -> None:
    # b is ready at 1 and silent to 2, when a is done with its 20: b has the link alone.
    flows = [FluidFlow("a", 20.0, ON_LINK), FluidFlow("b", 10.0, ON_LINK, start=1.0, delay=1.0)]
    result = run(LINK, flows)
    assert result.ready == (0.0, 1.0)
    assert result.begin == (0.0, 2.0)
    assert result.finish == (2.0, 3.0)
    assert result.busy == (3.0,)


def test_a_chain_waits_for_its_predecessors(run: Simulate) -> None:
    # a: 1 s. b after a: ready 1, delay 0.5, 2 s: 3.5. c after a and b, not before 3: 3.5 + 1.
    flows = [
        FluidFlow("c", 10.0, ON_LINK, start=3.0, after=(1, 2)),
        FluidFlow("a", 10.0, ON_LINK),
        FluidFlow("b", 20.0, ON_LINK, delay=0.5, after=(1,)),
    ]
    result = run(LINK, flows)
    assert result.ready == (3.5, 0.0, 1.0)
    assert result.begin == (3.5, 0.0, 1.5)
    assert result.finish == (4.5, 1.0, 3.5)
    assert result.busy == (4.0,)  # idle from 1 to 1.5


def test_no_work_is_a_barrier(run: Simulate) -> None:
    # The barrier is done when both are, at (10 + 20) / 10; then c.
    flows = [
        FluidFlow("a", 10.0, ON_LINK),
        FluidFlow("b", 20.0, ON_LINK),
        FluidFlow("barrier", 0.0, {}, after=(0, 1)),
        FluidFlow("pause", 0.0, ON_LINK, delay=2.0, after=(2,)),
        FluidFlow("c", 10.0, ON_LINK, after=(3,)),
    ]
    result = run(LINK, flows)
    assert result.finish == (2.0, 3.0, 3.0, 5.0, 6.0)
    assert result.bottleneck == (0, 0, -1, -1, 0)


def test_nothing_charged_and_no_cap_takes_no_time(run: Simulate) -> None:
    result = run(LINK, [FluidFlow("free", 1e9, {}, delay=1.0), FluidFlow("capped", 8.0, {}, cap=4)])
    assert result.finish == (1.0, 2.0)
    assert result.busy == (0.0,)
    assert result.bottleneck == (-1, -1)


def test_a_cap_leaves_the_rest(run: Simulate) -> None:
    # a at its cap of 2 for 5 s, b at 8: 16 / 8 = 2 s.
    result = run(LINK, [FluidFlow("a", 10.0, ON_LINK, cap=2.0), FluidFlow("b", 16.0, ON_LINK)])
    assert result.finish == (5.0, 2.0)
    assert result.bottleneck == (-1, 0)
    assert result.load == (2.6,)  # (10 + 16) / 10


def test_weights_divide_a_link(run: Simulate) -> None:
    # 2.5 and 7.5 until b is done at 2; a has 15 - 5 left: 2 + 1.
    flows = [FluidFlow("a", 15.0, ON_LINK), FluidFlow("b", 15.0, ON_LINK, weight=3.0)]
    assert run(LINK, flows).finish == (3.0, 2.0)


def test_each_byte_charges_its_multiplicity(run: Simulate) -> None:
    # Bus 12, three crossings for a, one for b: 3 + 3 * 3 = 12, so 3 each; b is done at 2 with 6.
    # a has 18 - 6 left at 12 / 3: 2 + 12 / 4 = 5. Load: (18 * 3 + 6) / 12 = 5.
    flows = [FluidFlow("a", 18.0, {0: 3.0}), FluidFlow("b", 6.0, {0: 1.0})]
    result = run([Resource("bus", 12.0)], flows)
    assert result.finish == (5.0, 2.0)
    assert result.load == (5.0,)


def test_higher_priority_is_served_first(run: Simulate) -> None:
    # high: cap 6 of 10 from 1 to 3. low: 10 by t=1, 4 * 2 by t=3, 22 - 18 left: 3.4.
    flows = [
        FluidFlow("low", 22.0, ON_LINK),
        FluidFlow("high", 12.0, ON_LINK, priority=2, cap=6.0, start=1.0),
    ]
    assert run(LINK, flows).finish == pytest.approx((3.4, 3.0), rel=1e-15)


def test_lower_priority_stands_still_when_nothing_is_left(run: Simulate) -> None:
    # low moves 0 to 1 and again from 3 on, when high has had its 20.
    flows = [
        FluidFlow("low", 20.0, ON_LINK),
        FluidFlow("high", 20.0, ON_LINK, priority=1, start=1.0),
    ]
    result = run([*LINK, Resource("unused", 1.0)], flows)
    assert result.finish == (4.0, 3.0)
    assert result.busy == (4.0, 0.0)
    assert result.rates is not None
    assert [change for change in result.rates if change.flow == 0] == [
        RateChange(0.0, 0, 10.0),
        RateChange(1.0, 0, 0.0),
        RateChange(3.0, 0, 10.0),
        RateChange(4.0, 0, 0.0),
    ]


def test_rounding_leaves_no_crumbs_for_lower_priorities(run: Simulate) -> None:
    # Ten flows at their cap of 0.1 use all of 1.0, though ten times 0.1 added up in floating point
    # is 1.1e-16 less. The low flow stands until they are done at 1 / 0.1.
    resources = [Resource("shared", 1.0), *(Resource(str(i), 1.0) for i in range(10))]
    flows = [
        FluidFlow(f"high{i}", 1.0, {0: 1.0, i + 1: 1.0}, cap=0.1, priority=1) for i in range(10)
    ]
    result = run(resources, [*flows, FluidFlow("low", 2.0, {0: 1.0})])
    assert result.finish == (10.0,) * 10 + (12.0,)
    assert result.rates is not None
    assert [change for change in result.rates if change.flow == 10] == [
        RateChange(10.0, 10, 1.0),
        RateChange(12.0, 10, 0.0),
    ]


def test_priorities_share_what_is_left_on_each_resource(run: Simulate) -> None:
    # Links of 10 and 4. high (both links) at 4. mid (first link only) at 10 - 4 = 6.
    # low gets nothing until high is done at 2 and mid at 2 as well; then the first link alone.
    flows = [
        FluidFlow("low", 10.0, {0: 1.0}, priority=-1),
        FluidFlow("mid", 12.0, {0: 1.0}),
        FluidFlow("high", 8.0, {0: 1.0, 1: 1.0}, priority=1),
    ]
    assert run([Resource("a", 10.0), Resource("b", 4.0)], flows).finish == (3.0, 2.0, 2.0)


def test_the_bottleneck_is_what_held_a_flow_longest(run: Simulate) -> None:
    # Links A = 10, B = 6. Until t=1 three flows share A: 10 / 3 each, and x is alone on B.
    # y and z take 10 / 3 by then and are done; x has 21 - 10 / 3 left at 6, held by B.
    resources = [Resource("A", 10.0), Resource("B", 6.0)]
    third = 10.0 / 3.0
    flows = [FluidFlow("x", 21.0, {0: 1.0, 1: 1.0})]
    flows += [FluidFlow(name, third, {0: 1.0}) for name in "yz"]
    result = run(resources, flows)
    assert result.finish == pytest.approx((1 + (21 - third) / 6, 1.0, 1.0), rel=1e-14)
    assert result.bottleneck == (1, 0, 0)


def test_a_flow_that_joins_its_like_counts_its_own_time_only(run: Simulate) -> None:
    # a and b charge A = 10 and B = 6. c, on A only, runs to t=4.
    # To 4: a alone held by ... A gives a 5 (c has the other 5): A holds a, 5 < 6.
    # From 4: a and b share B at 3 each. a: 20 by t=4, 3 left, 1 s. b: 1 s at 3, then at 6: B only.
    flows = [
        FluidFlow("a", 23.0, {0: 1.0, 1: 1.0}),
        FluidFlow("b", 9.0, {0: 1.0, 1: 1.0}, start=4.0),
        FluidFlow("c", 20.0, {0: 1.0}),
    ]
    result = run([Resource("A", 10.0), Resource("B", 6.0)], flows)
    assert result.finish == (5.0, 6.0, 4.0)  # b: 3 + 6 = 9
    assert result.bottleneck == (0, 1, 0)


def test_equal_flows_finish_at_one_instant(run: Simulate) -> None:
    flows = [FluidFlow(str(i), 0.1, {i % 7: 1.0}) for i in range(70)]
    result = run([Resource(str(i), 0.3) for i in range(7)], flows)
    assert result.finish == pytest.approx((0.1 * 10 / 0.3,) * 70, rel=1e-14)
    assert result.events == 2  # they begin, they finish


def test_a_class_of_members_is_that_many_flows(run: Simulate) -> None:
    # Four members on the link beside one flow: 10 / 5 each; all five are done at 6 / 2.
    flows = [FluidFlow("four", 6.0, ON_LINK, members=4), FluidFlow("one", 6.0, ON_LINK)]
    result = run(LINK, flows)
    assert result.finish == (3.0, 3.0)
    assert result.load == (3.0,)  # 5 * 6 / 10


def test_members_of_a_resource_carry_equal_parts(run: Simulate) -> None:
    # 6 members, 2 on each of 3 buses of 10: 5 each. The spine of 24 gives 4 each: it holds them.
    buses, spine = Resource("bus", 10.0, members=3), Resource("spine", 24.0)
    result = run([buses, spine], [FluidFlow("x", 8.0, {0: 1.0, 1: 1.0}, members=6)])
    assert result.finish == (2.0,)
    assert result.bottleneck == (1,)
    assert result.load == (1.6, 2.0)  # 2 * 8 / 10 on each bus, 6 * 8 / 24


def test_the_cold_start_of_a_cluster_stays_one_class(run: Simulate) -> None:
    # 12,500 nodes with 8 GPUs read 14e9 bytes each through their own link (54e9/s), the memory
    # bus of their node (320e9/s, twice per byte: 320 / 16 = 20e9 a GPU) and one store of 1e15/s
    # (1e15 / 1e5 = 10e9 a GPU): the store holds them, 1.4 s.
    nodes, gpus = 12_500, 100_000
    resources = [
        Resource("gpu link", 54e9, members=gpus),
        Resource("memory bus", 320e9, members=nodes),
        Resource("store", 1e15),
    ]
    flow = FluidFlow("weights", 14e9, {0: 1.0, 1: 2.0, 2: 1.0}, members=gpus)
    result = run(resources, [flow])
    assert result.finish == (1.4,)
    assert result.bottleneck == (2,)
    assert result.load == pytest.approx((14 / 54, 8 * 2 * 14 / 320, 1.4), rel=1e-15)


def test_many_unequal_flows_of_one_class_share_a_link(run: Simulate) -> None:
    # Works 1 to n at once: while k are left, each further unit of service takes k / 10 s. So work
    # w is done at (n + (n - 1) + ... + (n - w + 1)) / 10 = w (2 n - w + 1) / 20.
    n = 2000
    flows = [FluidFlow(str(work), float(work), ON_LINK) for work in range(1, n + 1)]
    expected = [work * (2 * n - work + 1) / 20 for work in range(1, n + 1)]
    assert run(LINK, flows).finish == pytest.approx(expected, rel=1e-12)


def test_no_flows_and_no_resources(run: Simulate) -> None:
    result = run([], [])
    assert result.finish == result.busy == result.load == ()
    assert result.rates == ()
    assert result.makespan == 0.0
    assert result.events == 0


def test_rates_are_recorded_only_when_asked() -> None:
    assert simulate(LINK, [FluidFlow("a", 1.0, ON_LINK)]).rates is None


FLOW = FluidFlow("weights", 1.0, ON_LINK)


@pytest.mark.parametrize(
    ("resource", "flow", "message"),
    [
        (Resource("r", -1.0), FLOW, "resource 'r': capacity -1.0"),
        (Resource("r", math.nan), FLOW, "resource 'r': capacity nan"),
        (Resource("r", 1.0, members=0), FLOW, "resource 'r': members is 0"),
        (Resource("r", 0.0), FLOW, "'weights' can never finish: it charges 'r'"),
        (LINK[0], FluidFlow("w", -1.0, ON_LINK), "flow 'w': work is -1.0"),
        (LINK[0], FluidFlow("w", math.inf, ON_LINK), "flow 'w': work is inf"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, delay=-1.0), "flow 'w': delay is -1.0"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, start=math.inf), "flow 'w': start is inf"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, weight=0.0), "flow 'w': weight is 0.0"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, cap=0.0), "flow 'w': cap is 0.0.*never finish"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, cap=math.nan), "flow 'w': cap is nan"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, members=0), "flow 'w': members is 0"),
        (LINK[0], FluidFlow("w", 1.0, {1: 1.0}), "flow 'w': charges resource 1, but there are 1"),
        (LINK[0], FluidFlow("w", 1.0, {0: -2.0}), "flow 'w': charges 'link' -2.0 times"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, after=(4,)), "flow 'w': after names flow 4"),
        (LINK[0], FluidFlow("w", 1.0, ON_LINK, after=(0,)), "circle: 'w' after 'w'"),
        (
            Resource("bus", 1.0, members=4),
            FluidFlow("w", 1.0, ON_LINK, members=6),
            "flow 'w': its 6 members do not spread evenly over the 4 members of resource 'bus'",
        ),
    ],
)
def test_wrong_input_is_refused_by_name(resource: Resource, flow: FluidFlow, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate([resource], [flow])


def test_a_circle_is_named_without_what_only_hangs_on_it() -> None:
    names = {"hangs": (1,), "a": (2,), "b": (3,), "c": (1,), "free": ()}
    flows = [FluidFlow(name, 1.0, ON_LINK, after=after) for name, after in names.items()]
    with pytest.raises(ValueError, match=r"circle: 'a' after 'b' after 'c' after 'a'$"):
        simulate(LINK, flows)


def test_no_work_needs_no_capacity() -> None:
    dead = [Resource("dead", 0.0)]
    assert simulate(dead, [FluidFlow("idle", 0.0, ON_LINK, delay=2.0)]).finish == (2.0,)
    # Two flows of one class: the one with work is named, whichever comes first.
    with pytest.raises(ValueError, match="'stuck' can never finish"):
        simulate(dead, [FluidFlow("idle", 0.0, ON_LINK), FluidFlow("stuck", 1.0, ON_LINK)])


def test_an_unknown_helper_is_refused() -> None:
    with pytest.raises(ValueError, match="'fortran' is none of auto, numpy, python, numba"):
        simulate(LINK, [FLOW], helper="fortran")  # type: ignore[arg-type]


def test_without_numba_auto_works_and_numba_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "numba" else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", find)
    monkeypatch.setattr("planner.model.simulate._WORTH_COMPILING", 0)
    assert simulate(LINK, [FLOW]).finish == (0.1,)
    with pytest.raises(UnavailableError, match="numba, which is not installed") as caught:
        simulate(LINK, [FLOW], helper="numba")
    assert caught.value.hint is not None
    assert "fast" in caught.value.hint


def test_auto_compiles_large_inputs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from planner.model import _fluid_numba

    used = []
    play = _fluid_numba.run

    def spy(problem: Problem, *, record: bool) -> Trace:
        used.append(1)
        return play(problem, record=record)

    monkeypatch.setattr(_fluid_numba, "run", spy)
    assert simulate(LINK, [FLOW]).finish == (0.1,)
    assert used == []
    monkeypatch.setattr("planner.model.simulate._WORTH_COMPILING", 1)
    assert simulate(LINK, [FLOW]).finish == (0.1,)
    assert used == [1]


def test_a_small_simulation_does_not_load_numba() -> None:
    code = (
        "import sys; from planner.model.simulate import *;"
        "simulate([Resource('r', 1.0)], [FluidFlow('f', 1.0, {0: 1.0})]);"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compiling_goes_on_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    from planner.model import _fluid_numba

    asked = []

    def njit(function: object = None, **options: object) -> object:
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return function

    monkeypatch.setattr(
        numba,
        "njit",
        lambda *args, **options: (
            njit(*args, **options) if args else lambda function: njit(function, **options)
        ),
    )
    assert callable(_fluid_numba._with_cache())
    assert asked == [{"cache": True}, {}]


def call(name: str, work: float, **more: Any) -> FluidFlow:
    """All of a flow's work in one call to the link's engine."""
    return FluidFlow(name, work, ON_LINK, engines=(0,), one_call=True, **more)


def test_calls_of_one_engine_are_served_in_order_of_issue(run: Simulate) -> None:
    # c is issued last although it is first in the list: b waits for a until 1, c for b until 3.
    flows = [
        call("c", 10.0, start=0.5),
        call("a", 10.0),
        call("b", 20.0),
    ]
    result = run(LINK, flows)
    assert result.ready == (0.5, 0.0, 0.0)
    assert result.begin == (3.0, 0.0, 1.0)
    assert result.finish == (4.0, 1.0, 3.0)
    assert result.busy == (4.0,)


def test_the_engine_is_what_holds_a_call_in_its_queue(run: Simulate) -> None:
    # a takes 2 s; b could move at 5 and moves for 1 s: its queue cost more than its own cap.
    flows = [
        call("a", 20.0),
        call("b", 5.0, cap=5.0),
    ]
    result = run(LINK, flows)
    assert result.finish == (2.0, 3.0)
    assert result.bottleneck == (0, 0)


def test_what_moves_piece_by_piece_shares_with_a_call(run: Simulate) -> None:
    # The call of 30 shares with pieces of which 10 are outstanding: 7.5 to 2.5 until 4.0, which is
    # when a queue has served 30 behind 10. Then the pieces have 20 - 10 left: one second more.
    flows = [
        call("call", 30.0, weight=30.0),
        FluidFlow("pieces", 20.0, ON_LINK, engines=(0,), weight=10.0),
    ]
    assert run(LINK, flows).finish == (4.0, 5.0)


def test_weights_on_one_engine_mean_nothing_to_another(run: Simulate) -> None:
    # Each direction takes a quarter of what the other moves: x + y/4 = 10 both ways at 8 each,
    # whatever is outstanding. The small one ends at 1; the big one then has 10 - 2 * 0.25 to 0:
    # alone at 10: 32 - 8 left, 2.4 s.
    both = [Resource("in", 10.0), Resource("out", 10.0)]
    flows = [
        FluidFlow("small", 8.0, {0: 1.0, 1: 0.25}, engines=(0,), weight=8.0),
        FluidFlow("big", 32.0, {1: 1.0, 0: 0.25}, engines=(1,), weight=32.0),
    ]
    assert run(both, flows).finish == pytest.approx((1.0, 3.4), rel=1e-12)


def test_priorities_keep_their_own_queues(run: Simulate) -> None:
    # The urgent call takes the engine from the one that is served and from nobody's place in line.
    flows = [
        call("a", 20.0),
        call("b", 10.0),
        call("urgent", 10.0, priority=1, start=1.0),
    ]
    assert run(LINK, flows).finish == (3.0, 4.0, 2.0)


def test_equal_calls_of_equal_engines_are_one_class(run: Simulate) -> None:
    # 12 engines, each with its copy of a and of b: 1 s each, one behind the other.
    flows = [
        call("a", 10.0, members=12),
        call("b", 10.0, members=12),
    ]
    result = run([Resource("link", 10.0, members=12)], flows)
    assert result.finish == (1.0, 2.0)
    assert result.events == 3


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (FluidFlow("f", 1.0, {}, engines=(0,)), "flow 'f': its engine 'link' is nothing that it"),
        (FluidFlow("f", 1.0, ON_LINK, engines=(7,)), "flow 'f': its engine 7 is nothing that it"),
        (FluidFlow("f", 1.0, ON_LINK, one_call=True), "one call goes to one engine, not to 0"),
    ],
)
def test_engines_are_among_what_is_charged(flow: FluidFlow, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(LINK, [flow])


@given(fluid_inputs())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rates_are_fair_and_move_all_work(
    run: Simulate, given_input: tuple[list[Resource], list[FluidFlow]]
) -> None:
    resources, flows = given_input
    result = run(resources, flows)
    assert result.rates is not None
    rate = [0.0] * len(flows)
    moved = [0.0] * len(flows)
    now = 0.0
    for change in result.rates:
        if change.time > now * (1 + 1e-13):
            check_fair(resources, flows, rate, under_way(result, now, change.time))
            moved = [m + r * (change.time - now) for m, r in zip(moved, rate, strict=True)]
        now = change.time
        rate[change.flow] = change.rate
    assert rate == [0.0] * len(flows)
    for flow, work in zip(flows, moved, strict=True):
        unbounded = flow.cap == math.inf and not any(flow.charges.values())
        assert unbounded or work == pytest.approx(flow.work, rel=1e-10)
    for flow, ready, begin, finish in zip(
        flows, result.ready, result.begin, result.finish, strict=True
    ):
        assert ready == max([flow.start, *(result.finish[i] for i in flow.after)])
        assert begin == ready + flow.delay or (flow.one_call and begin > ready + flow.delay)
        assert finish >= begin
    assert result.makespan == max(result.finish)


def under_way(result: FluidResult, after: float, before: float) -> list[int]:
    """The flows that have begun and not finished between two events."""
    middle = (after + before) / 2
    spans = enumerate(zip(result.begin, result.finish, strict=True))
    return [i for i, (begin, finish) in spans if begin < middle < finish]


def shares(
    resources: list[Resource], flows: list[FluidFlow], moving: list[int]
) -> dict[int, float]:
    """The weights of those under way: on engines, their share of the fullest that they are on."""
    totals: dict[tuple[int, int], float] = {}
    for flow in (flows[i] for i in moving):
        for engine in flow.engines:
            here = engine, flow.priority
            weight = flow.weight * flow.members / resources[engine].members
            weight /= resources[engine].weight
            totals[here] = totals.get(here, 0.0) + weight
    return {
        i: flow.weight / max((totals[e, flow.priority] for e in flow.engines), default=1.0)
        for i, flow in ((i, flows[i]) for i in moving)
    }


def check_fair(
    resources: list[Resource], flows: list[FluidFlow], rate: list[float], moving: list[int]
) -> None:
    """No capacity is exceeded, and each moving flow is at its cap or highest on a full resource.

    A resource is full for a flow if the flows of its priority and above use it up. Flows that move
    together with a rate of 0 cannot be told from flows that do not move, so they are left out.
    """
    weight = shares(resources, flows, moving)
    level = [r / weight.get(i, 1.0) for i, r in enumerate(rate)]
    excused = {i for i, flow in enumerate(flows) if rate[i] >= flow.cap * (1 - 1e-12)}
    for index, resource in enumerate(resources):
        use = [
            flow.charges.get(index, 0.0) * flow.members / resource.members * rate[i]
            for i, flow in enumerate(flows)
        ]
        assert sum(use) <= resource.capacity * (1 + 1e-12)
        for priority in {flow.priority for flow in flows}:
            above = sum(u for u, flow in zip(use, flows, strict=True) if flow.priority >= priority)
            if above < resource.capacity * (1 - 1e-12):
                continue
            peers = [i for i, flow in enumerate(flows) if flow.priority == priority and use[i] > 0]
            highest = max((level[i] for i in peers), default=0.0)
            excused.update(i for i in peers if level[i] >= highest * (1 - 1e-12))
    assert all(i in excused for i in range(len(flows)) if rate[i] > 0.0)
