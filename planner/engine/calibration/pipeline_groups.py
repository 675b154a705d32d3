"""The groups of a calibration that run the real pipelines, long and short."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from planner.engine.backends.base import Backend
from planner.engine.calibration import leads, pairs
from planner.engine.calibration.arena import Arena
from planner.engine.calibration.campaign import Group
from planner.engine.calibration.joint import Pipelines
from planner.engine.calibration.rounds import Cell
from planner.machine.schema import CopyName, Machine


class Weight(Protocol):
    """Seconds of a kind of groups, of one of `share` of them."""

    def __call__(self, name: str, share: int = 1) -> float:
        """The seconds."""


Closes = TypeVar("Closes", Pipelines, pairs.Pairs)
"""Pipelines that are ready, alone or two at once."""


@dataclass(frozen=True)
class PipelineGroups:
    """Makes them; `axes`, `machine` and `weight` are those of the whole plan."""

    device: Backend
    arena: Arena
    axes: Mapping[CopyName, tuple[Sequence[int], Sequence[int]]]
    machine: Callable[[], Machine]
    weight: Weight

    def joint(self, copies: Sequence[CopyName], *, again: bool = False) -> Iterator[Group]:
        """The real pipeline, which tells what DMA leaves of the copies.

        The same runs `again`, minutes later: three samples in a row are much alike, and say little
        of what the next hour brings.
        """
        scope = self.arena.scope
        turn = 2 if again else 1
        about = "copies beside DMA again" if again else "copies beside DMA"
        for copy in copies:
            workers = self.axes[copy][0]
            joint = partial(
                Pipelines.cells, workers=workers, each=scope.joint, few=not scope.full, turn=turn
            )
            make, close = self._ready(copy, joint)
            yield Group(
                f"joint {copy}" if turn == 1 else f"joint {copy} again",
                f"{about}, {copy.replace('_', ' to ')}",
                make,
                self.weight("again" if again else "joint", len(copies)),
                essential=not again,
                at_once=True,
                samples=(2, 3) if again else (3, scope.others[1]),
                close=close,
            )

    def leads(self) -> Iterator[Group]:
        """Short runs of the same pipelines, which tell what each run takes beside its pace."""
        scope = self.arena.scope
        for copy in leads.COPIES:
            workers = leads.counts(self.axes[copy][0], few=not scope.full)
            make, close = self._ready(copy, partial(leads.cells, workers=workers))
            yield Group(
                f"lead {copy}",
                f"short runs beside DMA, {copy.replace('_', ' to ')}",
                make,
                self.weight("lead", len(leads.COPIES)),
                essential=True,
                at_once=True,
                samples=(5, 5) if scope.full else (3, 3),
                close=close,
            )

    def pairs(self, gpus: Sequence[int]) -> Iterator[Group]:
        """Two of them at once, into the first two GPUs."""
        scope, arena = self.arena.scope, self.arena

        def two(copy: CopyName) -> pairs.Pairs:
            stocks = pairs.halves(arena.stock(gpus[0]), arena.stock(gpus[1]), "gpu1")
            return pairs.Pairs(self.device, self.machine(), copy, stocks)

        for copy in pairs.COPIES:
            own = partial(pairs.Pairs.cells, workers=self.axes[copy][0], each=scope.joint)
            make, close = _closing(partial(two, copy), own)
            yield Group(
                f"pair {copy}",
                f"copies beside two engines, {copy}",
                make,
                self.weight("pairs", len(pairs.COPIES)),
                essential=True,
                at_once=True,
                samples=(3, scope.others[1]),
                close=close,
            )

    def _ready(
        self, copy: CopyName, cells: Callable[[Pipelines], list[Cell]]
    ) -> tuple[Callable[[], list[Cell]], Callable[[], None]]:
        """What makes the cells of a copy's pipelines when their turn comes, and gives them back."""

        def one() -> Pipelines:
            return Pipelines(self.device, self.machine(), copy, self.arena.stock())

        return _closing(one, cells)


def _closing(
    ready: Callable[[], Closes], cells: Callable[[Closes], list[Cell]]
) -> tuple[Callable[[], list[Cell]], Callable[[], None]]:
    """What makes cells with something that is made ready for them, and what closes that."""
    undo = contextlib.ExitStack()

    def make() -> list[Cell]:
        return cells(undo.enter_context(contextlib.closing(ready())))

    return make, undo.close
