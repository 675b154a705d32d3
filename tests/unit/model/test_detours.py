"""A way over another GPU is taken where it gains enough, and said to gain too little where not."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide
from planner.model.need import Need
from tests.helpers.machines import GB, linked_gpus


def _machine(second: float) -> Machine:
    """Links of 10 GB/s to the first GPU and `second` bytes/s to the other, NVLink between them."""
    tree = linked_gpus(2, peer_rate=10_000e9).model_dump(mode="json", by_alias=True)
    way = tree["links"]["pcie1"]["forward"]
    way["rate"] = second
    for curve in way["curves"].values():
        curve["rate"] = second
    return Machine.model_validate(tree)


NEED = Need("f", "host0", "gpu0", 10 * GB, "pinned", "device", GB, cores=8)


@pytest.mark.parametrize(
    ("second", "places"),
    [
        # 10 GB take 1 s straight; over the other link 10 / 10.1 + 1 ms, 0.9 % less: not worth it.
        (10.1e9, ("host0", "gpu0")),
        # At 11 GB/s it is 9 % less.
        (11e9, ("host0", "gpu1", "gpu0")),
    ],
)
@pytest.mark.parametrize("brief", [False, True])
def test_a_detour_has_to_gain_two_per_cent(
    second: float, places: tuple[str, ...], *, brief: bool
) -> None:
    assert decide(Topology(_machine(second)), NEED, brief=brief).best.way.places == places


def test_a_detour_that_gains_too_little_is_told_so() -> None:
    decision = decide(Topology(_machine(10.1e9)), NEED)
    (told,) = [r for r in decision.rejected() if r.route == ("host0", "gpu1", "gpu0")][:1]
    assert told.duration_s is not None
    assert told.duration_s < decision.best.duration(1)
    assert told.reason.startswith("over another GPU it gains ")
