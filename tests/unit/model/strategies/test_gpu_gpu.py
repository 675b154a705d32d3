"""From GPU to GPU: peer access over NVLink and PCIe, and pieces of it."""

from __future__ import annotations

import pytest

from planner.model.need import Need
from tests.helpers.machines import GB, two_gpus
from tests.helpers.variants import by, changed, reason

NEED = Need("p", "gpu0", "gpu1", GB, "device", "device", GB, 8)


def test_over_pcie_the_path_is_what_to_look_at() -> None:
    machine = changed(two_gpus(5e9), {"links.nvlink0.kind": "pcie"})
    found = by(machine, NEED, "peer")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "peer_path"
    assert found.steady == pytest.approx(8e-6 + 0.2)


def test_over_nvlink_its_bandwidth_is() -> None:
    found = by(two_gpus(), NEED, "peer")
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "bandwidth"


def test_a_link_without_access_or_without_figures_says_so() -> None:
    machine = changed(two_gpus(), {"links.nvlink0.peer_access": False})
    assert reason(machine, NEED, "peer") == "peer: nvlink0 does not allow peer access"
    machine = changed(two_gpus(), {"links.nvlink0.forward.curves": {}})
    assert reason(machine, NEED, "peer") == "peer: nvlink0.forward has no measured peer copies"


def test_pieces_take_a_copy_each() -> None:
    # 1000 pieces of 10,000 bytes: 8 us gap and 0.1 us of bytes each.
    need = Need(
        "p", "gpu0", "gpu1", 10_000_000, "device", "device", GB, 8, pieces=((10_000, 1000),)
    )
    assert by(two_gpus(), need, "peer").steady == pytest.approx(1000 * 8.1e-6)


def test_through_the_host_pieces_are_packed_on_the_way_in_only() -> None:
    # Out of the first GPU 1000 copies of 2 us + 1 us, into the second one in chunks: 3 ms.
    need = Need(
        "p", "gpu0", "gpu1", 10_000_000, "device", "device", GB, 8, pieces=((10_000, 1000),)
    )
    found = by(two_gpus(), need, "host_staged", "host_staged")
    outward, inward = found.way.movements[0].stages(found.shapes[0])
    assert outward.seconds(10_000_000) == pytest.approx(3e-3)
    assert inward.seconds(10_000_000) == pytest.approx(1e-3 + 2e-6)
