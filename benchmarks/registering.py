"""How fast a cached file goes to a GPU when its mapping is registered region by region.

    python benchmarks/registering.py [--size 8GB] [--regions 16MiB,32MiB,64MiB,128MiB] [--budget 50]

Registering is work of the driver under a lock, a region at a time, each ahead of its copy. The
variants differ in what a second thread does, and in when regions are given back:

    one thread         registers, and gives everything back at the end
    pages brought in   a second thread brings the mapping's pages in, ahead of the first
    given back beside  a second thread gives each region back behind its copy
    given back between the one thread does that, and holds four regions at the most
    two threads        both register, each region after region of one queue

Every run begins with a mapping that has forgotten its pages and with caches that hold other bytes,
as a load finds them. `rate` is the file over the time until the last byte has arrived, `all_rate`
over the time until everything is given back too. Without a GPU the host backend stands in, which
registers for nothing, and says so.

Results go to `benchmarks/results/registering-MACHINE.json`, round by round. A variant that fails is
left out from then on, and its reason is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import psutil

from benchmarks.record import RESULTS, Clock, gpu_word, header, leave_on_sigterm, told, write
from planner.engine import pagecache
from planner.engine.backends import open_backend
from planner.engine.backends.base import Backend, DeviceBuffer, Engine, Lane
from planner.engine.caches import Broom
from planner.engine.calibrate import backend_name
from planner.engine.calibration.once import Move, made_ready
from planner.engine.files import FileRanges
from planner.engine.measure import middle
from planner.engine.memory import Mapped, Mapping
from planner.engine.pattern import Pattern
from planner.engine.places import DevicePlace, MappedPlace
from planner.engine.route import SourceRest
from planner.engine.scratch import Scratch
from planner.engine.strategies.base import cut_source
from planner.engine.strategies.registered_chunks import registered_chunks
from planner.engine.terms import Terms
from planner.plan.schema import FileSource
from planner.units import format_rate, format_size, parse_size

GPU: Final = 0
DEPTH: Final = 2
HELD: Final = 4
"""Regions that are registered at a time where they are given back between."""
SHARE: Final = 3
"""Part of the free memory that the file may take."""
END_S: Final = 0.5
"""Seconds before the end of the budget after which no run begins: one takes about as long."""
Took = tuple[float, float]
"""Seconds until the last byte has arrived, and until everything is given back."""
Save = Callable[[list[dict[str, Any]]], None]
"""Writes the rows down that there are."""


@dataclass
class Bench:
    """A cached file's mapping, the GPU's memory, and what is to be undone."""

    backend: Backend
    place: MappedPlace
    mapping: Mapping
    device: DevicePlace
    size: int
    broom: Broom
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def ready(self) -> None:
        """Have everything as a load finds it."""
        self.mapping.forget()
        self.broom.sweep()
        self.backend.attach(GPU)
        self.backend.start_clock()

    def strategy(self, region: int, workers: int, terms: Terms) -> Callable[[], Took]:
        """The engine's own strategy with regions of a size."""
        move = Move(
            "registered_chunks",
            registered_chunks(GPU),
            self.place,
            self.device,
            self.size,
            chunk=region,
            depth=DEPTH,
            workers=workers,
            rests=(SourceRest(),),
            terms=terms,
        )
        transfer = made_ready(self.backend, move, self.undo, GPU)

        def run() -> Took:
            begun = perf_counter()
            try:
                moved = transfer.run()
            except BaseException:
                for part in transfer.parts:
                    part.settle()
                raise
            finally:
                transfer.give_back()  # also what a run that failed has registered
            return moved.end - moved.start, perf_counter() - begun

        return run

    def beside(self, region: int) -> Callable[[], Took]:
        """One thread registers and queues copies, another gives back what has arrived."""
        chunks = cut_source(self.place, self.size, region, pages=True)
        lane = self.backend.lane(Engine("h2d", GPU), len(chunks))
        self.undo.callback(lane.close)
        source, target = self.mapping.address, self.device.address
        rows = list(zip(chunks.lows, chunks.sizes, strict=True))

        def run() -> Took:
            queue: SimpleQueue[int | None] = SimpleQueue()
            with ThreadPoolExecutor(1) as other, contextlib.ExitStack() as held:
                given = other.submit(self._give_back, queue, lane, source, chunks.lows)
                held.callback(queue.put, None)  # a run that fails ends the other thread, too
                begun = perf_counter()
                for slot, (low, size) in enumerate(rows):
                    self.backend.register(source + low, size, read_only=True)
                    lane.copy(slot, target + low, source + low, size)
                    queue.put(slot)
                queue.put(None)
                for slot in range(len(rows)):
                    lane.wait(slot)
                arrived = perf_counter()
                given.result()
                return arrived - begun, perf_counter() - begun

        return run

    def _give_back(
        self, queue: SimpleQueue[int | None], lane: Lane, source: int, lows: Sequence[int]
    ) -> None:
        """Give each region of the queue back once its copy is through."""
        self.backend.attach(GPU)
        while (slot := queue.get()) is not None:
            lane.arrived(slot)
            self.backend.unregister(source + lows[slot])

    def variants(self, region: int) -> dict[str, Callable[[], Took]]:
        """What to run with regions of a size."""
        few = Terms(pinned_budget=HELD * region)
        return {
            "one thread": self.strategy(region, 1, Terms()),
            "pages brought in": self.strategy(region, 1, Terms(helped=True)),
            "given back beside": self.beside(region),
            "given back between": self.strategy(region, 1, few),
            "two threads": self.strategy(region, 2, Terms()),
        }


