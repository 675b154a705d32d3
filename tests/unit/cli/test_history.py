"""The verb `history`, and what `execute` does for it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode
from planner.review.history.store import Store, keep
from tests.helpers.golden import Golden
from tests.helpers.history import run_on

PLAN = str(Path(__file__).resolve().parents[3] / "plans" / "llm_load.yaml")
EXECUTE = ["execute", PLAN, "--backend", "null", "-q"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def count() -> int:
    with Store.open() as store:
        return store.count()


def test_execute_keeps_its_run_and_history_shows_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*EXECUTE[:-1], "--json"]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert main(["history", "show", "1", "--json"]) == ExitCode.DONE
    assert capsys.readouterr().out == printed


def test_execute_keeps_nothing_when_asked_not_to(state: Path) -> None:
    assert main([*EXECUTE, "--no-history"]) == ExitCode.DONE
    assert not state.exists()


def test_flows_over_one_hop_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """By name, in rows and drifts; where there is one flow nobody need read it."""
    for day in range(8):
        keep(run_on(day, plan="single"))
        run = run_on(day, plan="double")
        slow = run_on(day, rate=55e9 if day < 4 else 40e9).flows[0]
        keep(run.model_copy(update={"flows": (*run.flows, slow.model_copy(update={"name": "kv"}))}))
    assert main(["history", "--width", "200"]) == ExitCode.DONE
    page = capsys.readouterr().out
    rows = [line.split() for line in page.splitlines() if line.startswith("  host0 → gpu0")]
    assert sorted(row[4:6] for row in rows) == [
        ["double", "kv"],
        ["double", "weights"],
        ["single", "8"],
    ]
    assert "(−27.3 %), as kv of double shows" in page


def test_a_history_that_cannot_be_written_is_a_warning(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("a file where the folder should be", encoding="utf-8")
    assert main([*EXECUTE[:-1], "--width", "200"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "All 2 objectives met." in out
    assert f"! this run is not in the history: the history cannot be kept in {state}" in err


def test_a_damaged_history_is_a_warning_for_execute_and_3_for_history(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir()
    file = state / "history.sqlite3"
    file.write_bytes(b"not a database at all, but long enough to be read as one" * 10)
    before = file.read_bytes()
    assert main(EXECUTE[:-1]) == ExitCode.DONE
    assert f"mv {file} {file}.damaged" in capsys.readouterr().err
    assert main(["history"]) == ExitCode.INPUT
    assert file.read_bytes() == before


def test_numbers_beyond_what_a_database_counts_are_no_bug(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep(run_on(0))
    assert main(["history", "--latest", str(10**20)]) == ExitCode.DONE
    assert main(["history", "show", str(10**20)]) == ExitCode.INPUT
    assert main(["history", "forget", str(10**20), "--yes"]) == ExitCode.DONE
    assert "0 runs are forgotten." in capsys.readouterr().out
    # Python reads no number of more than some thousand digits.
    assert main(["history", "show", "9" * 5000]) == ExitCode.USAGE
    assert count() == 1


def test_the_page_of_a_link_that_fell(
    state: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(30):
        keep(run_on(day, rate=55e9 if day < 23 else 48e9, seconds=2.06 + day % 5 * 0.01))
    keep(run_on(29, plan="kv-cache", hour=13))
    assert main(["history"]) == ExitCode.DONE
    page = capsys.readouterr().out.replace(str(state), "<state>")
    golden.check("history/fallen.txt", page)
    assert main(["history", "--fail-on-drift", "-q"]) == ExitCode.REGRESSION
    assert capsys.readouterr().out == "1 of 6 trends drifted for the worse.\n"


def test_the_page_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(30):
        keep(run_on(day, rate=55e9 if day < 23 else 48e9))
    for width in (40, 60, 80):
        assert main(["history", "--width", str(width)]) == ExitCode.DONE
        lines = capsys.readouterr().out.splitlines()
        path = [line for line in lines if "history.sqlite3" in line]
        assert all(len(line) <= width for line in lines if line not in path)


def test_rows_of_several_machines_name_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    """One alone is named above the tables; of two the rows of a hop look alike without it."""
    keep(run_on(0, machine="first"))
    assert main(["history"]) == ExitCode.DONE
    page = capsys.readouterr().out
    assert page.startswith("1 run on first (cuda)")
    assert page.count("first") == 1
    keep(run_on(0, machine="second"))
    for width in (80, 100):
        assert main(["history", "--width", str(width)]) == ExitCode.DONE
        page = capsys.readouterr().out
        # The latest runs, the trends of the plan, and of its two hops.
        assert (page.count("first (cuda)"), page.count("second (cuda)")) == (4, 4)


def test_json_is_versioned(capsys: pytest.CaptureFixture[str]) -> None:
    keep(run_on(0))
    assert main(["history", "--json"]) == ExitCode.DONE
    body = json.loads(capsys.readouterr().out)
    assert (body["format"], body["runs"], len(body["trends"])) == ("planner.history/1", 1, 3)


def test_csv_has_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(run_on(0))
    keep(run_on(1))
    assert main(["history", "--csv", "-", "--link", "pcie0"]) == ExitCode.DONE
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["run"], row["measured"]) for row in rows] == [
        ("1", "55000000000.0"),
        ("2", "55000000000.0"),
    ]
    kept = tmp_path / "runs.csv"
    assert main(["history", "--csv", str(kept)]) == ExitCode.DONE
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 1 + 6


def test_runs_are_forgotten_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(4):
        keep(run_on(day))
    for arguments in (["forget"], ["forget", "2"], ["forget", "--all", "--plan", "llm-load"]):
        assert main(["history", *arguments]) == ExitCode.USAGE
    assert "with --yes" in capsys.readouterr().err
    assert main(["history", "forget", "2", "--yes"]) == ExitCode.DONE
    assert capsys.readouterr().out == "1 run is forgotten.\n"
    assert main(["history", "forget", "--before", "2026-10-21", "--yes"]) == ExitCode.DONE
    assert count() == 2
    assert main(["history", "forget", "--all", "--yes"]) == ExitCode.DONE
    assert count() == 0


def test_two_forms_of_the_answer_are_not_written_to_one_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep(run_on(0))
    assert main(["history", "--csv", "-", "--json"]) == ExitCode.USAGE
    assert "take one of them" in json.loads(capsys.readouterr().out)["message"]


def test_forgetting_has_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    keep(run_on(0))
    assert main(["history", "forget", "--all", "--yes", "--json"]) == ExitCode.USAGE
    assert "leave out --json" in json.loads(capsys.readouterr().out)["message"]
    assert count() == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["show", "one"],
        ["shaw", "1"],
        ["--since", "yesterday"],
        ["--before", "2026-01-01"],
        ["--yes"],
        ["forget", "--link", "pcie0", "--yes"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    keep(run_on(0))
    assert main(["history", *arguments]) == ExitCode.USAGE
    assert capsys.readouterr().out == ""
    assert count() == 1
