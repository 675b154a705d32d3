"""The published schemas are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.report.schema import KINDS, schema_of, schema_text

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
