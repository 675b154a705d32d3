"""The cases of `load_speed.py`: what is loaded, round by round, and what the rounds say."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import planner
from benchmarks.checkpoints import Table, data_bytes, even_table, make
from benchmarks.load_controls import PYTHON, Controls, filling, from_memory, reading
from benchmarks.record import Clock, told
from planner.engine.measure import middle
from planner.engine.memory import HostBuffer
from planner.engine.serving.loader import MAPPED
from planner.units import parse_size

GB = 10**9
MANY = 100_000
MEMORY = "memory:"
CHILD_S = 60.0
"""Seconds that a fresh process may take."""
PAUSE_S = 1.0
"""Seconds between what a round has given back and the next round's copy and load. The driver seems
to clean up behind a release, 1.6 ms for each GB on an H200, and whatever runs meanwhile is slower:
this leaves it ten times what 64 GB take. A program that loads a model has not given back as much a
moment before."""
REST_S = 0.1
"""Seconds between the copy and the load, so that both begin while nothing runs."""
MIDDLES = (
    "copy_s",
    "stage_s",
    "load_s",
    "moved_s",
    "tensor_s",
)

CHILD = """
import sys, time
start = time.perf_counter()
import planner
imported = time.perf_counter()
with planner.Loader(backend=sys.argv[3]) as once:
    load = planner.load if sys.argv[3] == "cuda" else once.load
    found = load(sys.argv[1], sys.argv[2])
    first = time.perf_counter()
    del found
    again = time.perf_counter()
    found = load(sys.argv[1], sys.argv[2])
    print(imported - start, first - imported, time.perf_counter() - again)
