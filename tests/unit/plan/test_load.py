from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given, strategies as st

from planner.errors import Fault, PlanError
from planner.plan.load import LoadedPlan, load_plan, loads_plan
from planner.plan.parts import is_machine_file
from planner.plan.schema import Flow, Plan

ROOT = Path(__file__).parents[3]
FLOW = "flows: { w: { from: disk0, to: gpu0, size: 1GB } }\n"


@pytest.mark.parametrize("path", sorted((ROOT / "plans").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_example_loads_and_says_its_lesson(path: Path) -> None:
    plan = load_plan(path).plan
    assert plan.flows
    assert plan.objectives
    first, *comment = path.read_text().split("\nversion:")[0].splitlines()
    assert first == "# yaml-language-server: $schema=../docs/schema/plan.schema.json"
    assert 2 <= len(comment) <= 4
    assert all(line.startswith("# ") for line in comment)


def test_every_plan_of_the_reference_loads() -> None:
    text = (ROOT / "docs" / "plan.md").read_text()
    plans = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(plans) == 4
    for plan in plans:
        assert loads_plan(plan).plan.flows


def test_the_reference_names_every_key_and_metric() -> None:
    text = (ROOT / "docs" / "plan.md").read_text()
    schema = Plan.model_json_schema()
    models = [schema, *(schema["$defs"][name] for name in ("Flow", "Compute", "Budget", "Use"))]
    keys = {key for model in models for key in model["properties"]}
    assert {key for key in keys if f"`{key}`" not in text} == set()


def test_defaults() -> None:
    plan = loads_plan(FLOW, "llm").plan
    assert (plan.version, plan.name, plan.machine, plan.directory) == (1, "llm", "here", ".")
    flow = plan.flows["w"]
    assert (flow.cache, flow.memory, flow.host_source, flow.copy_mode) == (
        *("auto", "pageable", "cold", "replicate"),
    )
    assert (flow.repeat, flow.buffers, flow.priority, flow.start) == (1, 2, 0, 0.0)


def test_a_plan_is_called_like_its_file_unless_it_says_a_name(tmp_path: Path) -> None:
    path = tmp_path / "llm_load.yaml"
    path.write_text(FLOW)
    plan = load_plan(str(path)).plan
    assert (plan.name, plan.source_file, plan.directory) == (
        *("llm_load", str(path), str(tmp_path)),
    )
    path.write_text(f"name: other\n{FLOW}")
    assert load_plan(path).plan.name == "other"


def test_an_empty_section_is_no_fault() -> None:
    text = f"{FLOW}compute:\nvars:\nobjectives:\nbudget:\nmatrix:\n"
    plan = loads_plan(text).plan
    assert (plan.compute, plan.vars, plan.objectives, plan.matrix) == ({}, {}, (), {})


def test_the_matrix_stays_as_it_is_written() -> None:
    matrix = "matrix: { chunk: [$a, 16MiB], depth: { from: 1, to: 4 } }\n"
    assert loads_plan(f"vars: {{ a: 1MiB }}\n{matrix}{FLOW}").plan.matrix == {
        "chunk": ["1MiB", "16MiB"],
        "depth": {"from": "1", "to": "4"},
    }


def test_the_size_of_a_flow_is_that_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(30))
    (tmp_path / "b.bin").write_bytes(bytes(12))
    text = 'flows: { w: { from: disk0, to: gpu0, file: ["a.bin", "b.bin"] } }'
    flow = loads_plan(text, directory=tmp_path).plan.flows["w"]
    assert (flow.size, [file.size_bytes for file in flow.files]) == (42, [30, 12])
    flow = loads_plan(text.replace("file:", "size: 35B, file:"), directory=tmp_path).plan.flows["w"]
    assert (flow.size, [file.size_bytes for file in flow.files]) == (35, [30, 5])


def test_pieces_come_from_a_count_sizes_or_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(30))
    text = "flows: { w: { from: disk0, to: gpu0, file: a.bin, pieces: file } }"
    pieces = loads_plan(text, directory=tmp_path).plan.flows["w"].pieces
    assert pieces is not None
    assert (pieces.count, pieces.sizes) == (1, (30,))
    flow = loads_plan("flows: { w: { from: host0, to: gpu0, pieces: [1kB, 2kB] } }").plan.flows["w"]
    assert flow.size == 3000
    with pytest.raises(PlanError) as caught:
        loads_plan("flows: { w: { from: host0, to: gpu0, size: 1GB, pieces: file } }")
    assert caught.value.faults[0].path == "flows.w.pieces"


