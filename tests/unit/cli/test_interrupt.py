"""Ctrl-C in a real process: 130, one sentence, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

SLOW = """
import sys, time
from planner.review import answers

def wait(*_, **__):
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(60)

answers.estimate = wait
from planner.cli import main
sys.exit(main(["estimate", "plans/llm_load.yaml", "--json"]))
"""


def test_ctrl_c_ends_with_130_and_a_json_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert '"exit_code": 130' in out
    assert "nothing half-written is kept" in out
    assert err == ""