"""

Save = Callable[[dict[str, Any]], None]
"""Writes down what there is with this row at the end."""


def table_of(word: str) -> Table:
    """The tensors of a case."""
    if word == "100k":
        return even_table(8 * GB, MANY)
    size = GB if word == "cold" else parse_size(word)
    return even_table(size, max(1, 32 * size // GB))


class Case:
    """One case: what is loaded, its rounds so far, and what they say."""

    def __init__(self, word: str, options: argparse.Namespace, controls: Controls) -> None:
        self.word, self.options, self.controls = word, options, controls
        self.rows: list[dict[str, Any]] = []
        self.allocation: dict[str, float] = {}
        self.size = self.tensors = 0

    def run(self, path: Path, clock: Clock, save: Save) -> dict[str, Any]:
        """So many rounds, or as many as there is time for."""
        options = self.options
        try:
            with (
                planner.Loader(backend=options.backend, budget=options.budget) as pool,
                self._ready(path, pool) as once,
            ):
                longest = 0.0
                for turn in range(options.rounds):
                    begun = clock.spent()
                    if turn and clock.left() < longest:
                        break
                    self.rows.append(self._round(once, clock))
                    longest = max(longest, clock.spent() - begun)
                    save(self.row())
                made, released = self.controls.allocate(self.size)  # behind the loads
                self.allocation = {"allocate_s": made, "release_s": released}
        except Exception as error:
            if not self.rows:
                raise
            return self.row() | {"reason": told(error)}
        finally:
            path.unlink(missing_ok=True)
        return self.row()

    def _round(self, once: Callable[[], dict[str, Any]], clock: Clock) -> dict[str, Any]:
        """The copy, then the load and its stage, each behind a pause that the clock allows."""
        pause = self.options.pause
        time.sleep(max(0.0, min(pause, clock.left())))
        row = {"copy_s": self.controls.copy(self.size)}
        time.sleep(max(0.0, min(pause, REST_S, clock.left())))
        return row | once()

    @contextlib.contextmanager
    def _ready(self, path: Path, pool: planner.Loader) -> Iterator[Callable[[], dict[str, Any]]]:
        """What is loaded, made; gives the function that loads it and measures its stage."""
        if self.word.startswith(MEMORY):
            self.size = parse_size(self.word.removeprefix(MEMORY))
            with contextlib.closing(HostBuffer(self.size)) as source:
                source.fill(7, 8)
                yield lambda: self._moved(source, pool)
        else:
            table = table_of(self.word)
            self.size, self.tensors = data_bytes(table), len(table)
            make(path, table)
            yield lambda: self._loaded(path, list(table)[-1], pool)

    def _loaded(self, path: Path, last: str, pool: planner.Loader) -> dict[str, Any]:
        """A load of the file, and, once its memory is given back, the stage that brings the bytes.

        The stage takes nothing of the GPU's memory, so it fills the time behind the release.
        """
        row: dict[str, Any] = {"since_release_s": self.controls.since_release()}
        start = perf_counter()
        found = pool.load(path, self.options.gpu, cache=self.options.cache)
        row["load_s"] = perf_counter() - start
        row["tensor_s"] = _first_use(found, last)
        report = found.report
        del found
        self._give_back()
        if MAPPED in report.notes:
            row["stage_s"] = self.controls.registering(path, report.schedule.chunk_bytes)
            row["stage_by"] = PYTHON
        else:
            row["stage_by"], row["stage_s"] = reading(path, self.size, report.schedule)
        return row | _about(report)

    def _moved(self, source: HostBuffer, pool: planner.Loader) -> dict[str, Any]:
        """The memory brought into the GPU, and likewise the stage that copies it."""
        row: dict[str, Any] = {"since_release_s": self.controls.since_release()}
        start = perf_counter()
        target = self._target()
        report = pool.transfer(source.array, target).result()
        row |= {"load_s": perf_counter() - start, "tensor_s": 0.0}
        del target
        self._give_back()
        row["stage_s"] = filling(self.size, report.schedule, from_memory(source))
        row["stage_by"] = PYTHON
        return row | _about(report)

    def _target(self) -> Any:
        """New memory of the GPU, of the host where it stands in."""
        if self.options.backend == "host":
            return np.empty(self.size, np.uint8)
        import cupy

        with cupy.cuda.Device(self.options.gpu):
            return cupy.empty(self.size, cupy.uint8)

    def _give_back(self) -> None:
        """What a load had goes back to the driver, that which CuPy keeps, too; noted when."""
        if "cupy" in sys.modules and self.options.backend == "cuda":
            cupy = sys.modules["cupy"]
            with cupy.cuda.Device(self.options.gpu):
                cupy.get_default_memory_pool().free_all_blocks()
        self.controls.note_release()

    def row(self) -> dict[str, Any]:
        """As it is written down; without a round only what it is."""
        about = {"case": self.word, "size_bytes": self.size, "tensors": self.tensors}
        if not self.rows:
            return about | {"reason": "not measured: there was no time for a round"}
        middles = {key: middle([row[key] for row in self.rows]) for key in MIDDLES}
        load = middles["load_s"]
        return {
            **about,
            **self.rows[-1]["shape"],
            **middles,
            **self.allocation,
            "load_rate_bytes_per_s": self.size / load,
            "share_of_copy": middles["copy_s"] / load,
            "share_of_ceiling": max(middles["copy_s"], middles["stage_s"]) / load,
            "rounds": self.rows,
        }


def _about(report: Any) -> dict[str, Any]:
    """What the loader says of a load."""
    shape = asdict(report.schedule)
    return {
        "moved_s": report.transfer_s,
        "setup_s": report.setup_s,
        "notes": report.notes,
        "cached_bytes": report.buffered_bytes,
        "pinned_bytes": report.pinned_bytes,
        "shape": {key: shape[key] for key in ("workers", "depth", "chunk_bytes", "origin")},
    }


def _first_use(found: planner.TensorMap, name: str) -> float:
    """Seconds until the first tensor is at hand: names are made then."""
    start = perf_counter()
    assert found[name].nbytes
    return perf_counter() - start


def cold(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The first load of a fresh process, and its second."""
    table = table_of("cold")
    make(path, table)
    command = [sys.executable, "-c", CHILD, str(path), f"cuda:{options.gpu}", options.backend]
    rounds = []
    try:
        for _ in range(min(3, options.rounds)):
            done = subprocess.run(  # noqa: S603 - our own lines
                command, capture_output=True, text=True, check=False, timeout=CHILD_S
            )
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:]
                raise RuntimeError(f"a fresh process left with {done.returncode}: {last}")
            imported, first, again = (float(word) for word in done.stdout.split())
            rounds.append({"import_s": imported, "load_s": first, "again_s": again})
    finally:
        path.unlink()
    middles = {key: middle([row[key] for row in rounds]) for key in rounds[0]}
    return {"case": "cold", "size_bytes": data_bytes(table), **middles, "rounds": rounds}
