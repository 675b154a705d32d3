"""Reads by the C library's threads whatever the shape, so that tests can be small."""

from __future__ import annotations

import pytest

from planner import native
from planner.engine import dispatch
from planner.engine.aio import Reads


def everywhere(monkeypatch: pytest.MonkeyPatch) -> list[Reads]:
    """Let every shape read so; returns who has read, for the test to look at."""
    monkeypatch.setattr(native, "FEWEST", 1)
    monkeypatch.setattr(native, "MANY", 1)
    monkeypatch.setattr(native, "LEAST_CHUNK", 1)
    used: list[Reads] = []
    run = dispatch.Dispatcher.run

    def noting(self: dispatch.Dispatcher) -> None:
        used.append(self._reads)
        run(self)

    monkeypatch.setattr(dispatch.Dispatcher, "run", noting)
    return used
