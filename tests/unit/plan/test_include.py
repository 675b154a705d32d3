from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import PlanError
from planner.plan.include import DEEPEST, MOST
from planner.plan.load import load_plan

FLOW = "flows: { w: { from: disk0, to: gpu0, size: 1GB } }\n"


def write(folder: Path, **texts: str) -> Path:
    """Write `name.yaml` for each text; the path of the plan."""
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / "plan.yaml"


def test_the_including_file_wins_and_the_later_of_two(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        plan="include: [a.yaml, b.yaml]\nname: plan\nflows: { w: { chunk: 8MiB } }\n",
        a="name: a\nmachine: one\nflows: { w: { from: disk0, to: gpu0, size: 1GB, depth: 1 } }\n",
        b="name: b\nmachine: two\nflows: { w: { depth: 2 } }\n",
    )
    plan = load_plan(path).plan
    flow = plan.flows["w"]
    assert (plan.name, plan.machine) == ("plan", "two")
    assert (flow.source, flow.size, flow.depth, flow.chunk) == ("disk0", 10**9, 2, 8 * 2**20)


def test_lists_are_replaced_not_joined(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        plan="include: a.yaml\nobjectives: [makespan <= 1s]\n",
        a=FLOW + "objectives: [makespan <= 2s, w.rate >= 1GB/s]\n",
    )
    assert [objective.text for objective in load_plan(path).plan.objectives] == ["makespan <= 1s"]


def test_includes_of_includes_and_the_same_file_twice(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        plan="include: [a.yaml, b.yaml]\n",
        a="include: c.yaml\n",
        b="include: c.yaml\n",
        c=FLOW,
    )
    assert list(load_plan(path).plan.flows) == ["w"]


def test_paths_start_from_the_file_that_names_them(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(7))
    (folder / "more.yaml").write_text(
        "machine: machines/m.yaml\n"
        "flows:\n"
        "  w: { from: disk0, to: gpu0, file: weights.bin }\n"
        "  s: { from: gpu0, to: disk0, size: 1B, file: [out.bin] }\n"
    )
    plan = load_plan(write(tmp_path, plan="include: parts/more.yaml\n")).plan
    assert plan.machine == "parts/machines/m.yaml"
    assert plan.flows["w"].files[0].path == str(folder / "weights.bin")
    assert plan.flows["w"].size == 7
    assert plan.flows["s"].sink == str(folder / "out.bin")
    assert plan.directory == str(tmp_path)


def test_an_included_plan_may_lack_what_the_including_one_says(tmp_path: Path) -> None:
    path = write(tmp_path, plan=f"include: a.yaml\n{FLOW}", a="vars: { x: 1 }\n")
    assert load_plan(path).plan.vars == {"x": "1"}


def test_a_value_remembers_the_file_it_is_written_in(tmp_path: Path) -> None:
    path = write(tmp_path, plan="include: a.yaml\n", a=FLOW)
    fault = load_plan(path).fault("flows.w.size", "too much")
    assert fault.position() == f"{tmp_path / 'a.yaml'}:1:44"
    assert fault.excerpt == FLOW.rstrip()


def test_faults_of_all_files_come_together(tmp_path: Path) -> None:
    path = write(
        tmp_path, plan=f"include: [a.yaml, gone.yaml]\nnmae: x\n{FLOW}", a="machnie: here\n"
    )
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert [(Path(fault.file).name, fault.line) for fault in caught.value.faults] == [
        ("plan.yaml", 1),
        ("plan.yaml", 2),
        ("a.yaml", 1),
    ]
    assert str(caught.value) == f"{path} has 3 faults"


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("bases.yml", "did you mean base.yaml?"),
        ("nope.yaml", "its path starts from the folder of the file that names it"),
    ],
)
def test_a_missing_file_has_a_neighbour_if_its_own_name_is_like_it(
    tmp_path: Path, named: str, told: str | None
) -> None:
    path = write(tmp_path, plan=f"include: {named}\n" + FLOW, base=FLOW, e=FLOW)
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert [fault.suggestion for fault in caught.value.faults] == [told]


def test_a_long_chain_of_includes_is_stopped(tmp_path: Path) -> None:
    for i in range(DEEPEST + 5):
        (tmp_path / f"{i}.yaml").write_text(f"include: {i + 1}.yaml\n")
    (tmp_path / f"{DEEPEST + 5}.yaml").write_text(FLOW)
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "0.yaml")
    assert any("nested more than" in fault.message for fault in caught.value.faults)


def test_files_that_include_each_next_one_ten_times_are_stopped(tmp_path: Path) -> None:
    """Nine deep they would be read 10⁹ times."""
    texts = {f"f{i}": f"include: [{', '.join([f'f{i + 1}.yaml'] * 10)}]\n" for i in range(9)}
    path = write(tmp_path, plan="include: f0.yaml\n", **texts, f9=FLOW)
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert [(fault.path, fault.message) for fault in caught.value.faults] == [
        ("include", f"the includes name more than {MOST} files in all")
    ]


def test_a_file_as_large_as_weights_is_not_read(tmp_path: Path) -> None:
    """Neither as a plan nor as an include: 1 TB that takes no room is told at once."""
    large = tmp_path / "model.bin"
    with large.open("wb") as file:
        file.truncate(10**12)
    for path in (large, write(tmp_path, plan="include: model.bin\n")):
        with pytest.raises(PlanError) as caught:
            load_plan(path)
        (fault,) = caught.value.faults
        assert fault.message == f"{large} has 1 TB: no plan is that large"


def test_an_include_cannot_use_variables(tmp_path: Path) -> None:
    path = write(tmp_path, plan=f"vars: {{ a: b }}\ninclude: $a.yaml\n{FLOW}")
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert "cannot use variables" in caught.value.faults[0].message


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_bytes(b"\xef\xbb\xbf" + FLOW.encode())
    assert load_plan(tmp_path / "plan.yaml").plan.flows["w"].size == 10**9


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / ("x" * 300))
    assert "File name too long" in caught.value.faults[0].message
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "no folder" / "plan.yaml")
    assert caught.value.faults[0].suggestion is None
    with pytest.raises(PlanError) as caught:
        load_plan("a\0b")
    assert "null" in caught.value.faults[0].message
