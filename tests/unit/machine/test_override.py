from __future__ import annotations

import pytest

from planner.errors import MachineError
from planner.machine.load import load_machine, parse_machine
from planner.machine.override import failed_links, with_overrides
from planner.machine.schema import Direction, Hbm, Machine, Ram
from planner.machine.shift import shifted

MiB = 2**20
TEXT = """\
name: small
sources:
  me: {kind: assumed, where: here, when: today}
nodes:
  host0: {kind: ram, capacity: 8GiB, cores: 4}
  node1.host0: {kind: ram, capacity: 8GiB, cores: 4}
  gpu0: {kind: hbm, host: host0, device: 0, capacity: 4GB}
links:
  pcie0:
    kind: pcie
    ends: [host0, gpu0]
    forward:
      rate: 10GB/s
      curves:
        pinned: {latency: 10us, rate: 10GB/s, points: [[1MB, 110us]]}
        zero_copy: {latency: 10us, rate: 8GB/s}
        pageable: {latency: 10us, rate: 4GB/s}
    backward: {rate: 20GB/s}
  one-way:
    kind: interconnect
    ends: [host0, node1.host0]
    forward: {rate: 10GB/s}
"""


@pytest.fixture
def machine() -> Machine:
    return parse_machine(TEXT, "m.yaml")


def ways(machine: Machine) -> tuple[Direction, Direction]:
    link = machine.links["pcie0"]
    assert link.forward is not None
    assert link.backward is not None
    return link.forward, link.backward


def test_the_rate_of_a_link_is_that_of_both_directions(machine: Machine) -> None:
    forward, backward = ways(with_overrides(machine, {"links.pcie0.rate": "5GB/s"}))
    assert (forward.rate, backward.rate) == (5e9, 5e9)


def test_a_link_that_goes_one_way_has_one_rate_to_change(machine: Machine) -> None:
    changed = with_overrides(machine, {"links.one-way.rate": "5GB/s"}).links["one-way"]
    assert changed.forward is not None
    assert (changed.forward.rate, changed.backward) == (5e9, None)


def test_one_direction_alone(machine: Machine) -> None:
    forward, backward = ways(with_overrides(machine, {"links.pcie0.backward.rate": "5GB/s"}))
    assert (forward.rate, backward.rate) == (10e9, 5e9)


def test_a_slower_wire_moves_its_curves_and_caps_what_the_cpu_limits(machine: Machine) -> None:
    forward, _ = ways(with_overrides(machine, {"links.pcie0.forward.rate": "5GB/s"}))
    # 1 MB: 10 us and 100 us of bytes, now 200 us. Zero-copy keeps its 80 % of the wire. Pageable is
    # below the wire and stays; at 2 GB/s it is the wire.
    assert forward.curves["pinned"].seconds(10**6) == pytest.approx(210e-6)
    assert forward.curves["zero_copy"].rate == pytest.approx(4e9)
    assert forward.curves["pageable"].rate == 4e9
    slow, _ = ways(with_overrides(machine, {"links.pcie0.forward.rate": "2GB/s"}))
    assert slow.curves["pageable"].rate == 2e9


def test_a_faster_wire_does_not_make_the_cpu_faster(machine: Machine) -> None:
    forward, _ = ways(with_overrides(machine, {"links.pcie0.forward.rate": "20GB/s"}))
    assert forward.curves["pinned"].rate == 20e9
    assert forward.curves["pageable"].rate == 4e9


def test_a_factor_multiplies_what_each_direction_has(machine: Machine) -> None:
    forward, backward = ways(with_overrides(machine, {"links.pcie0.rate": "0.5x"}))
    assert (forward.rate, backward.rate) == (5e9, 10e9)


def test_what_was_changed_says_that_it_is_assumed(machine: Machine) -> None:
    changed = with_overrides(machine, {"links.pcie0.forward.rate": "5GB/s"})
    forward, backward = ways(changed)
    assert changed.source_of(forward.source).note == "links.pcie0.forward.rate=5GB/s"
    assert changed.source_of(forward.source).kind == "assumed"
    assert changed.source_of(backward.source) == machine.sources["me"]


