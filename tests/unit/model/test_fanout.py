"""The same bytes for several GPUs: read once and passed on, against one read each."""

from __future__ import annotations

import pytest

from planner.engine.execute import execute
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model import contend
from planner.model.arrange import HANDED_S
from planner.model.estimate import estimate
from planner.model.needs import demands
from planner.results import Estimate
from tests.helpers.machines import GB, linked_gpus, many_gpus, two_gpus
from tests.helpers.plans import load, plan_of, up

MIB = 1 << 20


def eight(**more: object) -> dict[str, object]:
    return load(to=[f"node0.gpu{g}" for g in range(8)], **more)


def test_read_once_and_pass_on_beats_eight_reads() -> None:
    # Eight reads: 8 x 4 GB through the host's copies at 20 GB/s, 1.6 s. Once: over two wires at
    # these 20 GB/s 0.2 s, and three rounds of 4 GB / 100 GB/s: 0.32 s.
    machine = many_gpus(1, 8, peers=True)
    predicted = estimate(plan_of({"w": eight()}), machine)
    assert predicted.makespan_s == pytest.approx(0.32, rel=0.02)
    apart = many_gpus(1, 8)
    assert estimate(plan_of({"w": eight()}), apart).makespan_s == pytest.approx(1.6, rel=0.02)
    tree = {flow.name: flow.schedule for flow in predicted.flows}
    (root,) = [s for s in tree.values() if s.copy_of is None]
    assert all(s.hops[0].strategy == "peer" for s in tree.values() if s.copy_of)
    for schedule in tree.values():  # every copy comes from another one, and all from the root
        at, steps = schedule, 0
        while at.copy_of is not None:
            at, steps = tree[at.copy_of], steps + 1
        assert at is root
        assert steps <= 3


def test_two_gpus_share_their_wires_for_both() -> None:
    # Each for itself: 0.1 s on its own wire. Better: half of the bytes over each wire to one of
    # them, 0.05 s, and a peer copy, 0.01 s.
    predicted = estimate(plan_of({"w": up(to=["gpu0", "gpu1"], size=GB)}), two_gpus())
    assert predicted.makespan_s == pytest.approx(0.06, rel=0.02)
    # Without a link between them each reads for itself.
    apart = estimate(plan_of({"w": up(to=["gpu0", "gpu1"], size=GB)}), two_gpus(None))
    assert apart.makespan_s == pytest.approx(0.1, rel=0.01)
    assert {flow.schedule.copy_of for flow in apart.flows} == {None}


def test_a_chain_is_as_fast_as_its_slowest_link() -> None:
    # Peer copies at 5 GB/s limit the chain: 4 GB in 0.8 s, against eight reads in 1.6 s.
    machine = many_gpus(1, 8, peers=True).model_dump(mode="json", by_alias=True)
    wire = machine["links"]["node{node}.peer{gpu}"]
    for way in ("forward", "backward"):
        wire[way]["rate"] = wire[way]["curves"]["peer"]["rate"] = 5e9
    predicted = estimate(plan_of({"w": eight()}), type(many_gpus(1, 1)).model_validate(machine))
    assert predicted.makespan_s == pytest.approx(0.8, rel=0.05)


def test_what_is_passed_on_takes_longer_at_the_locks() -> None:
    # A turn of 300 us, and a third of one for each of two copies that follow: 500 us. The wire's
    # 10 GB/s ask for chunks of 3 MB alone, and of 5 MB here, from eight workers and a cache that
    # keeps rings small.
    tree = linked_gpus(3, peer_rate=11e9).model_dump(mode="json", by_alias=True)
    table = {"workers": [1, 8], "rings": [16 * MIB, 64 * MIB], "rates": [[2e9, 1e9], [16e9, 8e9]]}
    tree["nodes"]["host0"]["copy"]["file"] = table | {"turn": 300e-6}
    machine = Machine.model_validate(tree)
    several = plan_of({"w": load(to=["gpu0", "gpu1", "gpu2"])})
    predicted = estimate(several, machine)
    assert {flow.schedule.fan for flow in predicted.flows} == {None, "chain"}
    (root,) = [flow for flow in predicted.flows if flow.schedule.copy_of is None]
    chunk = root.schedule.hops[0].chunk_bytes
    alone = estimate(plan_of({"w": load()}), machine)
    assert chunk > alone.flows[0].schedule.hops[0].chunk_bytes
    # Its schedule says nothing of turns, and comes to the same.
    chosen = {flow.name: flow.schedule for flow in predicted.flows}
    again = estimate(several, machine, schedules=chosen)
    assert again.makespan_s == pytest.approx(predicted.makespan_s, rel=1e-9)


