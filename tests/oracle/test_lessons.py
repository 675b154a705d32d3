"""What the example plans say of strategies, pieces and budgets holds on the machine they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.errors import InfeasibleError
from planner.machine.load import load_machine
from planner.machine.schema import Machine, Ram
from planner.machine.topology import Topology
from planner.model.choose import Candidate, Decision, decide
from planner.model.need import Need, Pins, details
from planner.model.needs import demands
from planner.plan.load import load_plan

PLANS = Path(__file__).resolve().parents[2] / "plans"
MIB = 1 << 20


def needs(name: str) -> tuple[Machine, dict[str, Need]]:
    """The needs of a plan's flows, with what they say of pieces and use."""
    plan = load_plan(PLANS / f"{name}.yaml").plan
    machine = load_machine(plan.machine)
    found = demands(plan, machine)
    return machine, {d.need.name: replace(d.need, **details(plan.flows[d.flow])) for d in found}


def choose(machine: Machine, need: Need) -> Decision:
    return decide(Topology(machine), need)


def way(decision: Decision, *names: str) -> Candidate:
    found = (decision.best, *decision.others)
    return next(c for c in found if c.way.names == names)


def test_sparse_lookup() -> None:
    machine, flows = needs("sparse_lookup")
    lookup = choose(machine, flows["lookup"])
    # 16 MB in sectors of 64 bytes: 250,000 reads at 0.6 a nanosecond, 0.42 ms, and a launch.
    assert lookup.best.way.names == ("zero_copy",)
    assert lookup.best.steady == pytest.approx(0.43e-3, rel=0.02)
    # The copy: 16 GB at 54.8 GB/s.
    assert way(lookup, "pinned").steady == pytest.approx(0.292, rel=0.01)
    # Faults: 1 - 0.999^1024 = 64 % of the regions are hit, so all blocks move whole: 16 GB at
    # 9.85 GB/s.
    managed = choose(machine, flows["managed"])
    assert way(managed, "managed").steady == pytest.approx(1.63, rel=0.02)
    # Advised to stay on the host it is read there as quickly, once 16 GB are mapped page by page:
    # that takes longer than the copy of 0.3 s, so it pays for lookups that are repeated.
    kept = way(managed, "managed_host")
    assert kept.steady == pytest.approx(0.43e-3, rel=0.02)
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    assert host.setup.register_rate is not None
    assert kept.setup_seconds == pytest.approx(16e9 / host.setup.register_rate, rel=0.02)
    assert managed.best.way.names == ("staged",)
    often = choose(machine, replace(flows["managed"], repeat=10))
    assert often.best.way.names == ("managed_host",)
    # Twenty passes in place cross the link twenty times: 16 GB x 20 / 50.4 GB/s.
    dense = choose(machine, flows["dense"])
    assert dense.best.way.names == ("pinned",)
    assert way(dense, "zero_copy").steady == pytest.approx(6.35, rel=0.02)


def test_small_tensors() -> None:
    machine, flows = needs("small_tensors")
    assert sum(n for _, n in flows["from_file"].pieces) == 290
    whole = choose(machine, replace(flows["from_file"], pieces=()))
    found = choose(machine, flows["from_file"])
    assert found.best.steady == whole.best.steady
    assert any("one read and one copy for each of 290 pieces" in r.reason for r in found.rejected())
    # Beside the big ones the calls hide: 1.61 GB at 54.8 GB/s and 290 gaps of 2 us.
    scattered = choose(machine, flows["scattered"])
    assert scattered.best.way.names == ("pinned",)
    assert scattered.best.steady == pytest.approx(0.0294 + 290 * 2e-6, rel=0.03)
    # Alone they are all there is: 256 calls of 6.4 us.
    norms = choose(machine, flows["norms"])
    assert norms.best.steady == pytest.approx(256 * 6.4e-6, rel=0.01)
    one = choose(machine, replace(flows["norms"], pieces=()))
    assert norms.best.steady / one.best.steady == pytest.approx(37, rel=0.1)


def test_pinned_budget() -> None:
    machine, flows = needs("pinned_budget")
    roomy, tight = choose(machine, flows["roomy"]), choose(machine, flows["tight"])
    assert roomy.best.way.names == tight.best.way.names == ("buffered", "pinned")
    assert tight.best.ring <= 8 * MIB < roomy.best.ring
    assert tight.best.ring * 12 == pytest.approx(roomy.best.ring, rel=0.1)
    # More than half of the speed.
    assert roomy.best.steady / tight.best.steady > 0.5
    told = {r.strategies: r.reason for r in tight.infeasible}
    assert told["mmap", "registered"] == "it pins 13.5 GB on host0, the budget is 8 MiB"
    # Below one chunk no ring fits, and the answer says what would.
    pins = Pins(by_hop={"host0 -> gpu0": "pinned"})
    nothing = replace(flows["tight"], pinned_budget=100_000, pins=pins)
    with pytest.raises(InfeasibleError, match="needs at least 256 KiB pinned on host0"):
        choose(machine, nothing)
