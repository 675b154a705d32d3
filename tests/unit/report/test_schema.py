"""The published schemas are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.machine.load import CATALOG
from planner.report.schema import KINDS, schema_of, schema_text
from tests.helpers.draft7 import KNOWN, faults

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(__file__).resolve().parents[3] / "docs" / "schema"


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_schema_is_fresh(kind: str) -> None:
    published = (FOLDER / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert published == schema_text(kind), f"planner schema --of {kind} -o docs/schema/…"


def test_no_other_schema_lies_about() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{kind}.schema.json" for kind in KINDS}


def test_a_plan_is_described_in_the_words_of_the_file() -> None:
    flow = schema_of("plan")["$defs"]["Flow"]["properties"]
    assert {"from", "to", "copy", "source", "size"} <= set(flow)
    assert not {"destinations", "host_source", "files"} & set(flow)


def test_what_is_written_is_closed_and_what_is_emitted_is_open() -> None:
    assert schema_of("plan")["additionalProperties"] is False
    assert schema_of("machine")["additionalProperties"] is False
    assert schema_of("run").get("additionalProperties", True) is True


def test_no_key_of_ours_is_a_word_that_yaml_reads_as_a_boolean() -> None:
    def keys(schema: object) -> set[str]:
        if isinstance(schema, dict):
            found = set(schema.get("properties", {}))
            return found.union(*(keys(value) for value in schema.values()))
        return set().union(*map(keys, schema)) if isinstance(schema, list) else set()

    booleans = {"on", "off", "yes", "no", "y", "n", "true", "false", "null"}
    assert not keys(schema_of("plan")) & booleans
    assert not keys(schema_of("machine")) & booleans


@pytest.mark.parametrize("kind", KINDS)
def test_quantities_say_their_unit(kind: str) -> None:
    json.loads(schema_text(kind))
    if kind in ("estimate", "run"):
        names = {n for d in schema_of(kind)["$defs"].values() for n in d.get("properties", {})}
        seconds = {n for n in names if "duration" in n or n.startswith(("busy", "makespan"))}
        assert seconds
        assert all(name.endswith("_s") for name in seconds)


WRITTEN = [
    *(("plan", path) for path in sorted((ROOT / "plans").glob("*.yaml"))),
    *(("machine", path) for path in sorted(CATALOG.glob("*.yaml"))),
]


@pytest.mark.parametrize(("kind", "path"), WRITTEN, ids=lambda value: getattr(value, "stem", value))
def test_an_editor_finds_no_fault_in_our_own_files(kind: str, path: Path) -> None:
    schema = schema_of(kind)
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(faults(written, schema, schema)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"flows": {"w": {"from": "disk0", "to": "gpu0", "size": "14Gb"}}}, "size"),
        ({"flows": {"w": {"from": "disk0", "to": "gpu0", "sise": "14GB"}}}, "sise"),
        ({"flows": {"w": {"from": "disk0"}}}, "lacks to"),
        ({"objectives": [1]}, "objectives"),
        ({"flow": {}}, "flow"),
    ],
)
def test_an_editor_finds_what_is_wrong(change: dict[str, object], told: str) -> None:
    schema = schema_of("plan")
    found = list(faults({"version": 1, **change}, schema, schema))
    assert len(found) == 1
    assert told in found[0]


@pytest.mark.parametrize("kind", ["plan", "machine"])
def test_every_key_that_people_write_has_a_sentence_and_an_example(kind: str) -> None:
    schema = schema_of(kind)
    for body in (schema, *schema["$defs"].values()):
        for key, described in body.get("properties", {}).items():
            assert described.get("description"), key
            assert described.get("examples"), key
            for example in described["examples"]:
                if not isinstance(example, dict):  # those of whole objects show a part of them
                    assert list(faults(example, described, schema)) == [], key


@pytest.mark.parametrize("kind", ["plan", "machine"])
def test_what_people_write_is_draft_07(kind: str) -> None:
    def check(schema: object, *, names: bool = False) -> None:
        if isinstance(schema, list):
            for item in schema:
                check(item)
        if isinstance(schema, dict):
            if not names:
                assert set(schema) <= KNOWN, set(schema) - KNOWN
                assert "$ref" not in schema or len(schema) == 1
            for key, value in schema.items():
                if names or key not in ("default", "enum", "examples", "required", "discriminator"):
                    check(value, names=not names and key in ("properties", "$defs"))

    assert schema_of(kind)["$schema"] == "http://json-schema.org/draft-07/schema#"
    check(schema_of(kind))
