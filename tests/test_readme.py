"""The README tells the truth: its commands run, its transcripts and its table are what is printed.

`console` blocks are compared with what the command prints, and rewritten by `make golden`; `sh`
blocks must end well; `python` blocks must run; a `yaml FILE` block shows that file.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from planner.cli.app import EPILOG
from planner.errors import ExitCode
from planner.report.schema import KINDS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(
    r"^```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
EXIT = re.compile(r"\s+# exit (\d+)$")


class Command(NamedTuple):
    """A command line of the README, and the exit code that it says."""

    line: str
    code: int


def blocks(kind: str) -> list[re.Match[str]]:
    return [m for m in BLOCK.finditer(README.read_text(encoding="utf-8")) if m["kind"] == kind]


def command(line: str) -> Command:
    found = EXIT.search(line)
    return Command(EXIT.sub("", line), int(found[1]) if found else 0)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plans, where commands may leave files."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "plans").symlink_to(ROOT / "plans")
    return folder


def run(wanted: Command, folder: Path) -> str:
    """What the command prints to stdout; its exit code must be the one that the README says."""
    words = shlex.split(wanted.line)
    assert words[0] == "planner", f"only planner is shown: {wanted.line}"
    done = subprocess.run(
        [sys.executable, "-m", "planner", *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        timeout=300,
    )
    assert done.returncode == wanted.code, f"{wanted.line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_transcripts_are_what_is_printed(
    checkout: Path, request: pytest.FixtureRequest
) -> None:
    text = README.read_text(encoding="utf-8")
    found = blocks("console")
    assert found
    for block in reversed(found):
        line, *shown = block["body"].splitlines()
        assert line.startswith("$ "), "one command a console block"
        printed = run(command(line[2:]), checkout).rstrip("\n").splitlines()
        if request.config.getoption("--update-golden"):
            body = "\n".join([line, *printed, ""])
            text = text[: block.start("body")] + body + text[block.end("body") :]
        else:
            assert shown == [row.rstrip() for row in printed]
    README.write_text(text, encoding="utf-8")


def test_the_commands_end_well(checkout: Path) -> None:
    lines = [
        line
        for block in blocks("sh")
        if block["info"].strip() != "skip"
        for line in block["body"].splitlines()
    ]
    assert len(lines) >= 3
    for line in lines:  # in order: a later one reads what an earlier one saved
        run(command(line), checkout)


def test_the_python_runs(checkout: Path) -> None:
    for block in blocks("python"):
        subprocess.run(
            [sys.executable, "-c", block["body"]],
            check=True,
            capture_output=True,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
        )


def test_the_plan_shown_is_the_plan(request: pytest.FixtureRequest) -> None:
    text = README.read_text(encoding="utf-8")
    for block in reversed(blocks("yaml")):
        wanted = (ROOT / block["info"].strip()).read_text(encoding="utf-8")
        if request.config.getoption("--update-golden"):
            text = text[: block.start("body")] + wanted + text[block.end("body") :]
        else:
            assert block["body"] == wanted
    README.write_text(text, encoding="utf-8")


def test_the_table_of_exit_codes_is_the_one_of_the_code_and_of_the_help() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(code) for code, _ in rows] == [int(code) for code in ExitCode]
    listed = dict(re.findall(r"^ +(\d+)  (.+)$", EPILOG, re.MULTILINE))
    plain = {code: text.replace("`", "") for code, text in rows}
    assert plain == listed


def test_the_files_that_it_links_to_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_schema_is_offered() -> None:
    assert {path.name.split(".")[0] for path in (ROOT / "docs" / "schema").iterdir()} == set(KINDS)
