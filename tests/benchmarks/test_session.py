"""A session of benchmarks: each step has its time, and none of them ends the others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from benchmarks import session
from benchmarks.record import Clock
from benchmarks.session import ROOT, SESSIONS, Session, Step

STEPS = {step.words: step for steps in SESSIONS.values() for step in steps}


def program(folder: Path, text: str) -> str:
    """A step's words for a program of our own."""
    path = folder / f"own{len(list(folder.glob('own*')))}.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def session_of(folder: Path, seconds: float, wheels: Path | None = None) -> Session:
    return Session(folder, Clock(seconds), wheels, folder / "machine.yaml")


def test_a_step_gets_its_places_and_what_is_left(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys; print(*sys.argv[1:])") + " {results} --of {machine}"
    assert session_of(tmp_path, 50.0).run(Step("a", words, 100.0)) == "done"
    said = (tmp_path / "a.log").read_text().split()
    assert said[:3] == [str(tmp_path), "--of", str(tmp_path / "machine.yaml")]
    # What is left is up to 50 s, of which 10 are kept for its last words.
    assert said[3] == "--budget"
    assert 35 <= int(said[4]) <= 40


def test_a_step_has_no_more_than_its_share(tmp_path: Path) -> None:
    words = program(tmp_path, "import sys; print(*sys.argv[1:])")
    step = Step("a", words, 30.0, budget="--seconds")
    assert session_of(tmp_path, 500.0).run(step) == "done"
    assert (tmp_path / "a.log").read_text() == "--seconds 20\n"


def test_a_step_that_fails_says_so_with_its_last_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = program(tmp_path, "import sys; print('out'); sys.exit('no such file')")
    assert session_of(tmp_path, 50.0).run(Step("a", words, 30.0)).startswith("failed with 1 (")
    assert capfd.readouterr().out == "out\nno such file\n"


def test_a_step_that_outlives_its_share_keeps_what_it_has(tmp_path: Path) -> None:
    words = program(
        tmp_path,
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('begun', flush=True)\n"
        "try: time.sleep(60)\n"
        "finally: print('written down')\n",
    )
    begun = monotonic()
    step = Step("a", words, 1.5, least=1.0, budget=None)
    assert session_of(tmp_path, 50.0).run(step) == "ended after 2 s"
    assert monotonic() - begun < 30
    assert (tmp_path / "a.log").read_text() == "begun\nwritten down\n"


def test_a_step_that_does_not_listen_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GRACE_S", 0.5)
    words = program(
        tmp_path,
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n",
    )
    begun = monotonic()
    step = Step("a", words, 1.0, least=0.5, budget=None)
    assert session_of(tmp_path, 50.0).run(step) == "ended after 1 s"
    assert monotonic() - begun < 30


def test_what_cannot_be_done_is_skipped(tmp_path: Path) -> None:
    words = program(tmp_path, "print('ran')")
    short = session_of(tmp_path, 10.0).run(Step("a", words, 100.0, least=60.0))
    assert re.fullmatch(r"skipped: 10 s left, it takes 60", short)
    assert session_of(tmp_path, 50.0).run(Step("a", words + " {wheels}", 30.0)) == (
        "skipped: it needs --wheels"
    )
    assert not (tmp_path / "a.log").exists()


def test_a_calibration_that_is_kept_is_not_made_again(tmp_path: Path) -> None:
    own = session_of(tmp_path, 50.0)
    kept = tmp_path / "machine.yaml"
    kept.write_text("    by: planner calibrate --full\n", encoding="utf-8")
    assert own.run(session.CALIBRATE) == "done before"
    assert own.run(session.QUICKLY) == "done before"
    # A quick one is not what a session wants that begins with a full one.
    kept.write_text("    by: planner calibrate\n", encoding="utf-8")
    assert own.run(session.QUICKLY) == "done before"
    assert re.fullmatch(r"skipped: 50 s left, it takes 150", own.run(session.CALIBRATE))
    assert not (tmp_path / "calibrate.log").exists()


def test_a_calibration_is_kept_in_both_places_or_in_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PLANNER_CACHE_DIR", raising=False)
    words = ["calibrate", "--results", str(tmp_path), "--machine", str(tmp_path / "m.yaml")]
    monkeypatch.setattr(sys, "argv", ["session.py", *words])
    assert session.main() == 2
    assert capsys.readouterr().err.startswith("--machine needs PLANNER_CACHE_DIR")
    monkeypatch.setenv("PLANNER_CACHE_DIR", "")  # counts as none, as it does for the program
    assert session.main() == 2
    assert capsys.readouterr().err.startswith("--machine needs PLANNER_CACHE_DIR")


def test_a_machine_file_of_somebody_s_own_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    own = tmp_path / "m.yaml"
    own.write_text("    by: hand\n", encoding="utf-8")
    words = ["calibrate", "--results", str(tmp_path), "--machine", str(own)]
    monkeypatch.setattr(sys, "argv", ["session.py", *words])
    assert session.main() == 2
    assert "is no calibration and would be replaced" in capsys.readouterr().err
    assert own.read_text(encoding="utf-8") == "    by: hand\n"


@pytest.mark.parametrize("words", STEPS)
def test_every_step_is_a_command_line_that_its_program_knows(words: str) -> None:
    step = STEPS[words]
    first, *others = step.words.split()
    module = ["-m", first, *(others[:1] if first == "planner" else ())]
    start = [first] if first.endswith(".py") else module
    said = subprocess.run(
        [sys.executable, *start, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    options = (word for word in (*others, step.budget or "") if word.startswith("-"))
    wanted = {word.partition("=")[0] for word in options}
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))
    assert wanted <= known, wanted - known


@pytest.mark.parametrize("name", SESSIONS)
def test_the_steps_of_a_session_write_to_files_of_their_own(name: str) -> None:
    steps = SESSIONS[name]
    assert len({step.name for step in steps}) == len(steps)
    for step in steps:
        written = [word for word in step.words.split() if "{results}" in word]
        own = step.words.startswith("benchmarks/")
        assert written == ([f"{{results}}/{step.name}.json"] if own else [])
