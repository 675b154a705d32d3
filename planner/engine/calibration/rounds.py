"""One thing to sample, and what came of it.

Samples that something else disturbed are kept apart, and a cell that has no others is marked. Where
few samples were undisturbed all of them count: on a guest that shares its host half of all cells
are disturbed, and so are the runs of plans. The fastest of three samples promised a tenth more of
copying workers than plans reached (two machines with H200s, 2026-11-30).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.engine.calibration.noise import Watcher, watch
from planner.engine.calibration.statistics import Summary, middle, summary

FEW: Final = 3
"""Clean samples below which the disturbed ones count too: what was found undisturbed once in
sixteen times may have been disturbed by what nothing shows (148 us where the other fifteen samples
took 64 to 129)."""
SETTLED: Final = 0.01
"""Relative half interquartile range at which more samples would not change the median by more than
the other errors of a prediction."""


@dataclass(slots=True)
class Cell:
    """One thing to sample with `threads` at work: `run()` gives seconds, or a rate if `is_rate`.

    `also` takes a second figure of each sample where there is one (`run` adds it). `resident` says
    that no new memory is touched meanwhile, and nothing comes from a disk: faults disturb then.
    A cell that `waits` for a device most of its time counts every sample: what the processors did
    meanwhile says nothing of the device. So does one before whose samples many threads do what is
    not timed: they are what would be seen. `rounds` is the cell's own number of samples where it
    takes fewer than its group. A cell read back from a file has no `run`.
    """

    key: Hashable
    run: Callable[[], float] | None
    threads: int = 1
    rounds: int | None = None
    is_rate: bool = False
    resident: bool = False
    waits: bool = False
    clean: list[float] = field(default_factory=list)
    dirty: list[float] = field(default_factory=list)
    also: list[float] = field(default_factory=list)
    redone: int = 0

    def take(self, watcher: Watcher = watch) -> float:
        """Take one sample and put it where it belongs."""
        if self.run is None:
            raise ValueError(f"{self.key} was read from a file and cannot be sampled")
        with watcher(self.threads, resident=self.resident) as seen:
            value = self.run()
        (self.dirty if seen.disturbed and not self.waits else self.clean).append(value)
        return value

    def void(self, value: float) -> None:
        """Count a clean sample as disturbed after all."""
        if value in self.clean and not self.waits:
            self.clean.remove(value)
            self.dirty.append(value)

    def anew(self) -> Cell:
        """The same to be sampled, without samples; for one whose `run` fills no `also`."""
        return replace(self, clean=[], dirty=[], also=[], redone=0)

    @property
    def taken(self) -> int:
        """How many samples there are, disturbed ones too."""
        return len(self.clean) + len(self.dirty)

    @property
    def disturbed(self) -> bool:
        """Whether no sample was undisturbed."""
        return not self.clean

    @property
    def settled(self) -> bool:
        """Whether more samples would change nothing."""
        spread = summary(self.clean).spread if self.clean else None
        return spread is not None and spread <= SETTLED

    def summary(self) -> Summary:
        """Of the undisturbed samples; of all where those are few."""
        if len(self.clean) >= FEW:
            return summary(self.clean)
        return summary((*self.clean, *self.dirty))

    def second(self) -> float | None:
        """The median of the second figures, `None` where there are none."""
        return middle(self.also) if self.also else None


def pooled(cells: Sequence[Cell]) -> Cell:
    """One cell with the samples of several that measured the same, for two GPUs say.

    At least one; the others are as it is.
    """
    first = cells[0]
    return replace(
        first,
        run=None,
        clean=[value for cell in cells for value in cell.clean],
        dirty=[value for cell in cells for value in cell.dirty],
        also=[value for cell in cells for value in cell.also],
        redone=max(cell.redone for cell in cells),
    )


def merged(cells: Iterable[Cell]) -> list[Cell]:
    """The cells, those of one key as one: what was looked at twice, or beside several GPUs."""
    same: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        same.setdefault(cell.key, []).append(cell)
    return [found[0] if len(found) == 1 else pooled(found) for found in same.values()]


def summaries(cells: Iterable[Cell]) -> dict[Hashable, Summary]:
    """The summary of each cell that was sampled, by its key."""
    return {cell.key: cell.summary() for cell in cells if cell.taken}


def disturbed(cells: Iterable[Cell]) -> int:
    """How many cells stayed disturbed."""
    return sum(cell.disturbed for cell in cells if cell.taken)
