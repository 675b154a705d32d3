"""Where runs of the engine put what they need, and what they must not leave."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.left import nothing_left


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where scratch goes; after each test it is empty, and nothing else of a run is left."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with nothing_left(tmp_path):
        yield folder
    assert list(folder.iterdir()) == []
    assert not list(tmp_path.glob(".*"))  # a save's file has such a name until it is whole
