from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from planner.plan.load import loads_plan
from planner.plan.schema import Budget, Compute, FileSource, Flow, Pieces, Plan, Use


def read_flow(**keys: Any) -> Flow:
    written = {"from": "disk0", "to": "gpu0", **keys}
    return Flow.model_validate(written, by_alias=True, by_name=False)


def test_a_flow_as_it_is_written() -> None:
    flow = read_flow(size="13.5GB", source="hot", copy="shard", to=["gpu0", "gpu1"], via="host0")
    assert (flow.source, flow.destinations) == ("disk0", ("gpu0", "gpu1"))
    assert (flow.size, flow.host_source, flow.copy_mode) == (13_500_000_000, "hot", "shard")
    assert flow.route == ("host0",)


def test_a_flow_built_in_python_uses_the_names_of_the_fields() -> None:
    flow = Flow(source="disk0", destinations=("gpu0",), size=8, host_source="hot")
    assert flow == read_flow(size="8B", source="hot")
    assert Flow(source="disk0", destinations=("gpu0",), size=8).host_source == "cold"


def test_names_of_the_fields_are_no_keys_of_a_file() -> None:
    with pytest.raises(ValidationError):
        Flow.model_validate(
            {"source": "disk0", "destinations": ["gpu0"]}, by_alias=True, by_name=False
        )


def test_pieces_are_a_count_or_sizes() -> None:
    assert read_flow(pieces="288").pieces == Pieces(count=288)
    assert read_flow(pieces=["1kB", "2kB"]).pieces == Pieces(count=2, sizes=(1000, 2000))
    for wrong in ("0", "many", [["1kB"]], []):
        with pytest.raises(ValidationError):
            read_flow(pieces=wrong)


def test_copies_count_and_instances_turn_the_last_key_fastest() -> None:
    flow = read_flow(for_each={"node": "0..63", "gpu": "0..7"})
    assert flow.copies == 64 * 8
    instances = list(flow.instances())
    assert len(instances) == flow.copies
    assert instances[:2] == [{"node": 0, "gpu": 0}, {"node": 0, "gpu": 1}]
    assert (read_flow().copies, list(read_flow().instances())) == (1, [{}])


@pytest.mark.parametrize("keys", [{}, {"time": "1ms", "bytes": "1GB"}])
def test_compute_takes_a_time_or_bytes(keys: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="needs"):
        Compute.model_validate({"gpu": "gpu0", **keys})


def test_parts_are_frozen() -> None:
    with pytest.raises(ValidationError):
        read_flow().size = 1  # type: ignore[misc]


FULL = Plan(
    name="full",
    machine="h200-sxm-1",
    flows={
        "w": Flow(
            source="disk0",
            destinations=("gpu0", "gpu1"),
            size=5,
            cache=0.5,
            pieces=Pieces(count=2, sizes=(2, 3)),
            use=Use(fraction=0.5, reads=2, pattern="random"),
            budget=Budget(pinned=1, cores=2, rate=3.0),
            strategy={"host0 -> gpu0": "pinned"},
            for_each={"gpu": (0, 1)},
            files=(FileSource(path="/x/model.bin", offset=8, size_bytes=5),),
        ),
    },
    compute={"step": Compute(gpu="gpu0", time=0.012, after=("w",))},
    directory="/x",
)


def test_a_plan_reads_back_from_its_json() -> None:
    assert Plan.model_validate_json(FULL.model_dump_json()) == FULL
    assert Plan.model_validate(FULL.model_dump()) == FULL


def test_the_canonical_form_is_json_and_forgets_where_the_plan_lies() -> None:
    canonical = FULL.canonical()
    assert json.loads(json.dumps(canonical)) == canonical
    assert canonical["flows"]["w"]["files"][0]["path"] == "model.bin"
    elsewhere = Plan.model_validate_json(FULL.model_dump_json().replace("/x", "/y"))
    assert elsewhere.canonical() == canonical
    sink = Flow(source="gpu0", destinations=("disk0",), size=1, sink="/z/out.bin")
    assert Plan(flows={"s": sink}, directory="/x").canonical()["flows"]["s"]["sink"] == "/z/out.bin"


KEYS = {
    "from": "disk0",
    "to": "[gpu0, gpu1]",
    "size": "14GB",
    "cache": "warm",
    "after": "first",
    "repeat": "3",
    "budget": "{ cores: 2, pinned: 1GB }",
}


@given(st.permutations(sorted(KEYS)), st.booleans())
def test_the_order_of_keys_changes_nothing(order: list[str], first_is_first: bool) -> None:
    first = "  first: { from: host0, to: gpu0, size: 1GB }\n"
    second = "  second:\n" + "".join(f"    {key}: {KEYS[key]}\n" for key in order)
    flows = first + second if first_is_first else second + first
    plan = loads_plan(f"flows:\n{flows}").plan
    ordered = "".join(f"    {key}: {text}\n" for key, text in KEYS.items())
    reference = loads_plan(f"flows:\n{first}  second:\n{ordered}").plan
    assert json.dumps(plan.canonical()) == json.dumps(reference.canonical())
    assert list(plan.flows) == (["first", "second"] if first_is_first else ["second", "first"])


def test_the_schema_for_editors_hides_what_the_loader_fills_in() -> None:
    schema = Plan.model_json_schema()
    flow = schema["$defs"]["Flow"]["properties"]
    assert {"from", "to", "copy", "source", "size"} <= set(flow)
    assert not {"files", "sink", "destinations", "host_source"} & set(flow)
    assert not {"overrides", "source_file", "directory"} & set(schema["properties"])
    assert all("description" in field or "$ref" in field for field in flow.values())


def test_no_key_is_a_boolean_of_older_yaml() -> None:
    booleans = {"y", "n", "yes", "no", "on", "off", "true", "false"}
    schema = Plan.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    assert not {key.lower() for model in models for key in model.get("properties", {})} & booleans
