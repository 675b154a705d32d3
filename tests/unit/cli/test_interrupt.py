"""Ctrl-C in a real process: 130, one sentence, no traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.signals import PATIENCE_S

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


SLOW_END = """
import sys, time
from planner.review import answers

def wait(*_, **__):
    try:
        print("waiting", file=sys.stderr, flush=True)
        time.sleep(60)
    finally:
        print("putting away", file=sys.stderr, flush=True)
        end = time.monotonic() + {seconds}
        while time.monotonic() < end:
            time.sleep(0.01)
        print("put away", file=sys.stderr, flush=True)

answers.estimate = wait
from planner.cli import main
code = main()
print("the end", file=sys.stderr, flush=True)
time.sleep({after})
sys.exit(code)
"""


def started(seconds: float, after: float = 0.0) -> subprocess.Popen[str]:
    """A command that takes so long to put away what it has begun, and then to go."""
    command = [sys.executable, "-c", SLOW_END.format(seconds=seconds, after=after)]
    process = subprocess.Popen(
        [*command, "estimate", "plans/llm_load.yaml"], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert line_of(process) == "waiting"
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().strip()


def test_further_ctrl_c_ends_nothing_halfway() -> None:
    with started(1.5) as process:
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "putting away"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
            time.sleep(0.02)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "ending; again" in err
    assert "put away" in err
    assert "Traceback" not in err


def test_who_insists_leaves_at_once() -> None:
    with started(60.0) as process:
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "putting away"
        process.send_signal(signal.SIGINT)
        time.sleep(PATIENCE_S + 0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT


def test_ctrl_c_behind_the_end_changes_nothing() -> None:
    with started(0.0, after=1.0) as process:
        process.send_signal(signal.SIGINT)
        while line_of(process) != "the end":
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""


def test_signals_are_the_caller_s_again_behind_a_call() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert main(["--version"]) == 0
    assert before == [
        signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ]
