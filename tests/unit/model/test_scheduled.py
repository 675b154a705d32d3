"""A saved schedule is found again, whatever it does, and on machines with other numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import DETOUR, TRUSTED
from planner.model.need import Need
from planner.model.scheduled import candidate_of, movements_of, rebased
from planner.model.strategies import Use
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.networks import two_hosts
from tests.helpers.variants import DOWN, UP, changed, every, load, upload


def rich() -> Machine:
    """`one_gpu` that offers everything between host and GPU."""
    return changed(
        one_gpu(setup={"register": 20e9, "register_file": 20e9, "map_touch": 10e9}),
        {
            f"{UP}.curves.zero_copy": affine(8e9, 20e-6),
            f"{UP}.curves.managed_fault": affine(2e9, 100e-6),
            f"{UP}.curves.managed_prefetch": affine(8e9, 50e-6),
            f"{DOWN}.curves.zero_copy": affine(8e9, 20e-6),
            "nodes.host0.register_ahead": affine(40e9, 100e-6),
        },
    )


NEEDS = (
    (rich(), load(4 * GB)),
    (rich(), load(4 * GB, use=Use(0.5, 3, "random"))),
    (rich(), upload(4 * GB, use=Use(0.01, 2))),
    (rich(), upload(4 * GB, "managed")),
    (rich(), upload(4_000_000, "pinned", pieces=((4000, 1000),))),
    (rich(), Need("d", "gpu0", "host0", GB, "device", "mapped", GB, 8)),
    (two_hosts(), Need("n", "disk0", "node1.gpu0", GB, "file", "device", GB, 8)),
)


@pytest.mark.parametrize(("machine", "need"), NEEDS, ids=lambda value: getattr(value, "name", ""))
def test_every_candidate_survives_being_saved(machine: Machine, need: Need) -> None:
    decision = every(machine, need)
    topology = Topology(machine)
    for candidate in (decision.best, *decision.others):
        again = candidate_of(topology, need, candidate.schedule(need))
        assert again.way.names == candidate.way.names
        assert again.shapes == candidate.shapes
        # Up to the order in which its terms are added; what surely lost has the formula's.
        close = candidate.duration(1) <= decision.best.duration(1) * DETOUR * TRUSTED
        assert again.steady == pytest.approx(candidate.steady, rel=1e-12 if close else 0.02)
        assert again.setup == candidate.setup


def test_what_the_schedule_does_counts_as_asked_for() -> None:
    # Saved from a plan that says how the GPU uses the data, read for one that does not.
    need = upload(4 * GB, "mapped", use=Use(0.01))
    saved = every(rich(), need).best.schedule(need)
    again = candidate_of(Topology(rich()), replace(need, first="pinned", use=None), saved)
    assert again.way.names == ("zero_copy",)
    assert again.steady == pytest.approx(20e-6 + 4 * GB / 8e9)


def test_other_numbers_change_the_time_and_nothing_else() -> None:
    need = upload(4 * GB, "managed")
    found = next(c for c in every(rich(), need).others if c.way.names == ("prefetch",))
    faster = changed(rich(), {f"{UP}.curves.managed_prefetch": affine(16e9, 50e-6)})
    moved = rebased(faster, need, found)
    assert moved.way.names == found.way.names
    assert moved.steady == pytest.approx(50e-6 + 0.25)


def test_a_machine_that_lacks_it_says_so() -> None:
    need = upload(4 * GB, "mapped", use=Use(0.01))
    saved = every(rich(), need).best.schedule(need)
    with pytest.raises(InfeasibleError, match="small cannot run the schedule: zero_copy"):
        candidate_of(Topology(one_gpu()), need, saved)


def test_movements_come_with_their_shapes() -> None:
    need = load(4 * GB)
    best = every(rich(), need).best
    ((movement, shape),) = movements_of(rich(), need, best.schedule(need))
    assert (movement.strategies, shape) == (best.way.movements[0].strategies, best.shapes[0])
