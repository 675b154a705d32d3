"""Reads by the C library's threads whatever the shape, so that tests can be small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from planner import native
from planner.engine import dispatch
from planner.engine.aio import Read, Reads


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


def ending(monkeypatch: pytest.MonkeyPatch, outcomes: Mapping[int, int]) -> None:
    """Let the reads of some chunks come to outcomes of our own, as `Reads.finished` tells them.

    Chunks are asked for by their numbers; they are counted in each movement.
    """
    begin, finished = Reads.begin, Reads.finished
    chunks: dict[tuple[Reads, int, int], int] = {}
    asked: Counter[Reads] = Counter()

    def begun(self: Reads, worker: int, slot: int, read: Read) -> None:
        chunks[self, worker, slot] = asked[self]
        asked[self] += 1
        begin(self, worker, slot, read)

    def ended(self: Reads, worker: int) -> tuple[int, int] | None:
        found = finished(self, worker)
        if found is None:
            return None
        slot, done = found
        return slot, outcomes.get(chunks[self, worker, slot], done)

    monkeypatch.setattr(Reads, "begin", begun)
    monkeypatch.setattr(Reads, "finished", ended)
