"""The verb `topo`: what it prints, saves and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import main
from planner.engine import observe
from planner.errors import ExitCode
from planner.machine.load import load_machine
from tests.helpers import seen

PLAN = str(Path(__file__).resolve().parents[3] / "plans" / "gpu_to_gpu.yaml")


def test_json_on_stdout_and_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "topo.json"
    assert main(["topo", PLAN, "--json", "-o", str(kept)]) == ExitCode.DONE
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(kept.read_text("utf-8"))
    assert printed["format"] == "planner.topo/1"
    assert [link["name"] for link in printed["links"]] == ["storage0", "pcie0", "pcie1", "nvlink0"]
    forward = load_machine("h200-sxm-2").links["nvlink0"].forward
    assert forward is not None
    assert printed["links"][3]["ways"][0]["rate_bytes_per_s"] == forward.rate


def test_the_tree_and_the_quiet_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", "--machine", "h200-sxm-2", "--view", "tree"]) == ExitCode.DONE
    assert "└─ gpu1" in capsys.readouterr().out
    assert main(["topo", "--machine", "h200-sxm-2", "-q"]) == ExitCode.DONE
    assert capsys.readouterr().out == "4 places, 4 links: 4 measured.\n"


def test_this_computer_without_a_calibration_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["topo"]) == ExitCode.DONE
    assert "nothing was measured" in capsys.readouterr().out
    assert not (tmp_path / "cache").exists()


def test_a_part_that_cannot_be_seen_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_backend: str) -> object:
        raise OSError("the cache is gone")

    monkeypatch.setattr(observe, "calibrations", broken)
    assert main(["topo", "--width", "200"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "not looked at: calibration: OSError: the cache is gone" in out
    assert "host0" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--machine", "nonsense"], ExitCode.INPUT),
        (["nothing.yaml"], ExitCode.INPUT),
        (["--view", "graph"], ExitCode.USAGE),
    ],
)
def test_what_is_wrong_is_refused(
    arguments: list[str], code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", *arguments]) == code
    assert capsys.readouterr().err


def test_the_example_of_a_calibrated_computer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observe, "observe", lambda _parts: seen.observation())
    assert main(["topo"]) == ExitCode.DONE
    assert "measured 2026-11-29" in capsys.readouterr().out
