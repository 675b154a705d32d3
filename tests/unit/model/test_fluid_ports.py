"""What links that share a port take from each other."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from tests.helpers.machines import linked_gpus

GB = 10**9


def _machine(**port: float) -> Machine:
    tree = linked_gpus(2).model_dump(mode="json", by_alias=True)
    tree["ports"] = {"root": port}
    for name in ("pcie0", "pcie1"):
        tree["links"][name]["ports"] = ["root", None]
    return Machine.model_validate(tree)


def _steady(machine: Machine, *ways: tuple[str, str]) -> list[float]:
    flows = {
        f"f{k}": {
            "from": start,
            "to": end,
            "size": 10 * GB,
            "memory": "pinned",
            "strategy": "pinned",
            "route": [f"pcie{(start + end).replace('host0', '')[-1]}"],
        }
        for k, (start, end) in enumerate(ways)
    }
    answer = estimate(Plan.model_validate({"name": "ports", "flows": flows}), machine)
    return [flow.steady_s for flow in answer.flows]


def test_what_comes_out_of_one_gpu_slows_what_goes_into_another() -> None:
    # Links of 10 GB/s; each byte that comes takes 0.1 of what goes, and nothing the other way: the
    # one out takes 1 s, and the one in moves at 9 GB/s until then and at 10 for the last GB.
    into, out = _steady(_machine(forward_across=0.1), ("host0", "gpu0"), ("gpu1", "host0"))
    assert out == pytest.approx(1.0, rel=1e-3)
    assert into == pytest.approx(1.1, rel=1e-3)
    # The other way round it is the one out that loses.
    into, out = _steady(_machine(backward_across=0.1), ("host0", "gpu0"), ("gpu1", "host0"))
    assert into == pytest.approx(1.0, rel=1e-3)
    assert out == pytest.approx(1.1, rel=1e-3)


def test_one_direction_alone_loses_nothing() -> None:
    machine = _machine(forward_across=0.5, backward_across=0.5)
    both = _steady(machine, ("host0", "gpu0"), ("host0", "gpu1"))
    assert both == pytest.approx([1.0, 1.0], rel=1e-3)
    # Duplex of one link is the link's own matter (`against`).
    assert _steady(machine, ("host0", "gpu0"), ("gpu0", "host0")) == pytest.approx(
        [1.0, 1.0], rel=1e-3
    )


def test_a_port_carries_what_a_gpu_touches_and_no_more() -> None:
    # A tenth of 10 GB is read in place at 10 GB/s: 0.1 s, which a port of 20 GB/s does not slow
    # down. All 10 GB would take it 0.5 s.
    tree = _machine(forward=20e9).model_dump(mode="json", by_alias=True)
    curves = tree["links"]["pcie0"]["forward"]["curves"]
    curves["zero_copy"] = {"latency": 0.0, "rate": 10e9}
    machine = Machine.model_validate(tree)
    flow = {
        "from": "host0",
        "to": "gpu0",
        "size": 10 * GB,
        "memory": "mapped",
        "strategy": "zero_copy",
        "use": {"fraction": 0.1, "pattern": "dense"},
    }
    answer = estimate(Plan.model_validate({"name": "part", "flows": {"f": flow}}), machine)
    assert answer.flows[0].steady_s == pytest.approx(0.1, rel=1e-3)


def _uneven(*, reversed_link: bool = False) -> Machine:
    """Two links of 10 GB/s on an uplink of 16: coming bytes take 0.2 and 0.25 of what goes."""
    tree = _machine(forward=16e9).model_dump(mode="json", by_alias=True)
    for name, against in (("pcie0", 0.2), ("pcie1", 0.25)):
        tree["links"][name]["forward"]["against"] = against
    if reversed_link:
        link = tree["links"]["pcie1"]
        link["ends"], link["ports"] = link["ends"][::-1], link["ports"][::-1]
        link["forward"], link["backward"] = link["backward"], link["forward"]
    return Machine.model_validate(tree)


def test_equal_flows_share_an_uplink_equally_whatever_was_measured_of_their_links() -> None:
    # 8 GB/s each; a weight of 0.8 beside 0.75 would let the first one end before.
    assert _steady(_uneven(), ("host0", "gpu0"), ("host0", "gpu1")) == pytest.approx(
        [1.25, 1.25], rel=1e-3
    )


def test_both_directions_of_a_link_still_fill_at_once() -> None:
    # Out at 10 GB/s, in at 8 until then and at 10 for the last 2 GB.
    into, out = _steady(_uneven(), ("host0", "gpu0"), ("gpu0", "host0"))
    assert out == pytest.approx(1.0, rel=0.03)
    assert into == pytest.approx(1.2, rel=0.03)


def test_it_does_not_matter_which_way_a_link_is_written() -> None:
    ways = [("host0", "gpu0"), ("gpu0", "host0"), ("host0", "gpu1"), ("gpu1", "host0")]
    plain = _steady(_uneven(), *ways)
    assert _steady(_uneven(reversed_link=True), *ways) == pytest.approx(plain, rel=1e-6)


def test_links_that_are_not_alike_keep_the_weights_of_their_own() -> None:
    # One loses a tenth to what comes, the other a half: that is no matter of measuring.
    tree = _machine(forward=30e9).model_dump(mode="json", by_alias=True)
    for name, against in (("pcie0", 0.1), ("pcie1", 0.5)):
        tree["links"][name]["forward"]["against"] = against
    machine = Machine.model_validate(tree)
    into, out, second, back = _steady(
        machine, ("host0", "gpu0"), ("gpu0", "host0"), ("host0", "gpu1"), ("gpu1", "host0")
    )
    # Each link by itself: out at 10 GB/s, in at 9 and at 5 meanwhile.
    assert [out, back] == pytest.approx([1.0, 1.0], rel=1e-3)
    assert [into, second] == pytest.approx([1.1, 1.5], rel=1e-3)
