from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner.machine.names import UnknownNamesError, name_faults
from planner.machine.schema import Link, Machine


def raw() -> dict[str, Any]:
    return {
        "name": "m",
        "sources": {"a": {"kind": "assumed", "where": "x", "when": "y"}},
        "nodes": {
            "host0": {"kind": "ram", "capacity": 1, "cores": 1},
            "gpu0": {"kind": "hbm", "host": "host0", "device": 0, "capacity": 1},
        },
        "links": {
            "pcie0": {
                "kind": "pcie",
                "ends": ("host0", "gpu0"),
                "forward": {"rate": 1.0, "curves": {"pinned": {"latency": 0, "rate": 1.0}}},
            }
        },
    }


CURVE = {"latency": 0, "rate": 1.0}
TABLE = {"workers": [1], "rings": [1], "rates": [[1.0]]}


@pytest.mark.parametrize(
    ("where", "block"),
    [
        (("nodes", "host0"), {}),
        (("nodes", "host0", "setup"), {}),
        (("nodes", "host0", "copy", "file"), TABLE),
        (("nodes", "gpu0", "local"), CURVE),
        (("nodes", "gpu0", "allocate"), CURVE),
        (("links", "pcie0"), {}),
        (("links", "pcie0", "forward"), {}),
        (("links", "pcie0", "forward", "curves", "pinned"), {}),
    ],
)
def test_a_source_that_no_entry_answers_to_is_refused_wherever_it_stands(
    where: tuple[str, ...], block: dict[str, Any]
) -> None:
    tree = raw()
    place = tree
    for key in where:
        place = place.setdefault(key, {})
    place.update({**block, "source": "b"})
    (fault,) = name_faults(tree)
    assert fault.path == (*where, "source")
    assert fault.choices == ("a",)
    with pytest.raises(ValidationError, match='"b" is no entry of sources'):
        Machine.model_validate(tree)
    place["source"] = "a"
    assert name_faults(tree) == []
    assert Machine.model_validate(tree).name == "m"


def test_every_unknown_name_is_listed() -> None:
    tree = raw()
    tree["links"]["pcie0"]["ends"] = ("host1", "gpu1")
    tree["nodes"]["gpu0"]["host"] = "gpu0"
    with pytest.raises(ValidationError) as caught:
        Machine.model_validate(tree)
    cause = caught.value.errors()[0]["ctx"]["error"]
    assert isinstance(cause, UnknownNamesError)
    assert [fault.path for fault in cause.faults] == [
        ("links", "pcie0", "ends", 0),
        ("links", "pcie0", "ends", 1),
        ("nodes", "gpu0", "host"),
    ]


@pytest.mark.parametrize("tree", [{}, {"nodes": "x"}, {"nodes": {"a": 1}, "links": {"b": []}}, 3])
def test_names_are_checked_in_text_that_is_no_machine_without_failing(tree: Any) -> None:
    assert name_faults(tree) == []


def test_a_link_has_a_direction_that_leaves_each_end() -> None:
    link = Link.model_validate(
        {"kind": "pcie", "ends": ("a", "b"), "forward": {"rate": 1.0}, "backward": None}
    )
    assert link.direction("a") is link.forward
    assert link.direction("b") is None
    with pytest.raises(ValidationError, match="a forward or a backward"):
        Link.model_validate({"kind": "pcie", "ends": ("a", "b")})


def test_a_number_belongs_to_the_nearest_source_and_else_to_the_first() -> None:
    tree = raw()
    tree["sources"]["b"] = {"kind": "cited", "where": "z", "when": "y"}
    machine = Machine.model_validate(tree)
    assert machine.source_of(None, "b", "a").where == "z"
    assert machine.source_of(None, None).where == "x"


def test_a_machine_survives_json() -> None:
    machine = Machine.model_validate(raw())
    assert Machine.model_validate_json(machine.model_dump_json(by_alias=True)) == machine
    assert Machine.model_validate_json(machine.model_dump_json()) == machine
