"""`planner check` of machine files: told from plans by their keys, all faults in one go."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode, PlanError
from planner.machine.load import CATALOG, is_machine_text
from planner.review import answers

ROOT = Path(__file__).resolve().parents[3]
PLAN = ROOT / "plans" / "llm_load.yaml"
MACHINE = ROOT / "plans" / "machines" / "h200-8.yaml"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A machine file with two faults."""
    text = MACHINE.read_text(encoding="utf-8")
    text = text.replace("kind: pcie", "kind: pci").replace("ends: [host0, ", "ends: [hots0, ")
    file = tmp_path / "wrong.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_machine_files_are_checked_beside_plans() -> None:
    found = answers.check([MACHINE, PLAN])
    (one,) = found.machines
    assert (one.file, one.machine["name"]) == (os.fspath(MACHINE), "h200-8")
    assert [plan["name"] for plan in found.plans] == ["llm-load"]
    assert found.verdict.sentence == "1 plan and 1 machine are right."
    assert answers.check(MACHINE).verdict.sentence == "1 machine is right."
    assert answers.check(PLAN).machines == ()


@pytest.mark.parametrize("file", sorted(CATALOG.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_machines_of_the_catalogue_are_right(file: Path) -> None:
    assert answers.check(file).machines[0].machine["name"] == file.stem


def test_every_fault_of_a_machine_file_is_told_at_its_place(
    wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PlanError, match="2 faults in 2 files") as caught:
        answers.check([wrong, PLAN])
    assert [fault.path for fault in caught.value.faults] == [
        "links.pcie{gpu}.kind",
        "links.pcie{gpu}.ends[0]",
    ]
    assert main(["check", str(wrong)]) == ExitCode.INPUT
    told = capsys.readouterr().err
    assert 'did you mean "pcie"?' in told
    assert "moves nothing" not in told
    assert told.endswith("2 faults.\n")


def test_the_page_and_json_have_the_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(MACHINE), "--width", "200", "--resolved"]) == ExitCode.DONE
    assert capsys.readouterr().out.split() == [
        *(str(MACHINE), "machine", "h200-8", "10", "nodes"),
        *("1", "machine", "is", "right."),
    ]
    assert main(["check", str(MACHINE), "--json"]) == ExitCode.DONE
    body = json.loads(capsys.readouterr().out)
    assert (body["plans"], body["machines"][0]["file"]) == ([], str(MACHINE))


def test_settings_are_for_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(MACHINE), "--set", "weights=1GB"]) == ExitCode.INPUT
    assert "--set changes plans" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("nodes: 5\n", True),
        ("\tsources: {}\n", True),
        ('{"nodes": {},\n\t"links": {}}', True),
        ("flows: {}\nnodes: {}\n", False),  # a plan that says what belongs in a machine file
        ("machine: here\nlinks: {}\n", False),
        ('{"format": "planner.topo/1", "nodes": [], "links": []}', False),
        ("name: x\n", False),
        ("[nodes]\n", False),
        ("nodes: [\n", False),
        ("", False),
    ],
)
def test_a_machine_file_is_told_by_its_keys(text: str, machine: bool) -> None:
    assert is_machine_text(text) is machine
