"""Who meets a figure that only a full calibration has is told of that calibration."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import InfeasibleError
from planner.machine.made import FULL, QUICK
from planner.machine.schema import Machine
from planner.model.need import Need, Pins
from planner.model.strategies import unmeasured
from planner.model.strategies.unmeasured import IN_FULL, how_to_measure
from planner.model.touched import Use
from tests.helpers.machines import GB, one_gpu, two_gpus
from tests.helpers.variants import changed, every, load, upload

USE = Use(0.01, 1, "random")


def made_by(machine: Machine, by: str | None) -> Machine:
    return changed(machine, {"sources.test.by": by})


def between_gpus(**more: Any) -> Need:
    kept: dict[str, Any] = {"pinned_budget": GB, "cores": 8} | more
    return Need("up", "gpu0", "gpu1", GB, "device", "device", **kept)


def apart() -> Machine:
    """Two GPUs that cannot address each other."""
    return changed(two_gpus(), {"links.nvlink0.peer_access": False})


PINNED: list[tuple[str, Machine, Need]] = [
    (unmeasured.IN_PLACE, one_gpu(), upload(GB, use=USE, pins=Pins(strategy="zero_copy"))),
    (
        unmeasured.IN_PLACE,
        one_gpu(),
        upload(GB, "managed", use=USE, pins=Pins(strategy="managed_host")),
    ),
    (unmeasured.MANAGED_FAULTS, one_gpu(), upload(GB, use=USE, pins=Pins(strategy="managed"))),
    (unmeasured.PREFETCH, one_gpu(), upload(GB, use=USE, pins=Pins(strategy="prefetch"))),
    (unmeasured.AHEAD, one_gpu(), load(GB, pins=Pins(strategy="registered_chunks"))),
    (unmeasured.MAPPED_READS, one_gpu(), load(GB, cached=0.5, pins=Pins(strategy="mmap"))),
    (unmeasured.COMBINED, one_gpu(), upload(GB, pins=Pins(strategy="write_combined"))),
    (unmeasured.WITHOUT_PEER, apart(), between_gpus(pins=Pins(strategy="driver_staged"))),
]


def hint_of(machine: Machine, need: Need) -> str | None:
    """What helps where the pinned strategy is the only way that is wanted."""
    with pytest.raises(InfeasibleError, match="no way") as caught:
        every(machine, need)
    return caught.value.hint


@pytest.mark.parametrize(("what", "machine", "need"), PINNED)
def test_a_pinned_strategy_that_only_a_full_calibration_measures_names_that(
    what: str, machine: Machine, need: Need
) -> None:
    told = hint_of(made_by(machine, QUICK), need)
    assert told == f"`{FULL}` measures {what}; small was calibrated quickly"
    # Nothing is left to be measured where that was done, nor is a file that somebody wrote.
    assert hint_of(made_by(machine, FULL), need) is None
    assert hint_of(made_by(machine, None), need) is None


def test_each_of_them_has_a_strategy() -> None:
    assert {what for what, _, _ in PINNED} == set(IN_FULL)


def test_what_is_not_measured_beside_emulated_gpus_is_not_promised() -> None:
    emulated = made_by(changed(apart(), {"emulated": True}), QUICK)
    assert hint_of(emulated, between_gpus(pins=Pins(strategy="driver_staged"))) is None
    told = hint_of(emulated, upload(GB, use=USE, pins=Pins(strategy="managed")))
    assert told is not None
    assert "page faults of managed memory" in told


def test_other_reasons_are_no_matter_of_calibration() -> None:
    assert how_to_measure(made_by(one_gpu(), QUICK), ["host0 has no measured registration"]) is None
