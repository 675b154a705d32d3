"""The share of the best raw read of this disk that a plan with a cold file reaches.

    python benchmarks/cold_reads.py [--size 1GB] [--rounds 8] [--machine FILE] [--to gpu0]
                                    [--budget 120] [--out FILE]

Reads a cold file by every way that a program has: through the page cache and around it, requests of
256 KiB to 16 MiB, 1 to 16 threads. The three fastest then alternate with the plan, over the same
bytes and in both orders, with the file dropped from the page cache before each. The share is the
median of the pairs with the fastest of the three. The cache is asked (mincore) before each raw
read, and `warm_reads` counts those whose file was still there. Where the plan ends in host memory,
raw reads end in memory for all bytes too, else in slots that are used again and again. On a virtual
machine the host below may hold the file in its own cache, for both alike.

Results go to `benchmarks/results/cold-reads-MACHINE.json`, pair by pair.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.record import RESULTS, Clock, header, leave_on_sigterm, machine_label, write
from planner.engine.backends import Backend, open_backend
from planner.engine.execute import execute
from planner.engine.here import here
from planner.engine.pagecache import enforce
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, folder_of
from planner.machine.load import load_machine
from planner.machine.schema import Disk, Machine, Ram
from planner.model.estimate import estimate
from planner.model.strategies import EXECUTABLE
from planner.plan.schema import FileSource, Plan
from planner.results import Estimate
from planner.units import format_rate, format_size, parse_size

KIB, MIB = 1 << 10, 1 << 20
REQUESTS = (256 * KIB, MIB, 4 * MIB, 16 * MIB)
THREADS = (1, 2, 4, 8, 16)
UNDER_WAY = 64 * MIB
"""Bytes of the requests of all threads at the most."""
SCANNED = 256 * MIB
"""Bytes of one read of the scan: more than all slots together."""
SCANS = 3
FINALISTS = 3
SCAN_SHARE = 0.4
"""Of the budget, when the scan is over at the latest; each way is read once in any case."""
LEAST_PAIRS = 2
Save = Callable[[dict[str, Any]], None]
"""Writes down what there is."""


@dataclass
class Raw:
    """One way to read: around the page cache or through it, so many threads, so much at a time."""

    direct: bool
    request: int
    threads: int
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of what was read so far, seconds."""
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        """`direct, 4 x 1 MiB`."""
        way = "direct" if self.direct else "buffered"
        return f"{way}, {self.threads} x {format_size(self.request)}"

    def read(self, path: Path, size: int, memory: mmap.mmap) -> float:
        """Seconds in which all `size` bytes come into memory, a file of whole blocks.

        Memory that has room for all of them gets them all, else each thread has a slot of it.
        """
        fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if self.direct else 0))
        view, turns = memoryview(memory), count()

        def work(k: int) -> None:
            while (at := next(turns) * self.request) < size:
                wanted = min(self.request, size - at)
                start = at if len(memory) >= size else k * self.request
                with view[start : start + wanted] as part:
                    if os.preadv(fd, [part], at) != wanted:
                        raise OSError(f"{path}: a short read at byte {at}")

        try:
            with ThreadPoolExecutor(self.threads) as pool:
                start = time.perf_counter()
                list(pool.map(work, range(self.threads)))
                return time.perf_counter() - start
        finally:
            view.release()
            os.close(fd)


def ways(size: int) -> list[Raw]:
    """All ways that have at least one request for each thread."""
    return [
        Raw(direct, request, threads)
        for direct in (True, False)
        for request in REQUESTS
        for threads in THREADS
        if request * threads <= min(UNDER_WAY, size)
    ]


