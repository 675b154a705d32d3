"""The door: streams, exit codes, and what becomes of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.app import VERBS
from planner.errors import ExecutionError, ExitCode, InfeasibleError, UnavailableError
from planner.results import Verdict
from planner.review import answers
from tests.helpers import results

ROOT = Path(__file__).resolve().parents[3]
PLAN = str(ROOT / "plans" / "llm_load.yaml")


def planner(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
    )


def test_no_verb_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.USAGE
    assert "Verbs:" in capsys.readouterr().out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_the_shared_options(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == ExitCode.DONE
    out = capsys.readouterr().out
    for option in ("--json", "--output", "--color", "--quiet", "--verbose", "--width"):
        assert option in out


def test_the_help_lists_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    out = capsys.readouterr().out
    listed = {int(line.split()[0]) for line in out.splitlines() if line.strip()[:1].isdigit()}
    assert listed == {int(code) for code in ExitCode}


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    import planner as package

    assert main(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out == f"planner {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["estimat"], "Did you mean 'estimate'"),
        (["estimate"], "PLAN"),
        (["estimate", PLAN, "--depth", "2"], "--depth"),
        (["estimate", PLAN, "--width", "3"], "--width"),
        (["execute", PLAN, "--max-error", "0.9x"], "--max-error"),
        (["execute", PLAN, "--max-error", "much"], "--max-error"),
        (["execute", PLAN, "--samples", "0"], "--samples"),
        (["execute", PLAN, "--cache", "lukewarm"], "--cache"),
    ],
)
def test_wrong_usage_is_2_on_stderr(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_wrong_usage_is_json_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--json"]) == ExitCode.USAGE
    body = json.loads(capsys.readouterr().out)
    assert (body["format"], body["exit_code"]) == ("planner.error/1", 2)


@pytest.mark.parametrize(
    "error",
    [
        InfeasibleError("weights does not fit gpu0", hint="use a larger one"),
        UnavailableError("no GPU here"),
        ExecutionError("the copy failed"),
    ],
)
def test_an_error_gives_its_own_code_and_its_words(
    error: InfeasibleError, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(answers, "estimate", fail)
    assert main(["estimate", PLAN]) == error.exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert error.message in err
    assert main(["estimate", PLAN, "--json"]) == error.exit_code
    assert json.loads(capsys.readouterr().out)["message"] == error.message


def test_a_bug_is_1_and_one_line_with_a_traceback_only_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr(answers, "estimate", fail)
    assert main(["estimate", PLAN]) == ExitCode.BUG
    err = capsys.readouterr().err
    assert "a bug in planner: ZeroDivisionError: seven by nothing" in err
    assert "Traceback" not in err
    assert "-v shows the traceback" in err
    for flagged in (
        ["estimate", PLAN, "-v"],
        ["-v", "estimate", PLAN],
        ["--verbose", "estimate", PLAN],
    ):
        assert main(flagged) == ExitCode.BUG
        err = capsys.readouterr().err
        assert "Traceback" in err
        assert "-v shows" not in err


@pytest.mark.parametrize("said", ["", "Unable to allocate 8 TiB"])
def test_memory_that_is_used_up_is_no_bug(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError(said)

    monkeypatch.setattr(answers, "estimate", fail)
    assert main(["estimate", PLAN]) == ExitCode.FAILED
    told = capsys.readouterr().err
    assert f"error: memory is used up{': ' + said if said else ''}\n" in told
    assert "ulimit -v" in told


def test_an_interrupt_is_130_and_says_what_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(answers, "estimate", interrupt)
    kept = tmp_path / "e.json"
    kept.write_text("before", encoding="utf-8")
    assert main(["estimate", PLAN, "-o", str(kept)]) == ExitCode.INTERRUPTED
    assert f"{kept} was not touched" in capsys.readouterr().err
    assert kept.read_text(encoding="utf-8") == "before"


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m planner schema --of run | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_a_plan_with_faults_is_3_with_their_count(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "bad.yaml"
    plan.write_text(
        "version: 1\nflows:\n  weights: {from: disk0, to: gpu0, size: 14Gb}\n", encoding="utf-8"
    )
    assert main(["estimate", str(plan)]) == ExitCode.INPUT
    err = capsys.readouterr().err
    assert err.startswith(f'{plan}:3:42  flows.weights.size  "14Gb" is a number of bits\n')
    assert err.endswith("1 fault; nothing estimated.\n")


def test_the_text_falls_back_to_ascii() -> None:
    done = planner("estimate", PLAN, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "disk0 -> host0 -> gpu0" in done.stdout


def test_colour_is_for_terminals_or_on_request() -> None:
    assert "\x1b" not in planner("estimate", PLAN, NO_COLOR="").stdout
    assert "\x1b[" in planner("estimate", PLAN, "--color", "always").stdout


def test_quiet_prints_the_verdict_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", PLAN, "-q"]) == ExitCode.DONE
    assert capsys.readouterr() == ("All 2 objectives met.\n", "")


def test_a_missed_objective_is_10(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = Verdict(passed=False, exit_code=10, sentence="1 of 1 objective missed.")
    monkeypatch.setattr(answers, "estimate", lambda *_, **__: results.estimate(verdict=missed))
    assert main(["estimate", PLAN]) == ExitCode.OBJECTIVE
    assert capsys.readouterr().out.splitlines()[-1] == missed.sentence
