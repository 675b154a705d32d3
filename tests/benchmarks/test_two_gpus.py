"""Two GPUs, emulated where there is none: every case has its row, and checks come from rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import two_gpus
from benchmarks.two_gpus import CASES, checks, errors
from planner.machine.schema import Machine
from tests.helpers.machines import two_gpus as two_gpu_machine


def test_without_a_gpu_two_are_emulated_and_every_case_has_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[dict[str, Any]] = []

    def here(**words: Any) -> Machine:
        wanted.append(words)
        return two_gpu_machine()

    backends: list[str] = []

    def run(name: str, _flows: Any, options: Any) -> dict[str, Any]:
        backends.append(options.backend)
        return {"case": name, "failed": "not run here"}

    def no_gpu(_size: int) -> dict[str, list[float]]:
        raise ModuleNotFoundError("No module named 'cupy'")

    monkeypatch.setattr(two_gpus, "backend_name", lambda _name: "host")
    monkeypatch.setattr(two_gpus, "here", here)
    monkeypatch.setattr(two_gpus, "_run", run)
    monkeypatch.setattr(two_gpus, "raw_peer_copies", no_gpu)
    out = tmp_path / "two.json"
    monkeypatch.setattr("sys.argv", ["two_gpus.py", "--out", str(out)])
    assert two_gpus.main() == 0
    assert [(words["backend"], words["emulate_gpus"]) for words in wanted] == [("host", 2)]
    assert set(backends) == {"host"}
    assert [row["case"] for row in json.loads(out.read_text())["rows"]] == list(CASES)


def test_a_case_takes_as_long_as_its_longest_flow() -> None:
    a = {"measured_s": 2.0, "predicted_s": 1.5}
    b = {"measured_s": 1.0, "predicted_s": 1.6}
    # Both have arrived after 2.0 s, and were to have after 1.6 s.
    row = {"case": "two pinned", "flows": [a, b], "makespan_s": 2.1}
    assert errors([row, {"case": "peer", "failed": "no way"}]) == {
        "two pinned, times the predicted time": pytest.approx(2.0 / 1.6)
    }


def test_shares_of_raw_copies_are_of_cases_that_ran() -> None:
    rows = [{"case": "peer", "flows": [{"measured_s": 0.25, "predicted_s": 0.25}]}]
    found = checks(rows, {"peer": [0.1, 0.2, 0.9], "driver": [2.0]})
    assert found["peer, share of the raw peer copy"] == pytest.approx(0.2 / 0.25)
    assert not [text for text in found if text.startswith("through host")]
