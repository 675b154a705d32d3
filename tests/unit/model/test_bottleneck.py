"""What limits, by which cause."""

from __future__ import annotations

import pytest

from planner.model.bottleneck import bottleneck
from planner.model.choose import Candidate
from planner.model.compose import fluid
from planner.model.need import Need, Pins
from planner.model.strategies import Use
from planner.results import Bottleneck
from tests.helpers.machines import GB, MIB, affine, flat_table, one_gpu, two_gpus
from tests.helpers.networks import two_hosts
from tests.helpers.variants import UP, by, changed, every, load, upload


def limit(need: Need, candidate: Candidate) -> Bottleneck:
    pairs = zip(candidate.way.movements, candidate.shapes, strict=True)
    return bottleneck(need, candidate, [fluid(m, s) for m, s in pairs])


def test_scattered_reads_in_place_lack_requests() -> None:
    machine = changed(one_gpu(), {f"{UP}.curves.zero_copy": affine(8e9), f"{UP}.requests": 1e8})
    need = upload(4 * GB, "mapped", use=Use(0.01, 1, "random"))
    found = limit(need, by(machine, need, "zero_copy"))
    assert (found.resource, found.cause) == ("gpu0.requests", "queue_depth")


def test_faults_are_page_faults() -> None:
    machine = changed(one_gpu(), {f"{UP}.curves.managed_fault": affine(2e9)})
    need = upload(4 * GB, "managed")
    found = limit(need, by(machine, need, "managed"))
    assert (found.resource, found.cause) == ("gpu0.faults", "page_faults")
    assert found.share == pytest.approx(1.0)


def test_tiny_pieces_are_limited_by_issuing_them() -> None:
    machine = changed(one_gpu(), {"nodes.host0.issue": 5e-6})
    need = upload(4_000_000, "pinned", pieces=((4000, 1000),))
    assert limit(need, by(machine, need, "pinned")).cause == "issue_overhead"


def test_reading_the_copy_over_and_over_is_the_gpus_own_memory() -> None:
    # 0.4 s of copying, 1000 reads of 4 GB at 1 TB/s: 4 s.
    need = upload(4 * GB, "pinned", use=Use(1.0, 1000))
    found = limit(need, by(one_gpu(), need, "pinned"))
    assert (found.resource, found.cause) == ("gpu0.memory", "bandwidth")
    assert found.share == pytest.approx(4 / 4.4, rel=0.01)


def test_the_cipher_is_named() -> None:
    need = Need("n", "host0", "node1.host0", 8 * GB, "pageable", "pageable", GB, 8)
    found = limit(need, by(two_hosts(cipher=0.5e9), need, "tls", "tls", "tls"))
    assert (found.resource, found.cause) == ("host0.cipher", "cipher")


def test_the_path_between_peers_is_named() -> None:
    machine = changed(two_gpus(5e9), {"links.nvlink0.kind": "pcie"})
    need = Need("p", "gpu0", "gpu1", GB, "device", "device", GB, 8)
    assert limit(need, by(machine, need, "peer")).cause == "peer_path"


def test_a_single_slot_serialises() -> None:
    # One worker with one slot: 4 MiB copied at 20 GB/s and sent at 10, in turn.
    need = load(4 * GB, pins=Pins(chunk=4 * MIB, depth=1, workers=1))
    found = limit(need, by(one_gpu(), need, "buffered", "pinned"))
    assert found.cause == "serial_stages"


def test_a_ring_held_small_by_the_budget_is_a_matter_of_capacity() -> None:
    # The budget holds one slot: reading and sending take turns for lack of a second one.
    need = load(4 * GB, pinned_budget=256 << 10)
    found = limit(need, by(one_gpu(), need, "buffered", "pinned"))
    assert (found.resource, found.cause) == ("host0.pinned", "capacity")
    roomy = load(4 * GB)
    assert limit(roomy, by(one_gpu(), roomy, "buffered", "pinned")).cause == "bandwidth"


def test_registration_ahead_of_the_copy_is_named() -> None:
    need = upload(4 * GB)
    found = limit(need, by(one_gpu(setup={"register": 5e9}), need, "registered_chunks"))
    assert (found.resource, found.cause) == ("host0.register", "host_copy")


def test_a_slow_copy_stage_is_the_hosts() -> None:
    slow = one_gpu(copy={"file": flat_table(3e9)})
    found = limit(load(4 * GB), every(slow, load(4 * GB)).best)
    assert (found.resource, found.cause) == ("host0.copy", "host_copy")


@pytest.mark.parametrize(
    ("copy", "cause"),
    [
        # Into memory at 20 GB/s, out of it at 4: 0.2 and 1 s, of which the longer is 83 %.
        (20e9, "serial_stages"),
        # At 80 GB/s the first leg is 0.05 of 1.05 s: the second is the limit by itself.
        (80e9, "host_copy"),
    ],
)
def test_legs_one_after_another_are_serial_unless_one_takes_nearly_all(
    copy: float, cause: str
) -> None:
    machine = one_gpu(copy={"file": flat_table(copy)})
    need = load(4 * GB)
    found = limit(need, by(machine, need, "buffered", "pageable"))
    assert (found.resource, found.cause) == ("pcie0.forward", cause)


def test_movements_that_hand_over_chunk_by_chunk_are_not_in_series() -> None:
    machine = one_gpu(copy={"file": flat_table(20e9)})
    need = load(4 * GB)
    candidate = by(machine, need, "buffered", "pageable")
    pairs = zip(candidate.way.movements, candidate.shapes, strict=True)
    fluids = [fluid(m, s) for m, s in pairs]
    assert bottleneck(need, candidate, fluids, streamed=True).cause == "host_copy"
