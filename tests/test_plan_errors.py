"""Every bad plan under `tests/golden/errors` gets its faults: place, marks, words, suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.plan import yaml_nodes
from tests.helpers.plan_errors import DIRECTORY, faults_of, read_case

CASES = sorted(DIRECTORY.glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_bad_plan_is_told_where_and_how_to_mend_it(path: Path, tmp_path: Path) -> None:
    case = read_case(path)
    assert case.faults, f"{path} expects no fault: it is no error case"
    assert faults_of(case, tmp_path) == case.faults


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_parser_without_the_c_library_finds_the_same_faults(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only syntax errors may stand a little elsewhere: each parser stops where it notices."""
    monkeypatch.setattr(yaml_nodes, "_LOADER", yaml.SafeLoader)
    case = read_case(path)
    found = faults_of(case, tmp_path)
    if path.stem.startswith(("syntax_", "template_")):
        assert len(found) == len(case.faults)
    else:
        assert found == case.faults


def test_no_message_speaks_the_language_of_the_schema_library() -> None:
    jargon = ("Input should", "validation error", "pydantic", "extra_forbidden", "valid dictionary")
    for path in CASES:
        text = path.read_text(encoding="utf-8")
        assert not [word for word in jargon if word in text], path.name


def test_cases_cover_what_people_get_wrong() -> None:
    """At least one case each for reading, including, filling in, typing, naming and files."""
    names = {path.stem for path in CASES}
    assert names >= {
        "bits_for_bytes",
        "duplicate_key",
        "file_short",
        "include_cycle",
        "not_utf8",
        "syntax_brace",
        "unknown_key",
        "unknown_node",
        "variable_cycle",
    }
