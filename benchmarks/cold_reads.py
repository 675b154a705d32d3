"""The share of the best raw read of this disk that a plan with a cold file reaches.

    python benchmarks/cold_reads.py [--size 1GB] [--rounds 8] [--machine FILE] [--to gpu0] [--out F]

Reads a cold file by every way that a program has: through the page cache and around it, requests of
256 KiB to 16 MiB, 1 to 16 threads. The three fastest then alternate with the plan, over the same
bytes and in both orders, with the file dropped from the page cache before each. The share is the
median of the pairs with the fastest of the three. Where the plan ends in host memory, raw reads end
in memory for all bytes too, else in slots that are used again and again. On a virtual machine the
host below may hold the file in its own cache, for both alike.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.record import header, write
from planner.engine.backends import Backend, open_backend
from planner.engine.execute import execute
from planner.engine.here import here
from planner.engine.pagecache import drop
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, folder_of
from planner.machine.load import load_machine
from planner.machine.schema import Disk, Machine, Ram
from planner.model.estimate import estimate
from planner.model.strategies import EXECUTABLE
from planner.plan.schema import FileSource, Plan
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


def finalists(source: FileSource, memory: mmap.mmap) -> list[Raw]:
    """The fastest ways over the front of the file; a file system may refuse to read around."""
    path, size = Path(source.path), min(SCANNED, source.size_bytes)
    found = ways(size)
    for _ in range(SCANS):
        for way in list(found):
            drop([source])
            try:
                way.seconds.append(way.read(path, size, memory))
            except OSError:
                found.remove(way)
    best = sorted(found, key=lambda way: way.median)[:FINALISTS]
    return [Raw(way.direct, way.request, way.threads) for way in best]


def measure(
    machine: Machine, backend: Backend, source: FileSource, to: str, rounds: int
) -> dict[str, Any]:
    """The pairs, and what they say."""
    flow = {"from": "disk0", "to": to, "size": source.size_bytes, "cache": "cold"}
    plan = Plan.model_validate({"name": "cold", "flows": {"load": flow}})
    load = plan.flows["load"].model_copy(update={"files": (source,)})
    plan = plan.model_copy(update={"flows": {"load": load}})
    answer = estimate(plan, machine, only=EXECUTABLE)
    planned: list[float] = []
    whole = isinstance(machine.nodes[to], Ram)
    with touched(max(UNDER_WAY, source.size_bytes) if whole else UNDER_WAY) as memory:
        raws = finalists(source, memory)

        def ours() -> None:
            run = execute(
                plan, machine, estimate=answer, backend=backend, samples=1, warmup=0, verify=False
            )
            planned.append(run.flows[0].samples_s[0])

        for turn in range(rounds):
            if turn % 2:
                ours()
            for raw in raws:
                drop([source])
                raw.seconds.append(raw.read(Path(source.path), source.size_bytes, memory))
            if not turn % 2:
                ours()
    best = min(raws, key=lambda raw: raw.median)
    hops = answer.flows[0].schedule.hops
    return {
        "size_bytes": source.size_bytes,
        "to": to,
        "strategies": [hop.strategy for hop in hops],
        "chunk_bytes": hops[0].chunk_bytes,
        "depth": hops[0].depth,
        "workers": hops[0].workers,
        "predicted_s": answer.flows[0].steady_s,
        "planned_s": planned,
        "raw_s": {str(raw): raw.seconds for raw in raws},
        "best_raw": str(best),
        "share_of_best_raw": share(best.seconds, planned),
    }


def share(raw: Sequence[float], planned: Sequence[float]) -> float:
    """The median over the pairs of the time of the raw read in that of the plan."""
    return statistics.median(a / b for a, b in zip(raw, planned, strict=True))


def main() -> int:
    """Measure, print a line, and write the JSON where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=parse_size, default=parse_size("1GB"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--machine", help="a machine file of this computer, instead of calibrating")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--to", default="gpu0")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    machine = load_machine(options.machine) if options.machine else here(backend=options.backend)
    node = machine.nodes["disk0"]
    with ExitStack() as undo:
        folder = folder_of(node.path if isinstance(node, Disk) else None)
        inside = Path(undo.enter_context(tempfile.TemporaryDirectory(".cold", dir=folder)))
        size = options.size - options.size % MIB
        scratch = Scratch(inside, "cold", size, Pattern(1))
        source = scratch.write(sync=True)
        backend = open_backend(options.backend)
        undo.callback(backend.close)
        row = measure(machine, backend, source, options.to, options.rounds)
    rate = size / statistics.median(row["planned_s"])
    shape = f"{row['workers']} x {format_size(row['chunk_bytes'])} x {row['depth']}"
    print(
        f"{row['share_of_best_raw']:.1%} of the best raw read ({row['best_raw']}): "
        f"{format_rate(rate)} by {'+'.join(row['strategies'])} {shape}, "
        f"predicted {format_rate(size / row['predicted_s'])}"
    )
    if options.out:
        write(options.out, header(machine) | row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
