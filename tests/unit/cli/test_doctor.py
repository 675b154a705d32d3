"""The verb `doctor`: exit codes, JSON, words, and that it measures and leaves nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.complete import checks
from planner.engine import observe
from planner.engine.backends import cuda_look
from planner.errors import ExitCode
from planner.review.doctor import CHECKS
from tests.helpers import seen


def test_the_exit_code_is_that_of_the_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observe, "observe", seen.observation)
    assert main(["doctor"]) == ExitCode.DONE
    assert "checks found nothing." in capsys.readouterr().out
    slow = seen.with_link("pcie1", generation=3)
    monkeypatch.setattr(observe, "observe", lambda: seen.observation(calibration=slow))
    assert main(["doctor", "--json"]) == ExitCode.OBJECTIVE
    body = json.loads(capsys.readouterr().out)
    assert body["format"] == "planner.doctor/1"
    assert [finding["check"] for finding in body["findings"]] == ["pcie"]
    assert body["verdict"]["exit_code"] == ExitCode.OBJECTIVE
    assert main(["doctor", "-q", "--only", "pcie"]) == ExitCode.OBJECTIVE
    assert capsys.readouterr().out == "1 problem.\n"


def test_this_computer_is_examined_quickly_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    start = time.perf_counter()
    code = main(["doctor", "--json", "-o", str(tmp_path / "doctor.json")])
    assert time.perf_counter() - start < 30  # 0.5 s on an idle computer
    body = json.loads(capsys.readouterr().out)
    assert body == json.loads((tmp_path / "doctor.json").read_text("utf-8"))
    # It has no calibration, which is a warning at the least.
    assert code == ExitCode.OBJECTIVE
    assert "calibration" in [finding["check"] for finding in body["findings"]]
    failed = [f["seen"] for f in body["findings"] if f["seen"].startswith("the check failed")]
    assert failed == []
    assert len(body["checks"]) == len(CHECKS)
    assert not cache.exists()
    assert list(scratch.iterdir()) == []


def test_parts_that_cannot_be_seen_are_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> object:
        raise RuntimeError("the driver hangs\nand more")

    monkeypatch.setattr(cuda_look, "look", broken)
    assert main(["doctor", "--only", "cuda", "--json"]) == ExitCode.DONE
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["level"], finding["seen"]) == ("unknown", "RuntimeError: the driver hangs")


def test_an_unknown_check_or_machine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--only", "pci"]) == ExitCode.INPUT
    assert "did you mean pcie?" in capsys.readouterr().err
    assert main(["doctor", "--machine", "nonsense"]) == ExitCode.INPUT


def test_a_machine_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--machine", "h200-sxm-1", "--only", "pcie"]) == ExitCode.DONE
    assert "fine: pcie" in capsys.readouterr().out


def test_checks_complete() -> None:
    assert checks("gpu") == ["gpu-memory", "gpu-health"]
