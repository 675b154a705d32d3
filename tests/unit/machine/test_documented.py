"""docs/machine.md holds one complete example: it is the test of the schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from planner.machine.curve import Curve, Point
from planner.machine.dump import dump_machine
from planner.machine.load import catalogue, parse_machine
from planner.machine.reads import ReadTable
from planner.machine.schema import (
    Direction,
    Disk,
    Hbm,
    Link,
    Machine,
    Nic,
    Port,
    Provenance,
    Ram,
    Remote,
    Setup,
)
from planner.machine.tables import CopyTable

DOCUMENT = (Path(__file__).parents[3] / "docs" / "machine.md").read_text()
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
MODELS: list[type[BaseModel]] = [
    Machine,
    Provenance,
    Disk,
    Ram,
    Hbm,
    Nic,
    Remote,
    Setup,
    CopyTable,
    Link,
    Direction,
    Port,
    Curve,
    ReadTable,
]


def written_in(thing: Any) -> set[tuple[type[BaseModel], str]]:
    """Every field that a machine sets, by the model that has it."""
    if isinstance(thing, BaseModel):
        own = {(type(thing), name) for name in thing.model_fields_set}
        return own.union(*(written_in(getattr(thing, name)) for name in thing.model_fields_set))
    if isinstance(thing, dict):
        return set().union(*(written_in(value) for value in thing.values()))
    if isinstance(thing, tuple):
        return set().union(*(written_in(value) for value in thing))
    return set()


def test_the_example_is_a_machine_and_can_be_written_again() -> None:
    machine = parse_machine(EXAMPLE, "example.yaml")
    assert parse_machine(dump_machine(machine), "again.yaml") == machine


def test_the_example_has_every_key_that_exists() -> None:
    used = written_in(parse_machine(EXAMPLE, "example.yaml"))
    models: list[type[BaseModel]] = [*MODELS, Point]
    every = {(model, name) for model in models for name in model.model_fields}
    assert used == every


def test_every_key_is_explained() -> None:
    explained = set(re.findall(r"`([a-z_]+)`", DOCUMENT.replace(EXAMPLE, "")))
    for model in MODELS:
        for name, info in model.model_fields.items():
            assert (info.alias or name) in explained


def test_the_keys_that_are_needed_are_listed_and_no_others() -> None:
    """In the order of `MODELS`; nothing is needed of a port or of the setup."""
    section = DOCUMENT.partition("## What is needed")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("| a")]
    rows.insert(0, section.partition("| the file |")[2].splitlines()[0])
    listed = [set(re.findall(r"`(\w+)`", row)) - {"forward", "backward"} for row in rows]
    models: list[type[BaseModel]] = [*MODELS[:7], Link, Direction, Curve, CopyTable, ReadTable]
    needed = [
        {info.alias or name for name, info in model.model_fields.items() if info.is_required()}
        for model in models
    ]
    assert listed == needed


def test_every_machine_of_the_catalogue_is_listed() -> None:
    assert all(f"`{name}`" in DOCUMENT for name in catalogue())
