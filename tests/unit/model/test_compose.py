"""What happens when flows meet: shares, caps, priorities, rings, buffers and compute."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Estimate
from tests.helpers.machines import GB, MIB, one_gpu, two_gpus
from tests.helpers.plans import down, load, plan_of, up


def changed(machine: Machine, path: str, value: Any) -> Machine:
    """The machine with one key of its file set."""
    tree = machine.model_dump(mode="json", by_alias=True)
    block = tree
    *steps, last = path.split(".")
    for step in steps:
        block = block[step]
    block[last] = value
    return Machine.model_validate(tree)


def ends(predicted: Estimate) -> dict[str, float]:
    return {flow.name: flow.finish_s for flow in predicted.flows}


def test_the_opposite_direction_takes_what_the_machine_says() -> None:
    # A byte down takes 0.25 bytes of up: 1 GB up while 10 GB/s come down leave 7.5 GB/s.
    machine = changed(one_gpu(), "links.pcie0.forward.against", 0.25)
    predicted = estimate(plan_of({"a": up(size=GB), "b": down(size=10 * GB)}), machine)
    assert ends(predicted)["a"] == pytest.approx(1 / 7.5, rel=1e-3)
    assert ends(predicted)["b"] == pytest.approx(1.0, rel=1e-3)


def test_a_rate_budget_caps_a_flow_and_all_its_copies_together() -> None:
    # 1 GB at 2 GB/s.
    slow = estimate(plan_of({"a": up(budget={"rate": "2GB/s"})}), one_gpu())
    assert slow.makespan_s == pytest.approx(0.5, rel=1e-3)
    assert slow.flows[0].bottleneck.resource == "a.budget"
    both = up(to=["gpu0", "gpu1"], copy="shard", size=2 * GB, budget={"rate": "2GB/s"})
    assert estimate(plan_of({"a": both}), two_gpus()).makespan_s == pytest.approx(1.0, rel=1e-3)


def test_a_rate_budget_of_the_plan_is_shared() -> None:
    # 2 GB in all at 4 GB/s in all, over two links.
    flows = {"a": up(), "b": up(to="gpu1")}
    predicted = estimate(plan_of(flows, budget={"rate": "4GB/s"}), two_gpus())
    assert predicted.makespan_s == pytest.approx(0.5, rel=1e-3)


def test_shares_follow_the_outstanding_bytes() -> None:
    # Both keep the wire busy; a has 3 chunks on it where b has 1: 7.5 and 2.5 GB/s until a's 1 GB
    # is through at 0.1333 s; then b alone has 1 - 0.3333 GB left at 10 GB/s.
    a, b = up(chunk=4 * MIB, depth=3), up(chunk=4 * MIB, depth=1)
    fast = changed(one_gpu(), "links.pcie0.forward.curves.pinned.latency", 0.0)
    fast = changed(fast, "links.pcie0.forward.curves.pinned.gap", 0.0)
    found = ends(estimate(plan_of({"a": a, "b": b}), fast))
    assert found["a"] == pytest.approx(1 / 7.5, rel=1e-6)
    assert found["b"] == pytest.approx(0.2, rel=1e-6)


def test_the_higher_priority_goes_first_after_one_chunk_of_the_lower() -> None:
    # b has the wire when a comes at 20 ms; a waits for at most one chunk of b, 32 MiB / 10 GB/s
    # and the gap of 2 us, and then has the wire for itself.
    flows = {
        "a": up(start="20ms", priority=1, chunk=32 * MIB, depth=2),
        "b": up(chunk=32 * MIB, depth=2),
    }
    predicted = estimate(plan_of(flows), one_gpu())
    alone = estimate(plan_of({"a": up(chunk=32 * MIB, depth=2)}), one_gpu()).makespan_s
    residual = 32 * MIB / 10e9 + 2e-6
    assert predicted.flows[0].duration_s == pytest.approx(alone + residual, rel=1e-9)
    # Nothing is lost meanwhile: b ends when 2 GB are through.
    assert ends(predicted)["b"] == pytest.approx(0.2, rel=0.02)
    # Nobody waits for a class that is not there any more.
    late = estimate(plan_of({**flows, "a": {**flows["a"], "start": "1s"}}), one_gpu())
    assert late.flows[0].duration_s == pytest.approx(alone, rel=1e-9)


def test_a_lower_class_is_cut_into_chunks_that_a_higher_one_can_pass() -> None:
    # b would be one copy of 4 GB, 0.4 s; a waits for 32 MiB of it only.
    flows = {"a": up(start="20ms", priority=1), "b": up(size=4 * GB)}
    predicted = estimate(plan_of(flows), one_gpu())
    residual = 32 * MIB / 10e9 + 2e-6
    assert predicted.flows[0].duration_s == pytest.approx(0.1 + 10e-6 + residual, rel=1e-9)
    assert predicted.flows[1].schedule.hops[0].chunk_bytes == 32 * MIB


def ringed(capacity: dict[int, float]) -> Machine:
    """Two GPUs whose host copies at a rate that depends on the whole ring alone."""
    rings = sorted(capacity)
    table = {"workers": [1], "rings": rings, "rates": [[capacity[ring] for ring in rings]]}
    return changed(two_gpus(), "nodes.host0.copy", {"memory": table})


def test_the_rings_of_all_flows_under_way_count_together() -> None:
    # 32 MiB each: 12 GB/s alone, so the wire limits (10 GB/s); 64 MiB together: 8 GB/s for both.
    # 2 GB / 8 GB/s = 0.25 s.
    staged = up(memory="pageable", strategy="staged", chunk=8 * MIB, workers=2, depth=2)
    flows = {"a": staged, "b": {**staged, "to": "gpu1"}}
    machine = ringed({32 * MIB: 12e9, 64 * MIB: 8e9})
    assert estimate(plan_of({"a": staged}), machine).makespan_s == pytest.approx(0.1, rel=0.05)
    together = estimate(plan_of(flows), machine)
    assert together.makespan_s == pytest.approx(0.25, rel=0.01)
    assert together.flows[0].bottleneck.resource == "host0.copy"
    # One after another each has its own ring only.
    apart = estimate(plan_of({**flows, "b": {**flows["b"], "after": "a"}}), machine)
    assert apart.makespan_s == pytest.approx(0.2, rel=0.05)


def test_what_an_engine_writes_into_the_host_drives_the_rings_out_of_its_cache() -> None:
    # A ring of 32 MiB is filled at 8 GB/s while it is in the cache, at 4 beside the 4 GB that come
    # out of the other GPU, which take 0.4 s at 10 GB/s: longer than the 0.25 s of 1 GB at 4 GB/s.
    staged = up(memory="pageable", strategy="staged", chunk=MIB, workers=16, depth=2)
    machine = ringed({32 * MIB: 8e9, GB: 4e9})
    out = down(size=4 * GB, route=["gpu1", "host0"], **{"from": "gpu1"})
    found = ends(estimate(plan_of({"a": staged, "b": out}), machine))
    assert found["a"] == pytest.approx(0.25, rel=0.02)
    assert found["b"] == pytest.approx(0.4, rel=1e-3)
    # What goes in leaves the cache as it is.
    inward = ends(estimate(plan_of({"a": staged, "b": up(to="gpu1", size=2 * GB)}), machine))
    assert inward["a"] == pytest.approx(0.125, rel=0.02)


def loop(buffers: int, batch: int = GB // 10, step: str = "20ms", repeat: int = 10) -> Plan:
    """Batches of 10 ms (0.1 GB at 10 GB/s) for steps of 20 ms."""
    return plan_of(
        {"batch": up(size=batch, repeat=repeat, buffers=buffers)},
        compute={"step": {"gpu": "gpu0", "time": step, "repeat": repeat, "after": "batch"}},
    )


@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_with_two_or_more_buffers_only_the_first_batch_is_waited_for(buffers: int) -> None:
    # 10 ms for the first batch, then ten steps of 20 ms.
    predicted = estimate(loop(buffers), one_gpu())
    assert predicted.makespan_s == pytest.approx(0.01 + 10 * 0.02, rel=1e-3)
    assert predicted.flows[0].exposed_s == pytest.approx(0.01, rel=2e-3)
    assert predicted.flows[0].hidden_share == pytest.approx(0.9, rel=1e-2)
    nodes = {node.name: node for node in predicted.nodes}
    assert nodes["gpu0"].peak_bytes == buffers * (GB // 10)


def test_with_one_buffer_every_batch_is_waited_for() -> None:
    predicted = estimate(loop(1), one_gpu())
    assert predicted.makespan_s == pytest.approx(10 * 0.03, rel=1e-3)
    assert predicted.flows[0].exposed_s == pytest.approx(10 * 0.01, rel=2e-3)


def test_a_slow_loader_is_hidden_but_for_what_it_takes_longer() -> None:
    # Batches of 30 ms for steps of 20: the loader never stops, 10 x 30 ms, and a step follows.
    predicted = estimate(loop(2, batch=3 * GB // 10), one_gpu())
    assert predicted.makespan_s == pytest.approx(10 * 0.03 + 0.02, rel=1e-3)


def test_a_repeat_runs_ahead_by_its_buffers_at_most() -> None:
    # Steps of 100 ms: batch k may begin when step k - 2 has ended, so the last of 4 begins after
    # step 1: at 10 + 2 x 100 ms, and ends 10 ms later.
    predicted = estimate(loop(2, step="100ms", repeat=4), one_gpu())
    assert ends(predicted)["batch"] == pytest.approx(0.01 + 0.2 + 0.01, rel=1e-3)


def test_unequal_repeats_wait_for_the_whole() -> None:
    flows = {"a": up(repeat=3), "b": up(repeat=2, after="a")}
    predicted = estimate(plan_of(flows), one_gpu())
    assert predicted.flows[1].start_s == pytest.approx(predicted.flows[0].finish_s)


def test_what_waits_for_the_whole_of_a_flow_takes_its_followers_out_of_step() -> None:
    # c follows a, but also b, which needs all of a: with buffers a could never end.
    flows = {"a": up(repeat=4), "b": up(after="a"), "c": up(repeat=4, after=["a", "b"])}
    predicted = estimate(plan_of(flows), one_gpu())
    assert predicted.makespan_s == pytest.approx(0.9, rel=1e-3)


def test_both_directions_while_computing() -> None:
    # Fetch k, compute k, send k back: 10 + n x 20 + 10 ms.
    flows = {
        "fetch": up(size=GB // 10, repeat=8),
        "back": down(size=GB // 10, repeat=8, after="work"),
    }
    block = {"gpu": "gpu0", "time": "20ms", "repeat": 8, "after": "fetch"}
    predicted = estimate(plan_of(flows, compute={"work": block}), one_gpu())
    assert predicted.makespan_s == pytest.approx(0.01 + 8 * 0.02 + 0.01, rel=1e-3)


def test_compute_blocks_of_one_gpu_run_one_after_another() -> None:
    blocks = {name: {"gpu": "gpu0", "time": "30ms"} for name in ("x", "y")}
    predicted = estimate(plan_of({}, compute=blocks), one_gpu())
    assert [b.finish_s for b in predicted.compute] == pytest.approx([0.03, 0.06])
    other = {**blocks, "y": {"gpu": "gpu1", "time": "30ms"}}
    assert estimate(plan_of({}, compute=other), two_gpus()).makespan_s == pytest.approx(0.03)


def test_the_block_that_is_ready_first_runs_first() -> None:
    # Named to come last in the alphabet, and ready 5 ms before the other.
    blocks = {
        "a": {"gpu": "gpu0", "time": "30ms", "start": "5ms"},
        "z": {"gpu": "gpu0", "time": "30ms"},
    }
    predicted = estimate(plan_of({}, compute=blocks), one_gpu())
    assert [b.finish_s for b in predicted.compute] == pytest.approx([0.06, 0.03])


def test_a_copy_inside_a_gpu_competes_with_compute_and_a_copy_engine_does_not() -> None:
    # 10 GB inside at 500 GB/s take 20 ms alone. Beside 10 ms of compute each gets half until the
    # compute is done at 20 ms; the copy has 10 ms of work left then.
    inside = {"from": "gpu0", "to": "gpu0", "size": 10 * GB}
    block = {"work": {"gpu": "gpu0", "time": "10ms"}}
    predicted = estimate(plan_of({"a": inside}, compute=block), one_gpu())
    assert predicted.compute[0].finish_s == pytest.approx(0.02, rel=1e-3)
    assert ends(predicted)["a"] == pytest.approx(0.03, rel=1e-3)
    beside = estimate(plan_of({"a": up()}, compute=block), one_gpu())
    assert beside.compute[0].finish_s == pytest.approx(0.01)


@settings(max_examples=25)
@given(st.data())
def test_alone_the_simulation_equals_the_pipeline(data: st.DataObject) -> None:
    size = data.draw(st.integers(GB // 5, 3 * GB))  # enough chunks for all workers
    chunk = data.draw(st.sampled_from([MIB, 3 * MIB, 16 * MIB]))
    shape = {"chunk": chunk, "depth": data.draw(st.integers(1, 3))}
    flow = load(size=size, workers=data.draw(st.integers(1, 8)), **shape)
    predicted = estimate(plan_of({"a": flow}), one_gpu()).flows[0]
    assert predicted.alone_s is not None
    assert predicted.duration_s == pytest.approx(predicted.alone_s, rel=1e-9)


@settings(max_examples=6)
@given(st.data())
def test_the_order_of_keys_changes_nothing(data: st.DataObject) -> None:
    flows = {
        "a": load(size=GB),
        "b": up(after="a", repeat=3),
        "c": up(to="gpu1", memory="pageable"),
        "d": {"from": "gpu0", "to": "gpu1", "size": GB, "start": "50ms", "priority": 2},
        "e": down(repeat=3, after="x"),
    }
    compute = {
        "x": {"gpu": "gpu0", "time": "10ms", "repeat": 3, "after": "b"},
        "y": {"gpu": "gpu0", "time": "15ms"},
    }
    once = estimate(plan_of(flows, compute=compute), two_gpus())
    shuffled = data.draw(st.permutations(list(flows)))
    blocks = data.draw(st.permutations(list(compute)))
    other = estimate(
        plan_of({k: flows[k] for k in shuffled}, compute={k: compute[k] for k in blocks}),
        two_gpus(),
    )
    assert {f.name: f for f in once.flows} == {f.name: f for f in other.flows}
    assert {b.name: b for b in once.compute} == {b.name: b for b in other.compute}
    assert (once.makespan_s, once.resources) == (other.makespan_s, other.resources)


def test_no_resource_carries_more_than_it_can() -> None:
    flows = {"a": load(), "b": up(), "c": up(to="gpu1"), "d": down()}
    predicted = estimate(plan_of(flows), two_gpus())
    assert all(row.busy_s <= predicted.makespan_s * (1 + 1e-9) for row in predicted.resources)


def test_chunks_of_all_flows_take_turns_at_the_interpreters_lock() -> None:
    # 100 chunks of 4 MiB each, 1 ms of the lock for a chunk, which is all that limits. The turns
    # are dealt out by slots, 2 to 6: b has three of four and is done after 100 / 0.75 ms.
    # a has 100 * 2/3 chunks left; its one worker takes its turn and copies, one after the other.
    machine = changed(one_gpu(), "nodes.host0.copy.memory.per_chunk", "1ms")
    shape = {"strategy": "staged", "memory": "pageable", "chunk": "4MiB", "depth": 2}
    flows = {
        "a": up(size=400 * MIB, workers=1, **shape),
        "b": up(size=400 * MIB, workers=3, **shape),
    }
    predicted = estimate(plan_of(flows), machine)
    copy_s = 4 * MIB / 20e9
    # The pipeline fills and drains in about three chunks.
    assert ends(predicted)["b"] == pytest.approx(0.1333, abs=3e-3)
    assert ends(predicted)["a"] == pytest.approx(0.1333 + 66.7 * (1e-3 + copy_s), abs=3e-3)
    held = {flow.name: flow.bottleneck for flow in predicted.flows}
    assert (held["b"].resource, held["b"].cause) == ("host0.dispatch", "issue_overhead")


@given(sizes=st.tuples(st.integers(10**7, 10**9), st.integers(10**7, 10**9)))
def test_of_whole_copies_at_one_instant_the_first_by_name_goes_first(
    sizes: tuple[int, int],
) -> None:
    # What is before the copies is the same for both, but it is found as a difference of times that
    # are rounded: an engine must not take the last digit for an order.
    dma = {"latency": 14.202e-6, "overhead": 18.9725e-6, "gap": 5.5355e-6, "rate": 55.18622713e9}
    machine = changed(one_gpu(), "links.pcie0.forward.curves.pinned", dma)
    machine = changed(machine, "links.pcie0.forward.rate", dma["rate"])
    one, two = (up(size=size) for size in sizes)
    first, second = estimate(plan_of({"a": one, "b": two}), machine).flows
    alone = estimate(plan_of({"a": one}), machine).flows[0]
    assert first.steady_s == pytest.approx(alone.steady_s, rel=1e-9)
    assert second.steady_s > first.steady_s
