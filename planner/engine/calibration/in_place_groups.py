"""The groups of what GPUs read in place, of managed memory, and of registration ahead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from planner.engine.backends.base import Backend
from planner.engine.calibration.arena import Arena
from planner.engine.calibration.campaign import Group
from planner.engine.calibration.costs import Costs
from planner.engine.calibration.in_place import InPlace
from planner.engine.calibration.pipeline_groups import Weight
from planner.engine.calibration.rounds import Cell


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

    def groups(self, *, again: bool = False) -> Iterator[Group]:
        """Kernels, page faults, prefetches and registration ahead, of each GPU.

        The same cells `again`, some time later, count together: from one half minute to another a
        driver registers 64 MiB of a file in 1.6 ms or in 2.1, or prefetches 256 MiB out of a GPU in
        16 or in 25, and no sample within either shows the other (four H200 machines, measured
        2026-12-01).
        """
        arena, which = self.arena, " again" if again else ""
        for k, gpu in enumerate(self.gpus):
            undo = contextlib.ExitStack()

            def make(gpu: int = gpu, undo: contextlib.ExitStack = undo) -> list[Cell]:
                probes = InPlace(self.device, gpu, arena.pinned, arena.devices[gpu], arena.file)
                undo.callback(probes.close)
                return list(probes.cells(maps=self.costs().maps()))

            yield Group(
                f"in_place pcie{k}{which}",
                f"what gpu{k} reads in place, managed memory, registration ahead{which}",
                make,
                self.weight(f"in_place{which}", len(self.gpus)),
                samples=(1, 4) if again else arena.scope.others,
                link=f"pcie{k}",
                at_once=True,
                close=undo.close,
            )