def test_curves_keep_the_source_and_the_spread_that_they_were_measured_with(
    machine: Machine,
) -> None:
    noisy = machine.sources["me"].model_copy(update={"spread": 0.25})
    spread = machine.model_copy(update={"sources": {"me": noisy}})
    changed = with_overrides(spread, {"links.pcie0.rate": "5GB/s"})
    forward, _ = ways(changed)
    assert forward.curves["pinned"].source == "me"
    slow, _ = ways(shifted(changed, "low"))
    assert slow.curves["pinned"].rate == pytest.approx(5e9 / 1.25)
    assert slow.rate == pytest.approx(5e9 / 1.25)


def test_a_second_round_of_overrides_remembers_the_first(machine: Machine) -> None:
    once = with_overrides(machine, {"links.pcie0.rate": "5GB/s"})
    twice = with_overrides(once, {"nodes.host0.cores": "8"})
    assert twice.sources["override"].note == "links.pcie0.rate=5GB/s, nodes.host0.cores=8"


def test_any_single_value_can_be_replaced(machine: Machine) -> None:
    changed = with_overrides(
        machine,
        {
            "nodes.host0.cores": "8",
            "nodes.gpu0.capacity": "80GB",
            "nodes.node1.host0.limit": "2GiB",
            "nodes.host0.setup.register": "3GB/s",
            "links.pcie0.forward.against": "0.25",
            "links.pcie0.forward.curves.pageable.latency": "20us",
            "name": "other",
        },
    )
    host, gpu, far = (changed.nodes[n] for n in ("host0", "gpu0", "node1.host0"))
    assert isinstance(host, Ram)
    assert isinstance(far, Ram)
    assert isinstance(gpu, Hbm)
    assert (host.cores, host.setup.register_rate, far.limit) == (8, 3e9, 2 * 1024 * MiB)
    assert (gpu.capacity, changed.name) == (80 * 10**9, "other")
    forward, _ = ways(changed)
    assert (forward.against, forward.curves["pageable"].latency) == (0.25, 20e-6)


def test_of_two_names_that_fit_the_longer_is_meant(machine: Machine) -> None:
    nodes = {"node1": machine.nodes["host0"], **machine.nodes}
    both = machine.model_copy(update={"nodes": nodes})
    changed = with_overrides(both, {"nodes.node1.host0.cores": "8", "nodes.node1.cores": "2"})
    counts = [node.cores for node in changed.nodes.values() if isinstance(node, Ram)]
    assert counts == [2, 4, 8]


def test_rates_and_other_values_go_together(machine: Machine) -> None:
    overrides = {"links.pcie0.rate": "5GB/s", "nodes.host0.cores": "8"}
    changed = with_overrides(machine, overrides)
    assert changed == with_overrides(machine, overrides)
    assert ways(changed)[0].rate == 5e9


def test_a_fault_is_called_as_it_was_given(machine: Machine) -> None:
    with pytest.raises(MachineError) as caught:
        with_overrides(machine, {"nodes.host0.cores": "few"})
    assert [fault.file for fault in caught.value.faults] == ["--set nodes.host0.cores=few"]


def test_without_overrides_the_machine_is_the_same(machine: Machine) -> None:
    assert with_overrides(machine, {}) is machine


@pytest.mark.parametrize(
    ("path", "value", "message", "hint"),
    [
        ("links.pcie9.rate", "5GB/s", 'links has no "pcie9"', '"pcie0"'),
        ("nodes.host0.coress", "5", 'nodes.host0 has no "coress"', '"cores"'),
        ("quux", "5", 'the machine has no "quux"', "links"),
        ("nodes.host0.cores.x", "5", 'nodes.host0.cores has no "x"', "a single value"),
        ("replicate.node", "16", 'replicate has no "node"', "only a machine file with replicate:"),
        ("ports.root.forward", "5GB/s", 'ports has no "root"', "nothing under ports"),
        ("nodes.host0", "5", "a whole block", "cores"),
        ("links.pcie0.ends", "a", "links.pcie0.ends is a list", "a machine file"),
        ("links.pcie0.ends.0", "a", "links.pcie0.ends is a list", "a machine file"),
        ("links.pcie0.ends[0]", "a", "links.pcie0.ends is a list", "a machine file"),
        ("links.pcie0.ports", "[a, null]", "links.pcie0.ports is a list", "a machine file"),
        ("nodes.host0.managed_map", "5", "does not have, an", "a machine file"),
        ("", "5", "needs a key path", "links.pcie0.rate"),
        ("links.pcie0.rate", "5", "no unit", "5GB/s"),
        ("links.pcie0.rate", "0", "above 0", "leave the direction out"),
        ("links.pcie0.rate", "fastx", "not a factor", "1.15x"),
        ("links.one-way.backward.rate", "1GB/s", "backward is not part of this machine", None),
        ("nodes.host0.cores", "few", "a whole number", None),
        ("nodes.gpu0.capacity", "80", "no unit", "80GB"),
        ("nodes.gpu0.host", "gpu0", "no ram node", None),
    ],
)
def test_an_override_that_does_not_fit_is_refused(
    machine: Machine, path: str, value: str, message: str, hint: str | None
) -> None:
    with pytest.raises(MachineError) as caught:
        with_overrides(machine, {path: value})
    (fault,) = caught.value.faults
    assert fault.path == path
    assert message in fault.message
    assert hint is None or hint in (caught.value.hint or "")


