"""The groups of what GPUs read in place, of managed memory, and of registration ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from planner.engine.backends.base import Backend
from planner.engine.calibration.arena import Arena
from planner.engine.calibration.campaign import Group
from planner.engine.calibration.costs import Costs
from planner.engine.calibration.in_place import InPlace
from planner.engine.calibration.pipeline_groups import Weight
from planner.engine.calibration.rounds import Cell

Make = Callable[[InPlace, bool], Iterator[Cell]]
"""The cells of the probes of one GPU; the second argument says whether it reaches mapped files."""


@dataclass(frozen=True, slots=True)
class InPlaceGroups:
    """Makes the groups of each GPU.

    Attributes
    ----------
    device, arena, gpus
        What measures, with what, and on which GPUs.
    costs
        Gives the probes of what setups cost.
    weight
        That of the whole plan.

    """

    device: Backend
    arena: Arena
    gpus: Sequence[int]
    costs: Callable[[], Costs]
    weight: Weight

    def first(self) -> Iterator[Group]:
        """Kernels, page faults, prefetches and registration ahead."""
        what = "what {} reads in place, managed memory, registration ahead"
        yield from self._groups("in_place", "", what, lambda probes, maps: probes.cells(maps=maps))

    def again(self) -> Iterator[Group]:
        """Registration ahead once more, some time later: the same cells, which count together.

        From one half minute to another a driver registers 64 MiB of a file in 1.6 ms or in 2.1,
        and no sample within either shows the other (three H200 machines, measured 2026-12-01).
        """
        what = "registration ahead of {} again"
        yield from self._groups(
            "ahead", " again", what, lambda probes, maps: probes.ahead(maps=maps)
        )

    def _groups(self, name: str, which: str, about: str, cells: Make) -> Iterator[Group]:
        arena = self.arena
        for k, gpu in enumerate(self.gpus):
            probes = InPlace(self.device, gpu, arena.pinned, arena.devices[gpu], arena.file)

            def make(probes: InPlace = probes) -> list[Cell]:
                return list(cells(probes, self.costs().maps()))

            yield Group(
                f"{name} pcie{k}{which}",
                about.format(f"gpu{k}"),
                make,
                self.weight(name, len(self.gpus)),
                samples=(3, arena.scope.others[1]) if which else arena.scope.others,
                link=f"pcie{k}",
                at_once=True,
                close=probes.close,
            )
