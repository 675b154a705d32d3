"""What a calibration measures, as groups of cells in the order in which they are sampled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from planner.engine.backends.base import Backend
from planner.engine.calibration import combined, duplex, tables
from planner.engine.calibration.arena import FRESH, Arena
from planner.engine.calibration.bench import Way
from planner.engine.calibration.campaign import Group
from planner.engine.calibration.copies import BATCH
from planner.engine.calibration.costs import Costs, allocation_cells, issue_cell
from planner.engine.calibration.in_place_groups import InPlaceGroups
from planner.engine.calibration.pipeline_groups import PipelineGroups
from planner.engine.calibration.rounds import Cell
from planner.engine.calibration.sides import MOST_WRITTEN
from planner.engine.calibration.writes import FileWriter
from planner.machine.schema import CopyName, Machine

COPIES: tuple[CopyName, ...] = ("file", "memory", "save", "save_memory")
WAYS: tuple[Way, ...] = ("h2d", "d2h")
SMALL = 4096
"""Bytes of a copy that is all issue."""
FEW = 4
"""GPUs whose pairs a quick calibration has the time for: six, a quarter of a second each."""

Axes = tuple[Sequence[int], Sequence[int]]
"""Numbers of workers, and bytes of rings."""


def axes_of(arena: Arena, cores: int) -> dict[CopyName, Axes]:
    """The axes of each copy table; copies outward are flatter in the ring, and have fewer."""
    scope = arena.scope
    workers = tables.worker_counts(cores)
    rings = scope.ring_sizes(cores, arena.size)
    outward = rings if scope.full else rings[1:3] or rings
    # A quarter of a file's pages under way at once, so that every page that is written is new.
    saved = [size for size in outward if size <= MOST_WRITTEN // 4] or outward[:1]
    by_copy = {"save": saved, "save_memory": outward}
    return {copy: (workers, by_copy.get(copy, rings)) for copy in COPIES}


@dataclass
class Plan:
    """Makes the groups.

    Attributes
    ----------
    device, arena, gpus
        What measures, with what, and on which GPUs (the driver's numbers).
    axes
        Of the copy tables.
    machine
        Gives the machine as far as it is measured, for the joint runs.

    """

    device: Backend
    arena: Arena
    gpus: Sequence[int]
    axes: dict[CopyName, Axes]
    machine: Callable[[], Machine]
    _cold: list[Cell] = field(default_factory=list)

    def groups(self) -> list[Group]:
        """All of them, what every prediction needs first."""
        pipelines = PipelineGroups(self.device, self.arena, self.axes, self.machine, self._weight)
        in_place = InPlaceGroups(self.device, self.arena, self.gpus, self._costs, self._weight)
        found = [self._setup(), *self._pinned(), *self._pageable(), *self._duplex()]
        found += [*self._tables(), self._disk(), self._disk_writes()]
        found += [*pipelines.joint(COPIES), *pipelines.leads()]
        if len(self.gpus) > 1 and self.arena.scope.full:
            found += pipelines.pairs(self.gpus)
        found += [self._gpu(k) for k in range(len(self.gpus))]
        if self.arena.scope.full:
            found += [*in_place.groups(), self._combined()]
        found += self._peers()
        if len(self.gpus) > 1 and (self.arena.scope.full or len(self.gpus) <= FEW):
            found.append(self._together())
        if self.arena.scope.full:
            found += pipelines.joint(COPIES, again=True)
            found += [*in_place.groups(again=True), *self._pageable(again=True)]
            found.append(self._disk(again=True))
        return found

    def _weight(self, name: str, share: int = 1) -> float:
        return self.arena.scope.weights[name] / max(1, share)

    def _setup(self) -> Group:
        arena, scope = self.arena, self.arena.scope
        costs = self._costs()
        gpu = self.gpus[0]
        inward = arena.walks(gpu)[0]

        def make() -> list[Cell]:
            def issue() -> float:
                return arena.bench.issue(gpu, inward.pairs(BATCH, SMALL), SMALL)

            return [*costs.cells(), issue_cell(issue, gpu)]

        about = "touch, register and start"
        return Group(
            "setup", about, make, self._weight("setup"), essential=True, samples=scope.others
        )

    def _pinned(self) -> Iterator[Group]:
        """Pinned copies of each GPU."""
        scope, arena, count = self.arena.scope, self.arena, len(self.gpus)
        for k, gpu in enumerate(self.gpus):

            def make(gpu: int = gpu) -> list[Cell]:
                found: list[Cell] = []
                machine = self.machine()
                for way in ("h2d", "d2h"):
                    found += arena.curve_cells(f"{way}{gpu}", scope.alone, scope.queued)
                    found += arena.lone_cells(f"{way}{gpu}", machine)
                return found

            refine = arena.refinement() if scope.full else None
            yield Group(
                f"copies pcie{k}",
                f"pinned copies of gpu{k}",
                make,
                self._weight("copies", count),
                link=f"pcie{k}",
                essential=True,
                refine=refine,
                samples=scope.copies,
            )

    def _duplex(self) -> Iterator[Group]:
        """Both directions of each GPU at once."""
        scope, arena, count = self.arena.scope, self.arena, len(self.gpus)
        for k, gpu in enumerate(self.gpus):

            def make(gpu: int = gpu) -> list[Cell]:
                return list(
                    duplex.opposite_cells(*arena.opposite(gpu), scope.background, scope.duplex_s)
                )

            yield Group(
                f"duplex pcie{k}",
                f"both directions of gpu{k} at once",
                make,
                self._weight("duplex", count),
                link=f"pcie{k}",
                essential=True,
                samples=scope.others,
            )

    def _pageable(self, *, again: bool = False) -> Iterator[Group]:
        """The driver's copies of ordinary memory, and the same cells `again` some time later."""
        arena, scope, which = self.arena, self.arena.scope, " again" if again else ""
        for k, gpu in enumerate(self.gpus):

            def make(gpu: int = gpu) -> list[Cell]:
                ordinary = arena.ordinary(gpu, self.machine())
                return [
                    cell for way in WAYS for cell in ordinary.cells(way, scope.pageable, scope.hot)
                ]

            yield Group(
                f"pageable pcie{k}{which}",
                f"pageable copies of gpu{k}, cold and hot{which}",
                make,
                self._weight(f"pageable{which}", len(self.gpus)),
                link=f"pcie{k}",
                essential=not again,
                samples=(1, 3) if again else scope.others,
            )

    def _tables(self) -> Iterator[Group]:
        """Copies between the ring and the rest, without a copy engine."""
        for copy in COPIES:

            def make(copy: CopyName = copy) -> list[Cell]:
                return [
                    *self.arena.table_cells(copy, self.axes[copy], self.arena.scope.slice_s),
                    *self.arena.overhead_cells(copy),
                    *(self.arena.crowd_cells() if copy == "file" else ()),
                ]

            # New pages of the page cache come slowly, and there are fewer cells.
            weight = self._weight("tables") * (0.35 if copy in ("file", "memory") else 0.15)
            yield Group(
                f"tables {copy}",
                f"copy capacity by workers and ring, {copy.replace('_', ' to ')}",
                make,
                weight,
                essential=True,
                samples=(3, self.arena.scope.others[1]),
            )

    def _disk(self, *, again: bool = False) -> Group:
        """Cold reads, and the same `again` some time later: a disk varies from minute to minute."""
        which = " again" if again else ""

        def make() -> list[Cell]:
            if not self._cold:  # also where the first look was taken before `--resume`
                maps = self.arena.scope.full and not self.device.emulated
                self._cold += self.arena.cold.cells(mapped=maps, onward=self.arena.onward())
                return self._cold
            return [cell.anew() for cell in self._cold]

        return Group(
            f"disk{which}",
            f"cold reads of the disk{which}",
            make,
            self._weight(f"disk{which}"),
            samples=(1, 3) if again else (3, self.arena.scope.others[1]),
            link="storage0",
            essential=not again,
        )

    def _disk_writes(self) -> Group:
        """New files, as saves write them that wait for the disk."""
        arena, scope = self.arena, self.arena.scope
        pools = [(n, length) for n in scope.writers for length in scope.writes]
        undo = contextlib.ExitStack()

        def make() -> list[Cell]:
            writer = FileWriter(arena.file, arena.size, pools, scope.read_s)
            undo.callback(writer.close)
            return list(writer.cells())

        return Group(
            "disk writes",
            "writes that the disk has",
            make,
            self._weight("disk_writes"),
            samples=(3, scope.others[1]),
            link="storage0",
            essential=True,
            at_once=True,
            close=undo.close,
        )

    def _gpu(self, k: int) -> Group:
        gpu, scope = self.gpus[k], self.arena.scope

        def make() -> list[Cell]:
            machine = self.machine()
            return [
                *([] if k else self.arena.first_cells(machine)),
                *allocation_cells(self.device, gpu),
                *self.arena.curve_cells(f"local{gpu}", scope.peer, scope.queued),
                *self.arena.lone_cells(f"local{gpu}", machine),
            ]

        weight = self._weight("gpu", len(self.gpus))
        about = f"allocation and copies inside gpu{k}"
        return Group(f"gpu{k}", about, make, weight, essential=True, samples=scope.others)

    def _combined(self) -> Group:
        """Copies into write-combined memory, where that is what it is called."""
        arena, scope = self.arena, self.arena.scope
        undo = contextlib.ExitStack()

        def make() -> list[Cell]:
            if not combined.real(self.machine):
                return []
            ring = self.device.combined(max(self.axes["memory"][1]))
            undo.callback(ring.close)
            sides = {plain: arena.sides[plain].side for plain in combined.PLAIN.values()}
            return list(combined.table_cells(sides, ring, self.axes, scope.slice_s / 4))

        return Group(
            "tables combined",
            "copies into write-combined memory",
            make,
            self._weight("tables") / 8,
            samples=(1, 3),
            at_once=True,
            close=undo.close,
        )

    def _costs(self) -> Costs:
        arena = self.arena
        return Costs(self.device, arena.team, self.gpus, min(arena.size, FRESH), arena.file)

    def _peers(self) -> Iterator[Group]:
        """Copies between GPUs: first without peer access, which stays open once it is."""
        pairs = list(combinations(range(len(self.gpus)), 2))
        scope = self.arena.scope
        for name, about, kind in (
            ("unhelped", "without peer access", "apart"),
            ("peers", "with peer access", "peer"),
        ):
            for n, (i, j) in enumerate(pairs):
                one, other = self.gpus[i], self.gpus[j]
                capable = self.device.lacks("peer", ("hbm", "hbm"), [one, other]) is None
                # Without peer access the driver stages through the host: emulation has no driver.
                wanted = capable if kind == "peer" else not capable or scope.full
                if not wanted or (kind == "apart" and self.device.emulated):
                    continue

                def make(one: int = one, other: int = other, kind: str = kind) -> list[Cell]:
                    if kind == "peer":
                        self.device.open_peer(one, other)
                    found: list[Cell] = []
                    machine = self.machine()
                    for a, b in ((one, other), (other, one)):
                        name = f"{kind}{a}-{b}"
                        found += self.arena.curve_cells(name, scope.peer, scope.queued)
                        found += self.arena.lone_cells(name, machine)
                    return found

                yield Group(
                    f"{name} nvlink{n}",
                    f"copies between gpu{i} and gpu{j} {about}",
                    make,
                    # Quick calibrations have no group without access but where it is all there is.
                    self._weight(
                        "unhelped" if kind == "apart" and scope.full else "peers", len(pairs)
                    ),
                    link=f"nvlink{n}",
                    at_once=True,
                    essential=True,
                    samples=scope.others,
                )

    def _together(self) -> Group:
        """All pairs of GPUs at once: who shares an uplink."""
        scope = self.arena.scope

        def make() -> list[Cell]:
            loads = [(self.arena.loads(gpu, 0), self.arena.loads(gpu, 1)) for gpu in self.gpus]
            pairs = list(combinations(range(len(self.gpus)), 2))
            seconds = self.arena.scope.duplex_s
            return list(duplex.neighbour_cells(loads, seconds, pairs, crossed=scope.full))

        about = "several GPUs at once"
        return Group("together", about, make, self._weight("together"), samples=scope.others)