def touched(size: int) -> mmap.mmap:
    """Memory of huge pages, which a disk reads into the fastest; every page is there."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    return memory


class Dropped:
    """A file that is dropped from the page cache before each read, and how often that failed."""

    def __init__(self, source: FileSource) -> None:
        self.source = source
        self.warm_reads = 0

    def drop(self) -> None:
        """Out of the cache with it; the kernel is asked whether it went."""
        self.warm_reads += not enforce([self.source], 0.0).endswith("cold")


def finalists(file: Dropped, memory: mmap.mmap, clock: Clock) -> list[Raw]:
    """The fastest ways over the front of the file; a file system may refuse to read around."""
    path, size = Path(file.source.path), min(SCANNED, file.source.size_bytes)
    found = ways(size)
    for scan in range(SCANS):
        if scan and clock.spent() > SCAN_SHARE * (clock.seconds or float("inf")):
            break
        for way in list(found):
            file.drop()
            try:
                way.seconds.append(way.read(path, size, memory))
            except OSError:
                found.remove(way)
    best = sorted(found, key=lambda way: way.median)[:FINALISTS]
    return [Raw(way.direct, way.request, way.threads) for way in best]


def measure(
    machine: Machine,
    backend: Backend,
    source: FileSource,
    to: str,
    rounds: int,
    clock: Clock,
    save: Save,
) -> dict[str, Any]:
    """The pairs, and what they say; they are saved one by one."""
    flow = {"from": "disk0", "to": to, "size": source.size_bytes, "cache": "cold"}
    plan = Plan.model_validate({"name": "cold", "flows": {"load": flow}})
    load = plan.flows["load"].model_copy(update={"files": (source,)})
    plan = plan.model_copy(update={"flows": {"load": load}})
    answer = estimate(plan, machine, only=EXECUTABLE)
    planned: list[float] = []
    whole = isinstance(machine.nodes[to], Ram)
    file = Dropped(source)
    with touched(max(UNDER_WAY, source.size_bytes) if whole else UNDER_WAY) as memory:
        raws = finalists(file, memory, clock)

        def ours() -> None:
            run = execute(
                plan, machine, estimate=answer, backend=backend, samples=1, warmup=0, verify=False
            )
            planned.append(run.flows[0].samples_s[0])

        longest, row = 0.0, dict[str, Any]()
        for turn in range(rounds):
            if turn >= LEAST_PAIRS and clock.left() < longest:
                break
            begun = clock.spent()
            if turn % 2:
                ours()
            for raw in raws:
                file.drop()
                raw.seconds.append(raw.read(Path(source.path), source.size_bytes, memory))
            if not turn % 2:
                ours()
            longest = max(longest, clock.spent() - begun)
            row = row_of(answer, to, raws, planned) | {"warm_reads": file.warm_reads}
            save(row)
    return row


def row_of(answer: Estimate, to: str, raws: Sequence[Raw], planned: list[float]) -> dict[str, Any]:
    """What the pairs so far say."""
    best = min(raws, key=lambda raw: raw.median)
    (flow,) = answer.flows
    hops = flow.schedule.hops
    return {
        "size_bytes": flow.size_bytes,
        "to": to,
        "strategies": [hop.strategy for hop in hops],
        "chunk_bytes": hops[0].chunk_bytes,
        "depth": hops[0].depth,
        "workers": hops[0].workers,
        "predicted_s": flow.steady_s,
        "planned_s": planned,
        "raw_s": {str(raw): raw.seconds for raw in raws},
        "best_raw": str(best),
        "share_of_best_raw": share(best.seconds, planned),
    }


def share(raw: Sequence[float], planned: Sequence[float]) -> float:
    """The median over the pairs of the time of the raw read in that of the plan."""
    return statistics.median(a / b for a, b in zip(raw, planned, strict=True))


def main() -> int:
    """Measure, print a line, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("1GB"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--machine", help="a machine file of this computer, instead of calibrating")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--to", default="gpu0")
    parser.add_argument("--budget", type=float, help="seconds in all, calibration included")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    clock = Clock(options.budget)
    leave_on_sigterm()
    machine = load_machine(options.machine) if options.machine else here(backend=options.backend)
    path = options.out or RESULTS / f"cold-reads-{machine_label(machine)}.json"
    node = machine.nodes["disk0"]

    def save(row: dict[str, Any]) -> None:
        write(path, header(machine) | row | {"spent_s": clock.spent()})

    with ExitStack() as undo:
        folder = folder_of(node.path if isinstance(node, Disk) else None)
        inside = Path(undo.enter_context(tempfile.TemporaryDirectory(".cold", dir=folder)))
        size = options.size - options.size % MIB
        scratch = Scratch(inside, "cold", size, Pattern(1))
        source = scratch.write(sync=True)
        backend = open_backend(options.backend)
        undo.callback(backend.close)
        row = measure(machine, backend, source, options.to, options.rounds, clock, save)
    rate = size / statistics.median(row["planned_s"])
    shape = f"{row['workers']} x {format_size(row['chunk_bytes'])} x {row['depth']}"
    print(
        f"{row['share_of_best_raw']:.1%} of the best raw read ({row['best_raw']}): "
        f"{format_rate(rate)} by {'+'.join(row['strategies'])} {shape}, "
        f"predicted {format_rate(size / row['predicted_s'])}"
    )
    if row["warm_reads"]:
        print(f"{row['warm_reads']} raw reads found the file still cached")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
