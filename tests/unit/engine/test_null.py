"""The virtual clock plays the engine's workers and measures what the model says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.engine.backends.null import Played, play
from planner.engine.backends.virtual_clock import VirtualClock
from planner.engine.execute import execute
from planner.engine.measure import union
from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.model.pipeline import Stage, exact, lengths
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.machines import GB, MIB, every_way, one_gpu, sleepy
from tests.helpers.schedules import WAYS, plan_for, predicted, schedule

SHAPES = [("pool",), ("engine",), ("pool", "engine"), ("engine", "pool"), ("engine", "engine")]


def _stage(number: int, kind: Any, fixed: float, rate: float, lag: float) -> Stage:
    return Stage(f"stage{number}", kind, lambda n: fixed + n / rate, lag=lag)


def played(stages: list[Stage], chunks: list[int], workers: int, depth: int) -> Played:
    clock = VirtualClock()
    found: list[Played] = []
    play(clock, stages, chunks, (workers, depth), found.append)
    clock.run()
    assert len(found) == 1
    return found[0]


times = st.tuples(
    st.floats(0, 1e-3), st.floats(1e8, 1e11), st.one_of(st.just(0.0), st.floats(0, 1e-3))
)


@settings(max_examples=300)
@given(
    kinds=st.sampled_from(SHAPES),
    figures=st.lists(times, min_size=2, max_size=2),
    size=st.integers(1, 10**8),
    chunk=st.integers(10**5, 10**7),
    workers=st.integers(1, 9),
    depth=st.integers(1, 4),
)
def test_the_workers_measure_what_the_model_follows(
    kinds: tuple[str, ...],
    figures: list[tuple[float, float, float]],
    size: int,
    chunk: int,
    workers: int,
    depth: int,
) -> None:
    stages = [
        _stage(k, kind, fixed, rate, lag if kind == "engine" else 0.0)
        for k, (kind, (fixed, rate, lag)) in enumerate(zip(kinds, figures, strict=False))
    ]
    trace = exact(stages, lengths(size, chunk), workers, depth)
    found = played(stages, lengths(size, chunk), workers, depth)
    assert found.finish == pytest.approx(trace.total_s, rel=1e-9)
    busy = [union(intervals) for intervals in found.intervals]
    assert busy == pytest.approx(list(trace.busy_s), rel=1e-9)


@pytest.mark.parametrize("size", [1, 4 * MIB + 1, 300 * MIB])
@pytest.mark.parametrize("way", WAYS)
def test_a_flow_alone_measures_its_estimate(way: str, size: int) -> None:
    plain = every_way().model_dump(mode="json", by_alias=True)
    plain["nodes"]["host0"]["setup"] |= {"register_file": 5e9, "touch_fresh": 4e9, "workers": 1e-3}
    sleepy(plain, 70e-6)
    machine = Machine.model_validate(plain)
    # Registering as one goes is for one load only.
    plan = plan_for(way, size, repeat=1 if "chunks" in way else 3)
    made = schedule(way, size, chunk=4 * MIB, depth=2, workers=4)
    run = execute(plan, machine, estimate=predicted(plan, machine, made), backend="null")
    flow = run.flows[0]
    assert flow.duration_s == pytest.approx(flow.predicted_s, rel=1e-9)
    assert flow.first_s == pytest.approx(flow.predicted_first_s, rel=1e-9)
    assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=1e-9)
    assert run.makespan_s == pytest.approx(run.predicted_makespan_s, rel=1e-9)
    for hop in flow.hops:
        assert hop.busy_s == pytest.approx(hop.predicted_s, rel=1e-9)
    assert flow.verified is None
    assert run.environment.emulated


def _run(plan: Plan, prediction: Estimate) -> float:
    return execute(plan, one_gpu(), estimate=prediction, backend="null").makespan_s


def test_flows_and_compute_follow_each_other_as_predicted() -> None:
    plan = Plan.model_validate(
        {
            "flows": {
                "a": {"from": "disk0", "to": ["gpu0"], "size": 2 * GB, "cache": "warm"},
                "b": {"from": "gpu0", "to": ["host0"], "size": GB, "after": ["step"]},
                "c": {"from": "host0", "to": ["gpu0"], "size": GB, "start": 3.0},
            },
            "compute": {"step": {"gpu": "gpu0", "time": 0.25, "after": ["a"], "repeat": 2}},
        }
    )
    prediction = estimate(plan, one_gpu())
    # c starts at 3 s, when all else is over, and alone takes what its estimate says.
    assert prediction.flows[1].finish_s < 3.0
    assert _run(plan, prediction) == pytest.approx(prediction.makespan_s, rel=1e-9)


@pytest.mark.parametrize(("chunk", "bound"), [(16 * MIB, 0.05), (1 * MIB, 0.005)])
def test_contended_flows_come_to_the_estimate_as_chunks_shrink(chunk: int, bound: float) -> None:
    # Two equal loads share the 20 GB/s of the page cache and the 10 GB/s of PCIe: the wire limits,
    # each gets half of it. What chunking adds is about one chunk at either end: 1.6 ms of 200 ms
    # for 16 MiB over 10 GB/s, a sixteenth of that for 1 MiB.
    words = {"from": "disk0", "to": ["gpu0"], "size": GB, "cache": "warm", "chunk": chunk}
    plan = Plan.model_validate({"flows": {"a": words, "b": words}})
    prediction = estimate(plan, one_gpu())
    assert _run(plan, prediction) == pytest.approx(prediction.makespan_s, rel=bound)


def test_flows_that_share_the_host_copy_slow_each_other() -> None:
    # Two reads of 1 GB into memory, each able to use all 20 GB/s alone: 2 GB take 0.1 s.
    words = {"from": "disk0", "to": ["host0"], "size": GB, "cache": "warm", "chunk": MIB}
    plan = Plan.model_validate({"flows": {"a": words, "b": words}})
    prediction = estimate(plan, one_gpu())
    assert prediction.makespan_s == pytest.approx(0.1, rel=1e-3)
    assert _run(plan, prediction) == pytest.approx(0.1, rel=0.01)


def test_each_engine_has_one_queue() -> None:
    # Two engine stages of the same name, one chunk of 1 s each, at once: one after the other.
    stage = Stage("wire", "engine", lambda _n: 1.0)
    clock = VirtualClock()
    ends: list[float] = []
    for _ in range(2):
        play(clock, [stage], [1], (1, 1), lambda found: ends.append(found.finish))
    clock.run()
    assert ends == [1.0, 2.0]


@pytest.mark.parametrize("chunk", [4 * MIB, MIB])
@pytest.mark.parametrize(("readers", "workers"), [(8, 2), (3, 4)])
def test_readers_that_share_the_caches_come_to_the_estimate(
    readers: int, workers: int, chunk: int
) -> None:
    """The copy capacity is that of all workers on all rings, not each flow's own.

    Eight flows of two workers copy some five times as fast together as two workers alone. What
    began before is not slowed any more, and at either end fewer copy: together less than three
    chunks of each worker.
    """
    machine = load_machine("plans/machines/h200-8.yaml")
    words = {"from": "disk0", "size": GB, "cache": "warm", "strategy": "buffered"}
    words |= {"chunk": chunk, "workers": workers, "depth": 2, "via": ["host0"]}
    flows = {f"f{k}": words | {"to": [f"gpu{k}"]} for k in range(readers)}
    plan = Plan.model_validate({"flows": flows})
    run = execute(plan, machine, estimate=estimate(plan, machine), backend="null", samples=1)
    chunks = GB / chunk / workers
    for flow in run.flows:
        assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=3 / chunks)


def test_rings_beside_bytes_that_engines_write_come_to_the_estimate() -> None:
    """What comes out of the GPU drives the ring out of the cache, for as long as it does.

    Python's 10 us of a chunk, a hundredth of its 0.9 ms, are no part of what is shared; and at
    either end of 60 rounds fewer workers copy.
    """
    machine = load_machine("plans/machines/h200-8.yaml")
    ring = {"from": "host0", "to": ["gpu0"], "size": GB, "strategy": "staged", "memory": "pageable"}
    ring |= {"chunk": 4 * MIB, "workers": 4, "depth": 2, "route": ["host0", "gpu0"]}
    out = {"from": "gpu1", "to": ["host0"], "size": 4 * GB, "strategy": "pinned"}
    out |= {"memory": "pinned", "route": ["gpu1", "host0"]}
    both = Plan.model_validate({"flows": {"ring": ring, "out": out}})
    alone = Plan.model_validate({"flows": {"ring": ring}})
    prediction = estimate(both, machine)
    assert prediction.flows[0].steady_s > 1.1 * estimate(alone, machine).flows[0].steady_s
    run = execute(both, machine, estimate=prediction, backend="null", samples=1)
    for flow in run.flows:
        assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=0.02)