def open_bench(backend: Backend, size: int, undo: contextlib.ExitStack) -> Bench:
    """Write the file, map it, and have room for it on the GPU."""
    scratch = Scratch(Path(tempfile.gettempdir()), "registering", size, Pattern(1))
    undo.callback(scratch.close)
    source: FileSource = scratch.write(sync=True)  # nothing is written back beside the runs
    pagecache.warm((source,))  # who reads new pages first marks them as used, which takes longer
    mapping = Mapping(source.path, 0, size)
    undo.callback(mapping.close)
    place = MappedPlace(FileRanges((source,)), Mapped([mapping]))
    backend.attach(GPU)
    memory: DeviceBuffer = backend.allocate(GPU, size)
    undo.callback(backend.release, memory)
    broom = Broom()
    undo.callback(broom.close)
    bench = Bench(backend, place, mapping, DevicePlace(GPU, memory), size, broom)
    undo.callback(bench.undo.close)
    return bench


def measure(
    bench: Bench, regions: Sequence[int], rounds: int, clock: Clock, save: Save
) -> list[dict[str, Any]]:
    """All variants once, then all again, as long as there is time."""
    runs = [
        (name, region, run) for region in regions for name, run in bench.variants(region).items()
    ]
    found: dict[tuple[str, int], list[Took]] = {}
    failed: dict[tuple[str, int], str] = {}

    def rows() -> list[dict[str, Any]]:
        keys = dict.fromkeys([*found, *failed])
        return [_row(key, bench.size, found.get(key, []), failed.get(key, "")) for key in keys]

    for _ in range(rounds):
        for name, region, run in runs:
            key = (name, region)
            if clock.left() <= END_S or key in failed:
                continue
            try:
                bench.ready()
                found.setdefault(key, []).append(run())
            except Exception as error:  # noqa: BLE001 - one variant must not lose the others
                failed[key] = told(error)
        save(rows())
    return rows()


def _row(key: tuple[str, int], size: int, took: list[Took], reason: str) -> dict[str, Any]:
    about = {"variant": key[0], "region_bytes": key[1], "size_bytes": size, "reason": reason}
    if not took:
        return about
    moved = [one for one, _ in took]
    return {
        **about,
        "seconds": middle(moved),
        "rate_bytes_per_s": size / middle(moved),
        "all_rate_bytes_per_s": size / middle([both for _, both in took]),
        "samples_s": moved,
        "samples_all_s": [both for _, both in took],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rates of each variant by region: until arrived, and with giving back."""
    regions = sorted({row["region_bytes"] for row in rows})
    lines = [f"{'':20}" + "".join(f"{format_size(region):>24}" for region in regions)]
    for name in dict.fromkeys(row["variant"] for row in rows):
        cells = []
        for region in regions:
            own = [r for r in rows if (r["variant"], r["region_bytes"]) == (name, region)]
            rates = [
                format_rate(r[key])
                for r in own
                if "seconds" in r
                for key in ("rate_bytes_per_s", "all_rate_bytes_per_s")
            ]
            cells.append(f"{' / '.join(rates):>24}")
        lines.append(f"{name:20}" + "".join(cells))
    lines += [
        f"{r['variant']}, {format_size(r['region_bytes'])}: {r['reason']}"
        for r in rows
        if r["reason"]
    ]
    return "\n".join(lines)


def main() -> int:
    """Run all variants, print the table, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("8GB"))
    parser.add_argument("--regions", default="16MiB,32MiB,64MiB,128MiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=50.0, help="seconds in all")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--out", type=Path, help="file for the result")
    options = parser.parse_args()

    clock = Clock(options.budget)
    leave_on_sigterm()
    regions = [parse_size(word) for word in options.regions.split(",")]
    size = min(options.size, psutil.virtual_memory().available // SHARE)
    if size < options.size:
        print(f"only {format_size(size)}: memory is short", file=sys.stderr)
    backend = open_backend(backend_name(options.backend))
    with contextlib.ExitStack() as undo:
        undo.callback(backend.close)
        if backend.emulated:
            print("no GPU: the host backend stands in, and registers for nothing", file=sys.stderr)
        names = backend.describe([GPU]).gpus
        label = "host" if backend.emulated else f"{gpu_word(names[0])}-1"
        path = options.out or RESULTS / f"registering-{label}.json"
        body = header() | {"gpus": list(names), "emulated": backend.emulated}

        def save(rows: list[dict[str, Any]]) -> None:
            write(path, body | {"rows": rows, "spent_s": clock.spent()})

        rows = measure(open_bench(backend, size, undo), regions, options.rounds, clock, save)
        print(table(rows), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
