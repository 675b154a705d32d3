"""The verb `calibrate`: a full calibration that is kept is not lost to a quick one unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.cli import main
from planner.engine import calibrate as calibration, here as kept_here
from planner.errors import ExitCode
from planner.machine.load import load_machine
from planner.machine.made import FULL, QUICK, full_day
from planner.machine.schema import Machine

Calls = list[bool]


def made_by(by: str) -> Machine:
    """A machine whose numbers come from such a calibration."""
    machine = load_machine("h200-sxm-1")
    name, source = next(iter(machine.sources.items()))
    changed = source.model_copy(update={"by": by, "when": "2026-11-28"})
    return machine.model_copy(update={"sources": {**machine.sources, name: changed}})


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """For each calibration whether it was a full one; none takes any time."""
    asked: Calls = []

    def calibrate(*, full: bool = False, **_rest: object) -> Machine:
        asked.append(full)
        return made_by(FULL if full else QUICK)

    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "calibrate", calibrate)
    monkeypatch.setattr(kept_here, "plan_usual", lambda *_given: None)
    return asked


def calibrate(*words: str) -> int:
    return main(["calibrate", "--backend", "host", *words])


def kept_day() -> str | None:
    """The day of the full calibration that is kept, `None` where a quick one is."""
    machine = kept_here.kept("host")
    assert machine is not None
    return full_day(machine)


def test_a_quick_calibration_does_not_replace_a_full_one(
    calls: Calls, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate("--full", "-q") == ExitCode.DONE
    capsys.readouterr()
    assert calibrate() == ExitCode.INPUT
    told = " ".join(capsys.readouterr().err.split())
    assert "a full calibration of 2026-11-28, which a quick one would replace" in told
    for way_out in ("--full measures", "--link LINK", "-o FILE", "--overwrite"):
        assert way_out in told
    assert calibrate("--json") == ExitCode.INPUT
    assert json.loads(capsys.readouterr().out)["exit_code"] == ExitCode.INPUT
    assert calls == [True]
    assert kept_day() == "2026-11-28"


def test_a_quick_one_goes_into_a_file_beside_it(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrate("--full", "-q")
    capsys.readouterr()
    file = tmp_path / "quick.yaml"
    assert calibrate("-o", str(file)) == ExitCode.DONE
    assert "the full calibration of 2026-11-28 stays" in capsys.readouterr().err
    assert load_machine(str(file)).source_of().by == QUICK
    assert calls == [True, False]
    assert kept_day() == "2026-11-28"


def test_it_is_replaced_by_who_says_so_and_by_a_full_one(calls: Calls) -> None:
    assert calibrate("--full", "-q") == ExitCode.DONE
    assert calibrate("--full", "-q") == ExitCode.DONE
    assert calibrate("--overwrite", "-q") == ExitCode.DONE
    assert calls == [True, True, False]
    assert kept_day() is None


def test_a_quick_one_replaces_a_quick_one(calls: Calls) -> None:
    assert calibrate("-q") == calibrate("-q") == ExitCode.DONE
    assert calls == [False, False]


def test_another_folder_is_measured_beside_a_full_one(calls: Calls, tmp_path: Path) -> None:
    calibrate("--full", "-q")
    assert calibrate("--scratch", str(tmp_path), "-q") == ExitCode.DONE
    assert calls == [True, False]
    assert kept_day() == "2026-11-28"