def test_a_copy_of_all_begins_a_little_after_its_source_has_ended() -> None:
    machine = two_gpus()
    plan = plan_of({"w": up(to=["gpu0", "gpu1"], size=GB)})
    predicted = estimate(plan, machine)
    root, copy = sorted(predicted.flows, key=lambda flow: flow.steady_s)
    assert (root.schedule.copy_of, copy.schedule.fan) == (None, "tree")
    wire = machine.links["nvlink0"].forward
    assert wire is not None
    took = HANDED_S + wire.curves["peer"].seconds(GB)
    assert copy.steady_s - root.steady_s == pytest.approx(took, rel=1e-6)
    run = execute(plan, machine, estimate=predicted, backend="null", samples=1)
    played = {flow.name: flow.steady_s for flow in run.flows}
    assert played[copy.name] - played[root.name] == pytest.approx(took, rel=1e-6)


def test_the_root_of_a_chain_keeps_to_its_cap() -> None:
    # A thousandth of a second of 1 GB/s: chunks of a MB at the most, though larger ones suit locks.
    machine = linked_gpus(2, peer_rate=11e9)
    plan = plan_of({"w": load(to=["gpu0", "gpu1"], budget={"rate": "1GB/s"})})
    search = contend._Search(
        plan, Topology(machine), demands(plan, machine), {}, None, single_ways=False, brief=False
    )
    chains = [m for m in search._fans() if any(a.fan == "chain" for a in m.values())]
    assert chains
    for arrangements in chains:
        (root,) = [a for a in arrangements.values() if a.source is None]
        assert root.candidate.shapes[0].chunk <= MIB


def test_shards_and_pinned_ways_are_read_by_each() -> None:
    machine = many_gpus(1, 8, peers=True)
    for flow in (eight(copy="shard"), eight(workers=2)):
        predicted = estimate(plan_of({"w": flow}), machine)
        assert {f.schedule.copy_of for f in predicted.flows} == {None}


def test_repeats_of_a_fan_out_follow_each_other() -> None:
    # The next is read (0.2 s) while the last rounds of copies still run, which take three wires'
    # worth of the root's port, 0.12 s: 3 x 0.2 + 0.12 s at the least, and at most 3 x 0.32 s.
    predicted = estimate(plan_of({"w": eight(repeat=3)}), many_gpus(1, 8, peers=True))
    assert 0.72 <= predicted.makespan_s <= 0.96


def test_a_saved_fan_out_is_predicted_as_it_is() -> None:
    plan, machine = plan_of({"w": eight()}), many_gpus(1, 8, peers=True)
    once = estimate(plan, machine)
    read = Estimate.model_validate_json(once.model_dump_json())
    schedules = {flow.name: flow.schedule for flow in read.flows}
    again = estimate(plan, machine, schedules=schedules)
    assert again.makespan_s == pytest.approx(once.makespan_s, rel=1e-9)
    assert [f.schedule for f in again.flows] == [f.schedule for f in once.flows]


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_tree_doubles_the_copies_each_round(count: int) -> None:
    from planner.machine.replicate import written_out
    from planner.machine.topology import Topology
    from planner.model.arrange import alone
    from planner.model.choose import decide
    from planner.model.compose import compose
    from planner.model.fanout import fans
    from planner.model.needs import demands

    # 0.4 s to read, then ceil(log2 n) rounds of 4 GB / 100 GB/s = 40 ms.
    machine = written_out(many_gpus(1, 8, peers=True))
    plan = plan_of({"w": load(to=[f"node0.gpu{g}" for g in range(count)])})
    wanted = demands(plan, machine)
    topology = Topology(machine)
    first = {d.need.name: alone(d.need, decide(topology, d.need).best) for d in wanted}
    tree = fans(topology, wanted, first)["tree"]
    composed = compose(plan, machine, wanted, [tree[d.need.name] for d in wanted])
    rounds = (count - 1).bit_length()
    assert composed.makespan == pytest.approx(0.4 + rounds * 0.04, rel=0.01)
