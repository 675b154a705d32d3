"""Stages that were made before: a search, and a sweep the more, asks for the same ones again.

A stage is told by its figures: numbers, names, and the very objects that hold the curves. Those
stay alive with the entry, so that nothing else can have their identity meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from planner.model.stage import Stage

MOST: Final = 8192
"""Stages that are remembered; a sweep of sizes needs some hundred."""


class Remembered:
    """Stages by their figures, all forgotten where they are too many."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Stage, tuple[object, ...]]] = {}

    def stage(
        self, figures: Hashable, holders: tuple[object, ...], make: Callable[[], Stage]
    ) -> Stage:
        """The stage of the `figures` and of the identities of the `holders`."""
        key = (figures, *map(id, holders))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = (make(), holders)
        return found[0]
