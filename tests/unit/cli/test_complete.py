"""What a shell is offered after Tab, asked as its script does, without a shell."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.app import VERBS, command
from planner.cli.entry import COMPLETING
from planner.cli.manual import CODES, EXAMPLES
from planner.errors import ExitCode
from planner.review.history.store import keep
from tests.helpers.history import run_on

Offered = Callable[[str], list[str]]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """What is offered for a line whose last word is being typed."""

    def ask(line: str) -> list[str]:
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv(COMPLETING, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit) as ended:
            main([])
        assert ended.value.code == 0
        return capsys.readouterr().out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("planner est", {"estimate"}),
        ("planner estimate plans/llm", {"plans/llm_load.yaml"}),
        ("planner estimate pla", {"plans/", "planner/"}),
        ("planner execute plans/kv_cache_offload.yaml --only ", {"fetch", "offload"}),
        ("planner estimate plans/llm_load.yaml --set w", {"weights="}),
        ("planner estimate plans/llm_load.yaml --set links.p", {"links.pcie0.rate="}),
        ("planner estimate plans/llm_load.yaml --set flows.weights.ch", {"flows.weights.chunk="}),
        ("planner estimate plans/llm_load.yaml --machine he", {"here"}),
        ("planner execute plans/llm_load.yaml --backend n", {"null"}),
        ("planner history fo", {"forget"}),
        ("planner estimate nowhere.yaml --only ", set()),
    ],
)
def test_what_fits_is_offered(offered: Offered, line: str, wanted: set[str]) -> None:
    assert set(offered(line)) == wanted


def test_names_of_the_history_are_offered(
    offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path))
    keep(run_on(0))
    keep(run_on(0, plan="kv-cache"))
    assert offered("planner history --plan ") == ["llm-load", "kv-cache"]
    assert offered("planner history --link pc") == ["pcie0"]
    assert offered("planner history show ") == ["2", "1"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", shell]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert COMPLETING in out
    assert f"complete_{shell}" in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_that_name_what_it_has(verb: str) -> None:
    options = {name for parameter in command(verb).params for name in parameter.opts}
    assert EXAMPLES[verb]
    for line, _ in EXAMPLES[verb]:
        words = shlex.split(line)
        assert words[:2] == ["planner", verb]
        assert {word for word in words if word.startswith("-")} <= options


def test_the_codes_of_the_manual_are_those_of_the_program() -> None:
    assert list(CODES) == [int(code) for code in ExitCode]
