"""`--format`, `--markdown` and `--junit`: what goes where, and what is never written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode

PLAN = """\
version: 1
machine: h200-sxm-1
flows: {weights: {from: host0, to: gpu0, size: 1GB, memory: pinned}}
objectives: [makespan <= 1ms]
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN, encoding="utf-8")
    return "plan.yaml"


def test_markdown_goes_to_stdout_or_into_a_file(
    plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", plan, "--format", "markdown"]) == ExitCode.OBJECTIVE
    shown = capsys.readouterr().out
    assert main(["estimate", plan, "--markdown", "a.md", "--junit", "a.xml"]) == ExitCode.OBJECTIVE
    assert Path("a.md").read_text(encoding="utf-8") == shown
    assert "1 of 1 objective missed" in shown.splitlines()[0]
    assert '<failure message="makespan &lt;= 1ms' in Path("a.xml").read_text(encoding="utf-8")
    # The page is still printed as text.
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 1 objective missed."


def test_markdown_of_a_run(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--backend", "null", "--format", "markdown"]
    assert main(["execute", plan, *words]) == ExitCode.OBJECTIVE
    assert capsys.readouterr().out.startswith("### planner: weights took")


def test_format_json_is_json_also_for_errors(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", plan, "--format", "json"]) == ExitCode.OBJECTIVE
    assert json.loads(capsys.readouterr().out)["format"] == "planner.estimate/1"
    assert main(["estimate", "none.yaml", "--format", "json"]) == ExitCode.INPUT
    assert json.loads(capsys.readouterr().out)["exit_code"] == ExitCode.INPUT
    assert main(["estimate", plan, "--json", "--format", "markdown"]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--markdown", "plan.yaml"], "--markdown plan.yaml is what is read"),
        (["--junit", "./plan.yaml"], "--junit ./plan.yaml is what is read"),
        (["-o", "x", "--junit", "x"], "-o and --junit name the same file, x"),
        (["--markdown", "-"], "--markdown wants a file"),
        (["--junit", "none/x.xml"], "there is no folder none"),
    ],
)
def test_no_file_is_lost(
    words: list[str], told: str, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", plan, *words]) == ExitCode.INPUT
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == [plan]
    assert Path(plan).read_text(encoding="utf-8") == PLAN


def test_every_process_writes_the_same_characters(plan: str) -> None:
    # The order of sets differs with the seed; that of a page must not.
    pages = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "planner", "diff", plan, plan, "--format", "markdown"],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == ExitCode.OBJECTIVE, done.stderr
        pages.append(done.stdout)
    assert pages[0] == pages[1]
    assert pages[0].endswith(b"<!-- planner:plan -->\n")
