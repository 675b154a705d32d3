"""The workflow in the documentation is YAML, and every command in it is one that planner takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cli.app import VERBS, command

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORKFLOW = DOCS / "ci" / "planner.yml"
PAGE = DOCS / "ci.md"
WRITES = {"-o", "--markdown", "--junit"}


def steps() -> list[dict[str, Any]]:
    document = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    # YAML 1.1 reads the key `on` as true; GitHub does not.
    assert set(document) == {"name", True, "permissions", "jobs"}
    return [step for job in document["jobs"].values() for step in job["steps"]]


def commands(text: str) -> list[list[str]]:
    """The words of every call of planner in a shell text, up to what the shell does with it."""
    calls = re.findall(r"(?:^|`)\s*planner ([^`\n]*)", text, re.MULTILINE)
    found = []
    for call in calls:
        words = shlex.split(call, comments=True)
        ends = [k for k, word in enumerate(words) if word in ("||", "|", ">>", "&&")]
        found.append(words[: ends[0]] if ends else words)
    return found


def in_workflow() -> list[list[str]]:
    return [words for step in steps() for words in commands(step.get("run", ""))]


def in_page() -> list[list[str]]:
    return [words for words in commands(PAGE.read_text(encoding="utf-8")) if len(words) > 1]


def test_the_workflow_predicts_compares_and_posts() -> None:
    assert [words[0] for words in in_workflow()] == ["check", "estimate", "estimate", "diff"]
    assert all("run" in step or "uses" in step for step in steps())


@pytest.mark.parametrize("words", [*in_workflow(), *in_page()], ids=" ".join)
def test_every_command_is_understood(words: list[str]) -> None:
    verb, *rest = words
    assert verb in VERBS
    # Parses the options and arguments, and calls nothing.
    command(verb).make_context(verb, rest).close()


def test_what_is_written_is_what_is_read() -> None:
    written: set[str] = set()
    for words in in_workflow():
        written |= {
            words[k + 1] for k, w in enumerate(words) if w in ("-o", "--markdown", "--junit")
        }
        if words[0] == "diff":
            assert set(words[1:3]) <= written
    for step in steps():
        for name in re.findall(r"\b[\w-]+\.md\b", step.get("run", "")):
            assert name in written


def test_the_page_links_to_what_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", PAGE.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (DOCS / link).exists()] == []
