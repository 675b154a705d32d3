"""A calibration as groups of cells, each with its share of the time.

Within a group: all cells once, then all again, in an order shuffled with a fixed seed. A loop over
one cell would see one moment of the machine; rounds spread what disturbs them over all cells. A
cell that has settled takes no part in further rounds. Every two seconds sentinels are looked at,
and where one has drifted the samples since the last look are void. Cells that lost samples are
taken again at the end, at most twice; what is still disturbed then is kept and marked.

Time that a group leaves over goes to the ones behind it, and a group that takes longer takes it
from them, so the whole ends when it is due.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from planner.engine.calibration.ledger import Ledger
from planner.engine.calibration.noise import Watcher, watch
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.sentinel import EVERY, Sentinel
from planner.engine.progress import Progress, Quiet

_LOG: Final = logging.getLogger(__name__)
SEED: Final = 20261129
"""Of the order of the cells: the same in every calibration, so that two of them compare."""
REDO: Final = 2
"""Times that the disturbed samples of a cell are taken again."""
AGAIN: Final = 3
"""Samples that a cell takes when it is taken again: a median needs them."""
SENTINELS: Final = "sentinels"
"""The name of the group of what the sentinels saw."""
TELL: Final = 10.0
"""Seconds after which it is said again what is being measured and how long it will take."""


@dataclass(slots=True)
class Group:
    """Cells that are sampled together.

    Attributes
    ----------
    name, about
        What it is called in the file of samples, and what people are told.
    make
        Gives the cells when their turn comes: earlier groups are finished then.
    weight
        The share of the time, in seconds of a calibration that takes as long as it should.
    samples
        How many each cell takes, and how many where it has not settled by then.
    link
        The link of the machine file that it measures, empty for the rest.
    essential
        The first round is taken whole, whatever the time.
    refine
        Given the cells sampled so far, cells between them that are worth sampling too; asked again
        until it gives none.
    at_once
        Disturbed cells are taken again right after the rounds, since what they use is given back,
        or changed, after the group.

    """

    name: str
    about: str
    make: Callable[[], Sequence[Cell]]
    weight: float = 1.0
    samples: tuple[int, int] = (3, 3)
    link: str = ""
    essential: bool = False
    refine: Callable[[Sequence[Cell]], Sequence[Cell]] | None = None
    at_once: bool = False
    close: Callable[[], None] = lambda: None


@dataclass
class Campaign:
    """Runs groups until they are done or the time is up; `clock` counts seconds.

    Drifting `sentinels` void samples; `marks` are looked at once a group, for their spread alone.
    """

    start: float
    seconds: float
    reserve: float = 0.0
    ledger: Ledger = field(default_factory=Ledger)
    listener: Progress = field(default_factory=Quiet)
    sentinels: Sequence[Sentinel] = ()
    marks: Sequence[Sentinel] = ()
    clock: Callable[[], float] = time.perf_counter
    watcher: Watcher = watch
    took: dict[str, float] = field(default_factory=dict)
    _order: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311
    _since: list[tuple[Cell, float]] = field(default_factory=list)
    _looked: float = 0.0
    _told: float = 0.0
    _words: str = ""

    @property
    def end(self) -> float:
        """The instant at which all must be over."""
        return self.start + self.seconds

    def run(self, groups: Sequence[Group]) -> list[Cell]:
        """All cells of all groups; finished groups of the ledger are not measured again."""
        for sentinel in self.sentinels:
            sentinel.wake()
        self._looked = self.clock()
        found: dict[str, list[Cell]] = {}
        seen = {cell.key: cell.clean for cell in self.ledger.groups.get(SENTINELS, ())}
        for k, group in enumerate(groups):
            kept = self.ledger.groups.get(group.name)
            if kept is not None:
                found[group.name] = kept
                continue
            left = [g for g in groups[k:] if g.name not in self.ledger.groups]
            began = self.clock()
            self._tell(k, groups, group)
            try:
                found[group.name] = self._group(group, self._deadline(group, left))
            finally:
                group.close()
            for mark in self.marks:
                mark.look()
            self.took[group.name] = self.clock() - began
            _LOG.info("%s took %.2f s", group.name, self.took[group.name])
            if watched := self._watched(seen):
                self.ledger.groups[SENTINELS] = watched
                self.ledger.dates[SENTINELS] = _today()
            self.ledger.keep(group.name, found[group.name], _today())
        self._redo([c for g in groups if not g.at_once for c in found[g.name]])
        for name, cells in found.items():
            self.ledger.groups[name] = cells
        self.ledger.write()
        return [cell for cells in found.values() for cell in cells if cell.taken]

    def _watched(self, before: Mapping[Hashable, Sequence[float]]) -> list[Cell]:
        """All that the sentinels saw, `before` in a calibration that is gone on with."""
        return [
            Cell(key, None, clean=[*before.get(key, ()), *one.values])
            for one in (*self.sentinels, *self.marks)
            if one.values and (key := ("sentinel", one.name))
        ]

    def steadiness(self) -> dict[str, float]:
        """The spread of each sentinel over the whole time, by its name."""
        cells = self.ledger.groups.get(SENTINELS, ())
        spreads = {str(c.key[1]): c.summary().spread for c in cells if isinstance(c.key, tuple)}
        return {name: spread for name, spread in spreads.items() if spread is not None}

    def _deadline(self, group: Group, left: Sequence[Group]) -> float:
        """When the group's share of what is left is over."""
        now = self.clock()
        share = group.weight / sum(other.weight for other in left)
        return now + max(0.0, self.end - self.reserve - now) * share

    def _group(self, group: Group, deadline: float) -> list[Cell]:
        cells = list(group.make())
        self._rounds(cells, group, deadline)
        while group.refine is not None and self.clock() < deadline:
            more = list(group.refine(cells))
            if not more:
                break
            self._rounds(more, group, deadline, optional=True)
            cells += [cell for cell in more if cell.taken]
        self._look()
        if group.at_once:
            self._again(cells, deadline)
        return cells

    def _rounds(
        self, cells: Sequence[Cell], group: Group, deadline: float, *, optional: bool = False
    ) -> None:
        """Rounds until every cell has what it needs, or the time is up."""
        for turn in range(group.samples[1]):
            batch = [cell for cell in cells if _goes_on(cell, turn, group)]
            self._order.shuffle(batch)
            for cell in batch:
                if self.clock() >= deadline and not self._must(group, turn, optional=optional):
                    return
                self._take(cell)

    def _must(self, group: Group, turn: int, *, optional: bool) -> bool:
        """Whether a cell is taken though the group's time is over.

        The first round may use up what is kept for taking cells again, an essential one more.
        """
        if turn or optional:
            return False
        return group.essential or self.clock() < self.end

    def _take(self, cell: Cell) -> None:
        self._since.append((cell, cell.take(self.watcher)))
        now = self.clock()
        if now - self._looked > EVERY:
            self._look()
        if now - self._told > TELL:
            self._say()

    def _look(self) -> None:
        """Look at the sentinels; where one has drifted, what was sampled since is void."""
        # All are looked at, so that each one's running median goes on.
        drifted = [sentinel.drifted() for sentinel in self.sentinels]
        if any(drifted):
            for cell, value in self._since:
                cell.void(value)
        self._since.clear()
        self._looked = self.clock()

    def _redo(self, cells: Sequence[Cell]) -> None:
        """Take what was disturbed again, within the time that is kept for it."""
        if any(_wants_again(cell) for cell in cells):
            self._words = "calibrating: disturbed cells again"
            self._say()
            self._again(cells, self.end)

    def _again(self, cells: Sequence[Cell], deadline: float) -> None:
        for _ in range(REDO):
            again = [cell for cell in cells if _wants_again(cell)]
            for cell in again:
                cell.redone += 1
            for _ in range(AGAIN):
                self._order.shuffle(again)
                for cell in again:
                    if self.clock() >= deadline:
                        return
                    if len(cell.clean) < AGAIN:
                        self._take(cell)
            self._look()

    def _tell(self, k: int, groups: Sequence[Group], group: Group) -> None:
        self._words = f"calibrating {k + 1} of {len(groups)}: {group.about}"
        self._say()

    def _say(self) -> None:
        """Say what is being measured and how long everything will take."""
        self._told = self.clock()
        left = max(0.0, self.end - self._told)
        self.listener.note(f"{self._words}; {left:.0f} s left at the most")


def _goes_on(cell: Cell, turn: int, group: Group) -> bool:
    """Whether the cell takes part in this round."""
    if cell.rounds is not None and turn >= cell.rounds:
        return False
    return turn < group.samples[0] or not cell.settled


def _wants_again(cell: Cell) -> bool:
    """Whether a cell has lost so many samples that what is left is no median."""
    return cell.run is not None and bool(cell.dirty) and len(cell.clean) < min(AGAIN, cell.taken)


def _today() -> str:
    return datetime.now(tz=UTC).date().isoformat()