def test_every_wrong_override_is_reported(machine: Machine) -> None:
    with pytest.raises(MachineError, match="2 faults") as caught:
        with_overrides(machine, {"a": "1", "nodes.host0.cores": "2", "b": "1"})
    assert [fault.path for fault in caught.value.faults] == ["a", "b"]


def test_loading_takes_overrides_too() -> None:
    machine = load_machine("h200-sxm-1", overrides={"nodes.host0.cores": "4"})
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    assert host.cores == 4


@pytest.mark.parametrize("text", ["50%", "0.5x", "0.5 x", " 50 % "])
def test_a_degraded_link_is_a_share_of_what_it_was(machine: Machine, text: str) -> None:
    # 10 GB/s there and 20 GB/s back, each halved.
    forward, backward = ways(with_overrides(machine, {"links.pcie0.rate": text}))
    assert (forward.rate, backward.rate) == (5e9, 10e9)


def test_a_failed_link_is_gone_whatever_else_is_said_of_it(machine: Machine) -> None:
    changed = with_overrides(machine, {"links.pcie0.failed": "true", "links.pcie0.rate": "50%"})
    assert list(changed.links) == ["one-way"]
    kept = with_overrides(machine, {"links.pcie0.failed": "false"})
    assert list(kept.links) == ["pcie0", "one-way"]


def test_the_links_that_failed_are_remembered(machine: Machine) -> None:
    assert failed_links(machine) == ()
    kept = with_overrides(machine, {"links.pcie0.failed": "false"})
    assert failed_links(kept) == ()
    assert failed_links(with_overrides(kept, {"links.pcie0.failed": "true"})) == ("pcie0",)


def test_whether_a_link_failed_is_true_or_false(machine: Machine) -> None:
    with pytest.raises(MachineError, match='"yes" is neither true nor false'):
        with_overrides(machine, {"links.pcie0.failed": "yes"})


CLUSTER = TEXT.replace("name: small", "name: cluster\nreplicate: {node: 0..3}").replace(
    "gpu0]\n", '"node{node}.gpu0"]\n'
)


def cluster() -> Machine:
    text = CLUSTER.replace("  gpu0: {", '  "node{node}.gpu0": {').replace(
        "  pcie0:", '  "pcie{node}":'
    )
    return parse_machine(text, "m.yaml")


def test_equal_parts_are_counted() -> None:
    assert with_overrides(cluster(), {"replicate.node": "16"}).replicate == {"node": "0..15"}
    with pytest.raises(MachineError, match="one part at the least"):
        with_overrides(cluster(), {"replicate.node": "0"})
    with pytest.raises(MachineError, match='has no "rack"'):
        with_overrides(cluster(), {"replicate.rack": "2"})


def test_one_member_of_a_class_may_differ_from_the_others() -> None:
    # Six hosts, of which the sixth's link has half its rate and the first's is gone.
    changed = with_overrides(
        cluster(),
        {"links.pcie5.rate": "50%", "links.pcie0.failed": "true", "replicate.node": "6"},
    )
    assert list(changed.links) == ["pcie1", "pcie2", "pcie3", "pcie4", "pcie5", "one-way"]
    rates = [link.forward.rate for link in changed.links.values() if link.forward]
    assert rates == [10e9, 10e9, 10e9, 10e9, 5e9, 10e9]
