"""Ctrl-C in a real process: 130, one sentence, no traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


EARLY = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "planner.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from planner.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_ctrl_c_while_the_program_is_loaded(form: list[str]) -> None:
    command = [sys.executable, "-c", EARLY, "estimate", "plans/llm_load.yaml", *form]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == 130
    told = json.loads(ended.stdout)["message"] if form else ended.stderr
    assert "interrupted; nothing was begun" in told
    assert "Traceback" not in ended.stderr
