"""How near `planner.load` of cached files comes to one big copy of as many bytes.

    python benchmarks/load_speed.py --folder /dev/shm --sizes 8GB,100k

Cases: a size (a file of 32 tensors a GB), `100k` (8 GB in 100,000 tensors) and `cold` (1 GB, the
first load of a fresh process). Each round times, one after the other, one big copy out of
registered memory, an allocation of as many bytes, and a load with all that belongs to it: the
destination's allocation, the copies, the header, the first tensor. `--budget` and `--cores` bound
the pool. The tensors of a round are dropped before the next, as a program that swaps models does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

import numpy as np

import planner
from benchmarks.checkpoints import LENGTH, Table, data_bytes, even_table, header_of
from benchmarks.record import RESULTS, Clock, gpu_word, header, write
from planner.engine.backends.base import Backend, Engine, Lane
from planner.engine.measure import middle
from planner.engine.memory import HostBuffer
from planner.engine.serving.opening import open_for
from planner.units import format_rate, format_time, parse_size

GB = 10**9
MANY = 100_000
PINNED = 1 << 30
"""Bytes of the memory that the big copy comes out of, over and over."""
PIECE = 32 << 20
SHIFT = 8
"""Bytes that a copy is shifted by: the data of a file begins at a multiple of eight."""

CHILD = """
import sys, time
start = time.perf_counter()
import planner
imported = time.perf_counter()
found = planner.load(sys.argv[1], sys.argv[2])
first = time.perf_counter()
del found
again = time.perf_counter()
found = planner.load(sys.argv[1], sys.argv[2])
print(imported - start, first - imported, time.perf_counter() - again)
"""


def table_of(word: str) -> Table:
    """The tensors of a case."""
    if word == "100k":
        return even_table(8 * GB, MANY)
    size = GB if word == "cold" else parse_size(word)
    return even_table(size, max(1, 32 * size // GB))


def make(path: Path, table: Table) -> int:
    """Write the file with random bytes into the page cache, by several threads; its bytes."""
    head, size = header_of(table), data_bytes(table)
    front = len(head).to_bytes(LENGTH, "little") + head
    noise = memoryview(np.random.default_rng(7).bytes(PIECE))
    with path.open("wb", buffering=0) as file:
        file.write(front)
        file.truncate(len(front) + size)
        fd = file.fileno()

        def put(at: int) -> None:
            os.pwrite(fd, noise[: min(PIECE, size - at)], len(front) + at)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(put, range(0, size, PIECE)))
    return size


class Controls:
    """What the machine does without the loader: a big copy, and an allocation."""

    def __init__(self, backend: Backend, gpu: int) -> None:
        self.backend, self.gpu = backend, gpu
        backend.attach(gpu)
        self.memory = HostBuffer(PINNED + SHIFT)
        self.memory.touch(8)
        backend.register(self.memory.address, self.memory.size)
        self.lane: Lane = backend.lane(Engine("h2d", gpu), 1)

    def copy(self, size: int) -> float:
        """Seconds of a copy of so many bytes."""
        return self._run(size, 0, 0)

    def shifted(self) -> dict[str, float]:
        """Rates of copies whose source or target is not aligned, and of one where both are."""
        ways = {"aligned": (0, 0), "source": (SHIFT, 0), "target": (0, SHIFT)}
        return {
            name: PINNED / min(self._run(PINNED, a, b) for _ in range(3))
            for name, (a, b) in ways.items()
        }

    def _run(self, size: int, source: int, target: int) -> float:
        buffer = self.backend.allocate(self.gpu, size + SHIFT)
        try:
            parts = [
                (buffer.address + target + at, self.memory.address + source, min(PINNED, size - at))
                for at in range(0, size, PINNED)
            ]
            self.lane.copy_parts(0, parts[:1])
            self.lane.wait(0)
            start = perf_counter()
            self.lane.copy_parts(0, parts)
            self.lane.wait(0)
            return perf_counter() - start
        finally:
            self.backend.release(buffer)

    def allocate(self, size: int) -> tuple[float, float]:
        """Seconds of an allocation behind a release of as much, and of its own release."""
        self.backend.release(self.backend.allocate(self.gpu, size))
        start = perf_counter()
        buffer = self.backend.allocate(self.gpu, size)
        made = perf_counter()
        self.backend.release(buffer)
        return made - start, perf_counter() - made

    def close(self) -> None:
        """Give everything back."""
        self.lane.close()
        self.backend.close()
        self.memory.close()


def measured(
    word: str, path: Path, options: argparse.Namespace, controls: Controls, clock: Clock
) -> dict[str, Any]:
    """One case: so many rounds, or as many as there is time for."""
    table = table_of(word)
    size, names = make(path, table), list(table)
    rows: list[dict[str, Any]] = []
    with planner.Loader(backend=options.backend, budget=options.budget) as pool:
        for _ in range(options.rounds):
            row: dict[str, Any] = {"copy_s": controls.copy(size)}
            row["allocate_s"], row["release_s"] = controls.allocate(size)
            start = perf_counter()
            found = pool.load(path, options.gpu, cache=options.cache)
            row["load_s"] = perf_counter() - start
            row["tensor_s"] = _first_use(found, names[-1])
            report = found.report
            row |= {"moved_s": report.transfer_s, "setup_s": report.setup_s}
            row["notes"] = report.notes
            row["cached_bytes"] = report.buffered_bytes
            shape = asdict(report.schedule)
            row["shape"] = {key: shape[key] for key in ("workers", "depth", "chunk_bytes")}
            rows.append(row)
            del found, report
            if clock.left() < 3 * row["load_s"]:
                break
    path.unlink()
    middles = {
        key: middle([row[key] for row in rows])
        for key in ("copy_s", "allocate_s", "release_s", "load_s", "moved_s", "tensor_s")
    }
    return {
        "case": word,
        "size_bytes": size,
        "tensors": len(names),
        **rows[-1]["shape"],
        **middles,
        "load_rate_bytes_per_s": size / middles["load_s"],
        "share_of_copy": middles["copy_s"] / middles["load_s"],
        "rounds": rows,
    }


def _first_use(found: planner.TensorMap, name: str) -> float:
    """Seconds until the first tensor is at hand: names are made then."""
    start = perf_counter()
    assert found[name].nbytes
    return perf_counter() - start


def cold(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The first load of a fresh process, and its second."""
    size = make(path, table_of("cold"))
    command = [sys.executable, "-c", CHILD, str(path), f"cuda:{options.gpu}"]
    rounds = []
    for _ in range(min(3, options.rounds)):
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
        imported, first, again = (float(word) for word in out.split())
        rounds.append({"import_s": imported, "load_s": first, "again_s": again})
    path.unlink()
    middles = {key: middle([row[key] for row in rounds]) for key in rounds[0]}
    return {"case": "cold", "size_bytes": size, **middles, "rounds": rounds}


