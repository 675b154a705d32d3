"""What the command line does when it is told to end, and what it never overwrites."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli.entry import main
from planner.errors import ExitCode

ROOT = Path(__file__).resolve().parents[3]
PLAN = """\
version: 1
machine: here
flows:
  a: { from: disk0, to: gpu0, size: 400MB, cache: warm }
"""
COMMAND = [sys.executable, "-m", "planner"]


def test_the_plan_is_not_overwritten_by_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("here", "h200-sxm-1"), encoding="utf-8")
    before = plan.read_bytes()
    assert main(["estimate", str(plan), "-o", str(plan)]) == ExitCode.INPUT
    assert plan.read_bytes() == before
    assert "is what is read" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # So many samples that it is at work when the signal comes.
    process = subprocess.Popen(
        [*COMMAND, "execute", str(plan), "-q", "--backend", "host", "--samples", "1000"],
        env=os.environ | {"TMPDIR": str(scratch), "PLANNER_CACHE_DIR": str(tmp_path / "cache")},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not list(scratch.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(scratch.iterdir())
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    assert "interrupted" in told
    assert list(scratch.iterdir()) == []


NARROW = [
    ["estimate", "plans/llm_load.yaml", "--explain"],
    ["estimate", "plans/kv_cache_offload.yaml"],
    ["estimate", "plans/cluster_cold_start.yaml"],
    ["execute", "plans/llm_load.yaml", "--backend", "null", "--no-history"],
    ["check", "plans/llm_load.yaml"],
]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("arguments", NARROW)
def test_a_page_is_no_wider_than_asked(
    arguments: list[str],
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*arguments, "--width", str(width)]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    # An address that a reader may follow is not cut.
    assert [line for line in lines if len(line) > width and "https:" not in line] == []
