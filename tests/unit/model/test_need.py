"""What a flow says, as the model asks it."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.need import Pins, details, end_kind
from planner.model.strategies import Kind, Use
from planner.plan.schema import Flow
from tests.helpers.networks import two_hosts
from tests.helpers.variants import changed


def flow(**words: object) -> Flow:
    return Flow.model_validate({"from": "host0", "to": "gpu0", "size": "10B"} | words)


def test_a_plain_flow_has_no_details() -> None:
    assert details(flow()) == {"pieces": (), "use": None, "fsync": False}


def test_use_and_durability_are_passed_on() -> None:
    found = details(flow(use={"fraction": "10%", "reads": "3", "pattern": "random"}, fsync="true"))
    assert found["use"] == Use(0.1, 3, "random")
    assert found["fsync"] is True


def test_equal_pieces_share_the_bytes() -> None:
    # 10 bytes in 4 pieces: two of 3, two of 2.
    assert details(flow(pieces="4"))["pieces"] == ((3, 2), (2, 2))
    assert details(flow(pieces="5"))["pieces"] == ((2, 5),)


def test_listed_pieces_are_counted_by_size() -> None:
    assert details(flow(pieces=["4B", "1B", "4B", "1B"]))["pieces"] == ((4, 2), (1, 2))


def test_one_piece_is_none_and_empty_ones_do_not_count() -> None:
    assert details(flow(pieces="1"))["pieces"] == ()
    assert details(flow(pieces="20"))["pieces"] == ((1, 10),)


def far() -> Machine:
    remote = {"kind": "remote", "address": "10.0.0.9"}
    return changed(two_hosts(), {"nodes.remote0": remote})


@pytest.mark.parametrize(
    ("node", "memory", "kind"),
    [
        ("disk0", "pinned", "file"),
        ("gpu0", "pinned", "device"),
        ("host0", "pageable", "pageable"),
        ("host0", "pinned", "pinned"),
        ("host0", "mapped", "mapped"),
        ("host0", "managed", "managed"),
        ("node1.host0", "pinned", "pinned"),
        ("remote0", "pageable", "remote"),
        # Bytes pass through an adapter, they do not rest there.
        ("nic0", "pageable", None),
    ],
)
def test_the_kinds_of_memory_at_the_ends(node: str, memory: str, kind: Kind | None) -> None:
    assert end_kind(far(), node, memory) == kind


def test_pins_name_their_strategies() -> None:
    assert Pins().names == frozenset()
    by_hop = {"a -> b": "mmap", "b -> c": "registered"}
    assert Pins(strategy="mmap", by_hop=by_hop).names == {"mmap", "registered"}
