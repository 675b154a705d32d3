"""What loads and transfers must not leave."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import planner
from tests.helpers.left import nothing_left


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No calibration that another test kept; nothing of a load is left once its tensors are."""
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    with nothing_left(tmp_path):
        yield
        gc.collect()


@pytest.fixture
def pool(alone: None) -> Iterator[planner.Loader]:  # noqa: ARG001
    """A loader of its own, which is closed before anything left is looked for."""
    with planner.Loader(backend="host") as found:
        yield found
