"""The page of the model shows what the model says today."""

from __future__ import annotations

from pathlib import Path

from benchmarks import extra_cases, public_cases, published_rows, published_tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "model.md"


def shown() -> set[str]:
    return set(PAGE.read_text(encoding="utf-8").splitlines())


def test_the_cases_are_those_of_today() -> None:
    assert set(public_cases.markdown(list(public_cases.outcomes()))) <= shown()


def test_the_further_observations_are_those_of_today() -> None:
    assert set(extra_cases.markdown(extra_cases.extras())) <= shown()


def test_the_tables_are_those_of_today() -> None:
    assert set(published_tables.markdown(list(published_rows.every_row()))) <= shown()
