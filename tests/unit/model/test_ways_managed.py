"""Managed memory is no place on the way: what a prefetch brings back lies in the same memory."""

from __future__ import annotations

from planner.machine.topology import Topology
from planner.model.need import Need
from planner.model.ways import ways
from tests.helpers.machines import GB, affine, two_gpus
from tests.helpers.variants import changed

DOWN = "links.pcie{}.backward.curves.managed_prefetch"


def test_nothing_is_prefetched_that_came_from_another_gpu() -> None:
    fast = {DOWN.format(gpu): affine(50e9) for gpu in (0, 1)}
    machine = changed(two_gpus(), fast)
    need = Need("f", "gpu0", "host0", GB, "device", "managed", GB, cores=8)
    found = [way.names for way in ways(Topology(machine), need)]
    assert ("prefetch",) in found
    assert not [names for names in found if len(names) > 1 and names[-1] == "prefetch"]
