"""Samples in rounds: all cells once, then all again, in an order shuffled with a fixed seed.

A loop over one cell sees one moment of the machine; rounds spread what disturbs them over all
cells. Samples that something else disturbed are taken again at the end, at most twice each. What
disturbs only ever slows down, so where every sample was disturbed the fastest counts, and the cell
is marked.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.engine.calibration.noise import watch
from planner.engine.calibration.statistics import Summary, summary

SEED: Final = 20261129
"""Of the order of the cells: the same in every calibration, so that two of them compare."""
REDO: Final = 2
"""Times that the disturbed samples of a cell are taken again."""


@dataclass(slots=True)
class Cell:
    """One thing to sample with `threads` at work: `run()` gives seconds, or a rate if `is_rate`."""

    key: Hashable
    run: Callable[[], float]
    threads: int = 1
    rounds: int | None = None
    is_rate: bool = False
    clean: list[float] = field(default_factory=list)
    dirty: list[float] = field(default_factory=list)

    def take(self) -> None:
        """Take one sample and put it where it belongs."""
        with watch(self.threads) as seen:
            value = self.run()
        (self.dirty if seen.disturbed else self.clean).append(value)

    @property
    def disturbed(self) -> bool:
        """Whether no sample was undisturbed."""
        return not self.clean

    def summary(self) -> Summary:
        """Of the undisturbed samples, else the fastest of the others with the spread of all."""
        if self.clean:
            return summary(self.clean)
        seen = summary(self.dirty)
        return Summary(
            max(self.dirty) if self.is_rate else min(self.dirty), seen.spread, seen.samples
        )


def sample(cells: Sequence[Cell], rounds: int, *, deadline: float = float("inf")) -> None:
    """Fill the cells: `rounds` rounds, then the disturbed ones again.

    Parameters
    ----------
    cells
        What to sample; a cell with `rounds` of its own takes part in so many only.
    rounds
        Samples of each cell.
    deadline
        On the clock of `time.perf_counter`: after it no further round is begun. The first round
        is always taken whole.

    """
    order = random.Random(SEED)  # noqa: S311 - an order, not a secret
    for turn in range(rounds):
        shuffled = [cell for cell in cells if cell.rounds is None or turn < cell.rounds]
        order.shuffle(shuffled)
        for cell in shuffled:
            if turn and time.perf_counter() > deadline:
                return
            cell.take()
    for _ in range(REDO):
        for cell in cells:
            if not cell.clean and time.perf_counter() <= deadline:
                cell.take()


def summaries(cells: Iterable[Cell]) -> dict[Hashable, Summary]:
    """The summary of each cell by its key."""
    return {cell.key: cell.summary() for cell in cells}


def disturbed(cells: Iterable[Cell]) -> int:
    """How many cells stayed disturbed."""
    return sum(cell.disturbed for cell in cells)
