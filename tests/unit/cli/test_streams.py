"""Streams that are full, closed or cannot spell: one line and an exit code, never a traceback."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.streams import OutputError, Stream
from planner.errors import ExitCode

ROOT = Path(__file__).resolve().parents[3]
FULL = "error: cannot write to stdout: No space left on device\n"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`line` in bash, where `planner` is this checkout's."""
    script = f'planner() {{ "{sys.executable}" -m planner "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "--version", "schema --of plan", "check no --json"])
def test_a_full_stdout_is_one_line(words: str, buffered: str) -> None:
    done = shell(f"planner {words} >/dev/full", PYTHONUNBUFFERED=buffered)
    assert (done.returncode, done.stderr) == (ExitCode.FAILED, FULL)


def test_a_closed_stdout_is_one_line() -> None:
    done = shell("planner schema --of plan >&-")
    told = "error: cannot write to stdout: it is closed\n"
    assert (done.returncode, done.stderr) == (ExitCode.FAILED, told)


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "2> >(exec true)"])
def test_an_error_that_nobody_hears_keeps_its_code(where: str) -> None:
    done = shell(f"planner check no-such-plan.yaml {where}")
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INPUT, "", "")


def test_a_reader_that_leaves_early_is_quiet_in_json_too() -> None:
    done = shell("planner schema --of run --json | head -c 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


def test_what_the_encoding_lacks_is_spelled_as_json_does() -> None:
    inner = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    stream = Stream(inner, must=True)
    assert stream.write("5 µs 😀") == 6
    stream.flush()
    # U+1F600 is the surrogate pair D83D DE00.
    assert inner.buffer.getvalue() == rb"5 \u00b5s \ud83d\ude00"


def test_a_file_closed_meanwhile_is_told() -> None:
    inner = io.StringIO()
    inner.close()
    with pytest.raises(OutputError, match="closed file"):
        Stream(inner, must=True).write("x")
    assert Stream(inner, must=False).write("x") == 1
    assert not Stream(None, must=True).isatty()


@pytest.mark.parametrize(
    "words", [["\udcff"], ["check", "a\udcff.yaml"], ["check", "--set", "\udcff=1"]]
)
def test_words_that_are_no_text_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    assert "is not UTF-8" in capsys.readouterr().err


def test_the_file_to_rename_is_named_as_a_shell_spells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.yaml"
    Path(os.fsdecode(name)).write_text("version: 1\n", encoding="utf-8")
    assert main(["check", os.fsdecode(name)]) == ExitCode.USAGE
    assert r'caf\xe9.yaml" is not UTF-8; rename the file' in capsys.readouterr().err
