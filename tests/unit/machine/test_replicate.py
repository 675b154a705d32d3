"""Machines of many equal parts: what names stand for, and how they are written out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner.errors import InfeasibleError
from planner.machine.dump import dump_machine
from planner.machine.load import parse_machine
from planner.machine.replicate import all_names, members, written_out
from planner.machine.schema import Machine
from tests.helpers.machines import many_gpus


def test_a_name_stands_for_the_product_of_its_ranges() -> None:
    machine = many_gpus(3, 2)
    assert members(machine, "node{node}.gpu{gpu}") == 6
    assert members(machine, "node{node}.host0.copy") == 3
    assert members(machine, "disk0") == 1


def test_written_out_every_member_is_a_place_of_its_own() -> None:
    machine = written_out(many_gpus(3, 2))
    gpus = [name for name, node in machine.nodes.items() if node.kind == "hbm"]
    assert gpus == [f"node{n}.gpu{g}" for n in range(3) for g in range(2)]
    assert getattr(machine.nodes["node2.gpu1"], "host", None) == "node2.host0"
    assert getattr(machine.nodes["node2.gpu1"], "device", None) == 1
    assert machine.links["node1.pcie0"].ends == ("node1.host0", "node1.gpu0")
    assert machine.replicate == {}
    Machine.model_validate(machine.model_dump(by_alias=True))  # all names exist


def test_a_place_joined_to_itself_is_joined_pair_by_pair() -> None:
    # 3 hosts x (2 x 1 / 2) pairs; the ports are those of the two ends.
    machine = written_out(many_gpus(3, 2, peers=True))
    peers = {name: link for name, link in machine.links.items() if link.kind == "nvlink"}
    assert sorted(peers) == ["node0.peer0-1", "node1.peer0-1", "node2.peer0-1"]
    assert peers["node1.peer0-1"].ends == ("node1.gpu0", "node1.gpu1")
    assert peers["node1.peer0-1"].ports == ("node1.port0", "node1.port1")
    assert {"node1.port0", "node1.port1"} <= machine.ports.keys()


def test_a_plain_machine_stays_as_it_is() -> None:
    machine = written_out(many_gpus(1, 1))
    assert written_out(machine) is machine


def test_all_names_are_known_before_they_are_written_out() -> None:
    nodes, links = all_names(many_gpus(2, 2))
    assert {"node1.gpu1", "node{node}.gpu{gpu}", "disk0"} <= nodes.keys()
    assert "node1.pcie0" in links


def test_a_large_machine_is_not_written_out() -> None:
    # 12,500 hosts: 12,500 x (1 host + 8 GPUs) places, 1 disk, 12,500 x (1 + 8) links.
    with pytest.raises(InfeasibleError, match="has 225001 places and links"):
        written_out(many_gpus(12_500, 8))


def test_it_is_written_and_read_again() -> None:
    machine = many_gpus(3, 2, peers=True)
    assert parse_machine(dump_machine(machine), "again.yaml") == machine


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"replicate": {"node": "0..2"}}, 'node node{node}.gpu{gpu}: replicate has no "gpu"'),
        ({"replicate": {"node": "2..0", "gpu": "0..1"}}, "runs backwards"),
        ({"replicate": {"node": "3", "gpu": "0..1"}}, "is no range"),
    ],
)
def test_faults_are_told(change: dict[str, Any], told: str) -> None:
    tree = many_gpus(3, 2).model_dump(mode="json", by_alias=True) | change
    with pytest.raises(ValidationError, match=told.replace("{", r"\{").replace("}", r"\}")):
        Machine.model_validate(tree)


def test_an_unknown_port_is_told() -> None:
    tree = many_gpus(3, 2).model_dump(mode="json", by_alias=True)
    tree["links"]["node{node}.pcie{gpu}"]["ports"] = ["nowhere", None]
    with pytest.raises(ValidationError, match='the port "nowhere", which is not in ports'):
        Machine.model_validate(tree)