def test_a_file_at_the_far_end_is_written_and_need_not_exist(tmp_path: Path) -> None:
    text = "flows: { w: { from: gpu0, to: disk0, size: 1GB, file: out/x.bin } }"
    flow = loads_plan(text, directory=tmp_path).plan.flows["w"]
    assert (flow.sink, flow.files) == (str(tmp_path / "out" / "x.bin"), ())
    with pytest.raises(PlanError) as caught:
        loads_plan(text.replace("out/x.bin", "[a, b]"))
    assert caught.value.faults[0].message == "a flow writes one file"


def test_a_fault_stands_at_the_nearest_key_that_is_written() -> None:
    loaded = loads_plan("flows:\n  w:\n    from: disk0\n    to: gpu0\n    size: 1GB\n")
    assert loaded.fault("flows.w.size", "no").position() == "plan:5:11"
    assert loaded.fault("flows.w.budget.rate", "no").position() == "plan:2:3"
    assert loaded.fault("machine", "no").position() == "plan"
    bare = LoadedPlan(loaded.plan)
    assert bare.fault("flows.w.size", "no", "so").suggestion == "so"


def test_a_fault_in_one_part_hides_none_in_another() -> None:
    text = (
        "flows:\n"
        "  a: { from: disk0, to: gpu0, size: 1 }\n"
        "  b: { from: disk0, to: gpu0, size: 1GB, after: c }\n"
        "compute:\n"
        "  s: { gpu: gpu0, time: 1 }\n"
        "objectives: [b.durration <= 1s, d.rate >= 1GB/s]\n"
        "budget: { pinned: 1 }\n"
        "nmae: x\n"
    )
    with pytest.raises(PlanError) as caught:
        loads_plan(text)
    assert [fault.line for fault in caught.value.faults] == [2, 3, 5, 6, 6, 7, 8]
    assert all(fault.suggestion for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("machine", "is_file"),
    [("here", False), ("h200-sxm-1", False), ("m.yaml", True), ("a/m", True), ("m.yml", True)],
)
def test_a_machine_is_a_name_or_a_file(machine: str, *, is_file: bool) -> None:
    assert is_machine_file(machine) is is_file


LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "  ", "    "]),
        st.sampled_from(
            ["flows", "w", "from", "to", "size", "vars", "after", "include", "<<", "-"]
        ),
        st.sampled_from([":", ": ", "", ": - ", ": {", ": ["]),
        st.sampled_from(["", "disk0", "1GB", "$w", "$", "}", "]", "&a", "*a", "'", "~", "0..3"]),
    ),
    max_size=12,
)


@given(LINES)
def test_any_plan_is_loaded_or_refused_with_faults(lines: list[tuple[str, ...]]) -> None:
    text = "\n".join("".join(parts) for parts in lines)
    flows: dict[str, Flow] = {}
    faults: tuple[Fault, ...] = ()
    try:
        flows = loads_plan(text).plan.flows
    except PlanError as error:
        faults = error.faults
    assert bool(flows) != bool(faults)
    assert all(fault.message for fault in faults)


def test_ten_thousand_flows_load_in_seconds() -> None:
    """About 0.15 ms a flow of six keys on one core: the bound leaves a factor of about four."""
    flow = "{{ from: disk0, to: gpu{0}, size: 14GB, cache: warm, after: f{1}, repeat: 2 }}"
    text = "flows:\n  f0: { from: disk0, to: gpu0, size: 1GB }\n" + "".join(
        f"  f{i}: {flow.format(i % 8, i - 1)}\n" for i in range(1, 10_001)
    )
    start = time.process_time()
    loaded = loads_plan(text)
    spent = time.process_time() - start
    assert len(loaded.plan.flows) == 10_001
    assert spent < 6.0


def test_loading_needs_no_heavy_library() -> None:
    code = (
        "import sys; from planner.plan.load import load_plan; load_plan(sys.argv[1]);"
        "print(*sorted({'numpy', 'networkx', 'numba', 'cupy', 'typer', 'rich', 'jinja2'}"
        " & set(sys.modules)))"
    )
    plan = str(ROOT / "plans" / "llm_load.yaml")
    done = run(
        [sys.executable, "-c", code, plan], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == ""
