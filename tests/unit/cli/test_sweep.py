"""`planner sweep`: what goes to which stream and file, and Ctrl-C in a real process."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.console import Console, Manners
from planner.cli.sweep import EVERY_S, _Lines
from planner.errors import ExitCode
from planner.results.sweep import Sweep

ROOT = Path(__file__).resolve().parents[3]
LLM = str(ROOT / "plans" / "llm_load.yaml")
TWO = ["sweep", LLM, "--sweep", "links.pcie0.rate=10GB/s,50GB/s"]


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"], ["-o", "-"]])
def test_json_on_stdout_reads_back(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TWO, *flags]) == ExitCode.DONE
    result = Sweep.model_validate_json(capsys.readouterr().out)
    assert [point.exit_code for point in result.points] == [10, 0]


def test_o_saves_json_whatever_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "sweep.json"
    assert main([*TWO, "--format", "csv", "-o", str(saved)]) == ExitCode.DONE
    first, second = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert json.loads(saved.read_text())["format"] == "planner.sweep/1"
    points = json.loads(saved.read_text())["points"]
    assert float(first["weights.duration_s"]) == points[0]["value"]
    assert (first["met"], second["met"]) == ("false", "true")


def test_the_code_is_that_of_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", LLM, "--sweep", "links.pcie0.rate=5GB/s,9GB/s", "-q"]) == 10
    assert capsys.readouterr().out == "None of 2 points meet all objectives.\n"


def test_a_failed_link_for_all_points(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--fail-link", "pcie0", "--sweep", "depth=1,2"]
    assert main(["sweep", LLM, *flags]) == ExitCode.INFEASIBLE
    out = capsys.readouterr().out
    assert "no way from disk0 to gpu0" in out
    assert out.endswith("None of 2 points can be done.\n")
    assert main(["estimate", LLM, "--fail-link", "pcie0"]) == ExitCode.INFEASIBLE
    assert "no way from disk0 to gpu0" in capsys.readouterr().err
    assert main(["estimate", LLM, "--fail-link", "pcie9"]) == ExitCode.INPUT
    assert 'did you mean "pcie0"?' in capsys.readouterr().err


def test_a_log_is_told_now_and_then() -> None:
    stream = io.StringIO()
    now = [0.0]
    lines = _Lines(Console(Manners(), stdout=io.StringIO(), stderr=stream), clock=lambda: now[0])
    for seconds, done in ((1.0, 10), (EVERY_S, 50), (EVERY_S + 1, 60), (2 * EVERY_S, 100)):
        now[0] = seconds
        lines(done, 100)
    # 50 points in 5 s, so the other 50 take 5 s more.
    assert stream.getvalue() == "50 of 100 points, about 5 s left\n100 of 100 points\n"


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_writes_what_is_done_and_says_so(tmp_path: Path, processes: int) -> None:
    saved = tmp_path / "sweep.json"
    axes = ["--sweep", "chunk={from: 128KiB, to: 8MiB, times: 1.02}", "--sweep", "depth=2,3,4,5,6"]
    code = (
        "import planner.cli.sweep as verb, sys\n"
        "verb.EVERY_S = 0.0\n"
        "from planner.cli import main\n"
        "if __name__ == '__main__': sys.exit(main(sys.argv[1:]))\n"
    )
    script = tmp_path / "run.py"
    script.write_text(code)
    flags = ["--processes", str(processes), "-o", str(saved), "--format", "csv"]
    with subprocess.Popen(
        [sys.executable, str(script), "sweep", LLM, *axes, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith(("1", "2", "3", "4", "5")):
            assert line, "the sweep ended by itself"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED
    body = json.loads(saved.read_text())
    done = len(body["points"])
    assert 0 < done < body["planned"]
    assert body["complete"] is False
    assert body["verdict"]["exit_code"] == ExitCode.INTERRUPTED
    assert len(out.splitlines()) == done + 1
    said = f"interrupted: {done} of {body['planned']} points are done and kept, saved in {saved}"
    assert err.splitlines()[-1] == said
    assert "Traceback" not in err
    for _ in range(50):  # the last of them ends a moment after its parent
        if not _alive(process.pid):
            return
        time.sleep(0.1)
    pytest.fail("a process is left behind")


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