def line(row: dict[str, Any]) -> str:
    """A case in one line."""
    rate = format_rate(row["size_bytes"] / row["load_s"])
    text = f"{row['case']:>6}  load {format_time(row['load_s'])} ({rate})"
    if row["case"] == "cold":
        times = (format_time(row[key]) for key in ("import_s", "again_s"))
        return text + ", import {}, again {}".format(*times)
    words = ("copy", "moved", "allocate", "release", "tensor")
    parts = [f"{word} {format_time(row[word + '_s'])}" for word in words]
    return text + f", {row['share_of_copy']:.1%} of the copy; " + ", ".join(parts)


@contextlib.contextmanager
def on_cores(count: int | None) -> Iterator[None]:
    """Only so many cores for this process and what it starts."""
    before = os.sched_getaffinity(0)
    if count is not None:
        os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def parse() -> argparse.Namespace:
    """The command line."""
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))  # noqa: S108 - asked for
    parser.add_argument("--sizes", default="8GB,100k", help="8GB, 32GB, 100k, cold, by commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=55.0)
    parser.add_argument("--backend", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--cache", choices=("auto", "warm"), default="auto")
    parser.add_argument("--budget", default=None, help="most pinned memory, like 128MiB")
    parser.add_argument("--cores", type=int, default=None, help="only so many cores")
    parser.add_argument("-o", "--output", type=Path, default=None)
    return parser.parse_args()


def main() -> None:
    """Print a line a case, and write the result."""
    options, clock = parse(), Clock(None)
    clock.seconds = options.seconds
    body = header()
    rows = body["cases"] = []
    with on_cores(options.cores), tempfile.TemporaryDirectory(dir=options.folder) as place:
        path = Path(place) / "model.safetensors"
        words = [word for word in options.sizes.split(",") if word]
        if "cold" in words:  # before this process has a context
            words.remove("cold")
            rows.append(cold(path, options))
        controls = Controls(open_for(options.backend, options.gpu), options.gpu)
        about = controls.backend.describe([options.gpu])
        label = gpu_word(about.gpus[0]) if about.gpus and options.backend == "cuda" else "host"
        body |= {"gpu": list(about.gpus), "driver": about.driver, "libraries": about.libraries}
        try:
            body["shifted_copies_bytes_per_s"] = controls.shifted()
            rows.extend(measured(word, path, options, controls, clock) for word in words)
        finally:
            controls.close()
    body |= {"cores_used": options.cores, "budget": options.budget, "folder": str(options.folder)}
    for row in rows:
        sys.stdout.write(line(row) + "\n")
    shifted = {k: format_rate(v) for k, v in body["shifted_copies_bytes_per_s"].items()}
    sys.stdout.write(f"copies by what is shifted by 8 bytes: {json.dumps(shifted)}\n")
    write(options.output or RESULTS / f"load_speed-{label}-1.json", body)


if __name__ == "__main__":
    main()
