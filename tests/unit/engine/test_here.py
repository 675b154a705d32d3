"""This computer's calibration is kept, read again, and never trusted when damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.engine import calibrate as calibration
from planner.engine.calibration.ledger import Ledger
from planner.engine.calibration.rounds import Cell
from planner.engine.folder import cache_folder
from planner.engine.here import _path, age, here, mend
from planner.errors import InputError
from planner.machine.load import load_machine
from planner.machine.schema import Disk, Hbm, Machine


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None: ...

    def advance(self, flow: str, done_bytes: int) -> None: ...

    def finish(self, flow: str, seconds: float) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


def _emulated(count: int) -> Machine:
    """A machine with so many emulated GPUs."""
    machine = load_machine("h200-sxm-1")
    gpu = machine.nodes["gpu0"]
    assert isinstance(gpu, Hbm)
    others = {name: node for name, node in machine.nodes.items() if name != "gpu0"}
    gpus = {f"gpu{k}": gpu.model_copy(update={"emulated": True}) for k in range(count)}
    return machine.model_copy(update={"nodes": {**others, **gpus}, "links": {}})


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The numbers of emulated GPUs that calibrations were asked for, in order."""
    asked: list[int | None] = []

    def calibrate(*, emulate_gpus: int | None = None, **_rest: object) -> Machine:
        asked.append(emulate_gpus)
        return _emulated(emulate_gpus or 1)

    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "calibrate", calibrate)
    return asked


def _kept() -> Path:
    (found,) = cache_folder().glob("here-*.json")
    return found


def test_a_calibration_holds_for_the_gpus_that_were_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    files = {}
    for visible in (None, "1", "1,0"):
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        files[visible] = _path("cuda"), _path("host")
    assert len({cuda for cuda, _ in files.values()}) == 3
    assert len({host for _, host in files.values()}) == 1  # emulated GPUs are not CUDA's


def test_the_second_call_reads_what_the_first_measured(calls: list[int | None]) -> None:
    listener = Listener()
    first = here(backend="host")
    second = here(backend="host", progress=listener)
    assert first == second
    assert calls == [None]
    assert len(listener.notes) == 1
    assert listener.notes[0].startswith("this computer, calibrated ")
    assert listener.notes[0].endswith(" ago")


def test_scratch_files_go_where_temporary_files_go_now(
    calls: list[int | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = _emulated(1)
    disk = machine.nodes["disk0"].model_copy(update={"path": "/somewhere/else"})
    placed = machine.model_copy(update={"nodes": {**machine.nodes, "disk0": disk}})
    monkeypatch.setattr(calibration, "calibrate", lambda **_: placed)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    here(backend="host")
    found = here(backend="host").nodes["disk0"]
    assert isinstance(found, Disk)
    assert found.path == str(tmp_path)
    assert calls == []


def test_recalibrating_measures_again(calls: list[int | None]) -> None:
    here(backend="host")
    here(backend="host", recalibrate=True)
    assert len(calls) == 2


def test_emulated_gpus_stay_until_another_number_is_asked_for(calls: list[int | None]) -> None:
    here(backend="host", emulate_gpus=2)
    assert "gpu1" in here(backend="host").nodes
    assert "gpu1" in here(backend="host", emulate_gpus=2).nodes
    assert calls == [2]
    assert "gpu1" not in here(backend="host", emulate_gpus=1).nodes
    assert calls == [2, 1]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"machine": {}, "calibrated_at_s": 1}'])
def test_a_damaged_file_is_measured_anew_and_said(calls: list[int | None], damage: str) -> None:
    first = here(backend="host")
    _kept().write_text(damage, encoding="utf-8")
    listener = Listener()
    assert here(backend="host", progress=listener) == first
    assert len(calls) == 2
    assert "is damaged" in listener.notes[0]
    assert str(_kept()) in listener.notes[0]
    assert json.loads(_kept().read_text(encoding="utf-8"))["machine"]["name"] == first.name


def test_nothing_is_left_beside_the_calibration_and_its_lock(calls: list[int | None]) -> None:
    here(backend="host")
    assert sorted(path.suffix for path in cache_folder().iterdir()) == [".json", ".lock"]
    assert calls


def test_a_cache_that_cannot_be_written_is_no_error(
    calls: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(blocked))
    listener = Listener()
    assert here(backend="host", progress=listener).nodes
    assert "cannot be kept" in listener.notes[-1]
    assert "it is no folder" in listener.notes[-1]
    assert "PLANNER_CACHE_DIR" in listener.notes[-1]
    assert calls == [None]


def test_that_it_cannot_be_kept_is_said_where_nobody_watches_too(
    calls: list[int | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert here(backend="host").nodes
    assert calls
    (told,) = caplog.messages
    assert "it is no folder; until PLANNER_CACHE_DIR names" in told


def test_the_cache_follows_xdg_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PLANNER_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "planner"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "planner"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (119, "1 minute"),
        (7200, "2 hours"),
        (86400 * 3.5, "3 days"),
        (-5, "0 seconds"),  # a clock that was set back
    ],
)
def test_ages(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_a_full_calibration_keeps_its_samples_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: list[list[str]] = []

    def interrupted(*, ledger: Ledger, full: bool, **_rest: object) -> Machine:
        assert full
        had.append(list(ledger.groups))
        ledger.keep(f"part {len(had)}", [Cell(("x", 1), None, clean=[1.0])], "2026-11-29")
        if len(had) < 3:
            raise KeyboardInterrupt
        return _emulated(1)

    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "calibrate", interrupted)
    listener = Listener()
    for resume in (False, False):
        with pytest.raises(KeyboardInterrupt):
            here(backend="host", full=True, recalibrate=True, resume=resume, progress=listener)
    # The second one gave up what the first had finished; the third goes on with the second's.
    here(backend="host", full=True, recalibrate=True, resume=True, progress=listener)
    assert had == [[], [], ["part 2"]]
    assert any("--resume goes on" in note for note in listener.notes)
    assert any("is given up" in note for note in listener.notes)
    kept = {path.name.split("-")[0] for path in cache_folder().glob("*.json")}
    assert kept == {"here", "samples"}


def test_a_link_of_a_computer_that_was_never_calibrated_cannot_be_mended(
    calls: list[int | None],
) -> None:
    with pytest.raises(InputError, match="not calibrated"):
        mend("pcie0", backend="host")
    assert calls == []


def test_a_mended_link_is_kept(calls: list[int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    here(backend="host")

    def again(machine: Machine, link: str, **_rest: object) -> Machine:
        return machine.model_copy(update={"description": f"{link} again"})

    monkeypatch.setattr(calibration, "recalibrate_link", again)
    assert mend("pcie0", backend="host").description == "pcie0 again"
    assert here(backend="host").description == "pcie0 again"
    assert calls == [None]
