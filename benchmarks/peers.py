"""This project's `planner.load` beside the other loaders of safetensors files, in one run.

    python benchmarks/peers.py [--wheels FOLDER] [--budget 600] [--sizes 1GB,8GB,32GB,7b,100k]
                               [--cache warm,cold] [--loaders planner,kvikio]

The same file on the same machine: each loader in its default and in its best setting
(`peer_loaders.py`), each in a process of its own, in rounds whose order is shuffled. The CUDA
context stands before the clock starts; the clock stops after a device synchronisation with every
tensor usable. A cold file was synced and dropped from the page cache before each load, and the
cache was asked (mincore); on a virtual machine its host may still hold the bytes. Some tensors of
each load are compared with the file. Peak pinned memory is what the driver was asked for in the
first load (`pinned_watch.py`). A loader that is absent or fails is a row with its reason.

`--sizes` takes sizes (288 equal tensors), `7b` (the 291 tensors of Llama-2-7B) and `100k` (100,000
tensors in 8 GB). Results go to `benchmarks/results/peers-MACHINE.json`, row by row.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from psutil import virtual_memory

from benchmarks.checkpoints import Table, even_table, llama_7b, make
from benchmarks.peer_loaders import LOADERS, Cache, Setting
from benchmarks.peer_process import Child, unpack
from benchmarks.record import RESULTS, Clock, gpu_word, header, write
from planner.engine import pagecache
from planner.engine.here import here
from planner.engine.measure import middle
from planner.machine.discover_gpus import read_gpus
from planner.plan.schema import FileSource
from planner.units import format_rate, format_size, format_time, parse_size

GB = 10**9
SIZES = "8GB,1GB,7b,100k,32GB"
"""The order in which a budget is spent."""
ROUNDS: dict[Cache, int] = {"warm": 4, "cold": 2}
MOST_COLD = 10 * GB
"""Bytes of the largest file that is read cold: a load of 8 GB takes 5 s at 1.5 GB/s."""
SLOW_S, SLOWEST_S = 2.0, 8.0
"""A loader that takes so long is loaded twice, or once, unless it is among the fastest: what reads
from the disk takes that long with every loader."""
LEAD = 4
"""The fastest of the others, who take part in every round."""
HOST_SHARE = 0.25
"""Of the free memory, what a loader may pin: those that pin the whole file stay out of larger."""
TENSORS = 288
SEED = 20261129


@dataclass
class Entrant:
    """A loader in one job: its process, and what it measured."""

    setting: Setting
    child: Child
    seconds: list[float] = field(default_factory=list)
    pinned: int | None = None
    pinned_reason: str = ""
    verified: bool = True
    reason: str = ""
    states: set[str] = field(default_factory=set)

    @property
    def steady(self) -> float | None:
        """The median behind the first load; of the first, where there is no other."""
        return middle(self.seconds[1:] or self.seconds) if self.seconds else None

    def wants(self, turn: int, cache: Cache) -> bool:
        """Whether it takes part in this round though it is not among the fastest."""
        if self.reason or not self.seconds:
            return not self.reason
        slowest = max(self.seconds)
        if slowest > SLOWEST_S or (slowest > SLOW_S and cache == "cold"):
            return turn < 1
        return turn < 2 or slowest <= SLOW_S

    def row(self, file: str, size: int, tensors: int, cache: str) -> dict[str, Any]:
        """The row as it is written down."""
        median = self.steady
        return {
            "loader": self.setting.loader,
            "version": self.child.version,
            "setting": self.setting.setting,
            "file": file,
            "size_bytes": size,
            "tensors": tensors,
            "cache": "/".join(sorted(self.states)) or cache,
            "seconds": median,
            "first_s": self.seconds[0] if self.seconds else None,
            "samples_s": self.seconds,
            "rate_bytes_per_s": size / median if median else None,
            "peak_pinned_bytes": self.pinned,
            "pinned_reason": self.pinned_reason,
            "verified": self.verified if self.seconds else None,
            "reason": self.reason,
        }


def tables(words: Sequence[str], scale: float) -> dict[str, Table]:
    """The files to make, by their names."""
    found: dict[str, Table] = {}
    for word in words:
        if word == "7b":
            whole = llama_7b()
            shrink = max(1, round(1 / scale))
            found[word] = {n: (max(1, s[0] // shrink), *s[1:]) for n, s in whole.items()}
        elif word == "100k":
            found[word] = even_table(int(8 * GB * scale), 100_000)
        else:
            found[word] = even_table(int(parse_size(word) * scale), TENSORS)
    return found


def source_of(path: Path) -> FileSource:
    """The whole file."""
    return FileSource(path=str(path), offset=0, size_bytes=path.stat().st_size)


def prepare(path: Path, cache: Cache) -> str:
    """Bring the file into its state, and say what the kernel says of it."""
    sources = [source_of(path)]
    if cache == "warm" and pagecache.resident(sources) < pagecache.WARM:
        pagecache.warm(sources)
    return pagecache.enforce(sources, 1.0 if cache == "warm" else 0.0)


class Contest:
    """All jobs of a run."""

    def __init__(self, options: argparse.Namespace, clock: Clock, body: dict[str, Any]) -> None:
        self.options, self.clock, self.body = options, clock, body
        self.random = random.Random(SEED)  # noqa: S311 - a seeded order is the point
        self.rows: list[dict[str, Any]] = []
        self.site: list[Path] = []
        self.newer: Path | None = None

    def entrants(self, cache: Cache, size: int) -> list[Entrant]:
        """Processes of all loaders that are asked for, started together."""
        words = [word for word in self.options.loaders.split(",") if word]
        chosen = [
            one
            for one in LOADERS
            if cache in one.caches
            and (not words or any(word in one.loader for word in words))
            and (one.loader == "planner" or self.options.settings in ("all", one.kind))
        ]
        found = []
        for one in chosen:
            path = [self.newer, *self.site] if one.newer and self.newer else self.site
            child = Child(one, self.options.device, path, self.options.python, size)
            found.append(Entrant(one, child))
        for entrant in found:
            entrant.reason = entrant.child.ready()
        return found

    def job(self, name: str, path: Path, tensors: int, cache: Cache) -> None:
        """All rounds of one file in one state."""
        size = path.stat().st_size
        entrants = self.entrants(cache, size)
        for entrant in entrants:
            if entrant.setting.pins_file and size > HOST_SHARE * virtual_memory().available:
                entrant.reason = f"it would pin the whole file: {format_size(size)}"
        if cache == "warm":
            # Whoever reads freshly written pages first also pays for marking them as used.
            pagecache.warm([source_of(path)])
        try:
            for turn in range(self.options.rounds or ROUNDS[cache]):
                lead = leading(entrants)
                order = [e for e in entrants if e in lead or e.wants(turn, cache)]
                self.random.shuffle(order)
                for entrant in order:
                    self._load(entrant, path, cache, first=turn == 0)
        finally:
            for entrant in entrants:
                entrant.child.close()
        rows = [entrant.row(name, size, tensors, cache) for entrant in entrants]
        self.rows += rows
        show(rows, f"{name}, {cache}: {format_size(size)} in {tensors} tensors")
        self.save()

    def _load(self, entrant: Entrant, path: Path, cache: Cache, *, first: bool) -> None:
        """One load, unless the budget ends before it would."""
        slow = max(entrant.seconds, default=path.stat().st_size / GB if cache == "cold" else 0.0)
        if slow > self.clock.left():
            if first:
                entrant.reason = "not measured: the budget of the run was spent"
            return
        entrant.states.add(prepare(path, cache))
        found = entrant.child.load(path, watch=first and self.options.watch)
        if "failed" in found:
            entrant.reason = found["failed"]
            return
        entrant.seconds.append(found["seconds"])
        if not found["verified"]:
            entrant.verified = False
            wrong = ", ".join(found["wrong"]) or f"{found['tensors']} tensors came"
            entrant.reason = f"differs from the file: {wrong}"
        if first:
            entrant.pinned, entrant.pinned_reason = found["pinned_bytes"], found["pinned_reason"]

    def save(self) -> None:
        """Write what there is."""
        self.body |= {"rows": self.rows, "summary": standings(self.rows)}
        write(self.options.out, self.body)


def leading(entrants: Sequence[Entrant]) -> list[Entrant]:
    """The project's own, and the fastest of the others so far."""
    there = [entrant for entrant in entrants if entrant.seconds and not entrant.reason]
    others = [entrant for entrant in there if entrant.setting.loader != "planner"]
    others.sort(key=lambda entrant: min(entrant.seconds))
    return [e for e in there if e.setting.loader == "planner"] + others[:LEAD]


def standings(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each file and state the project's best row beside the best of all others."""
    found = []
    for file, cache in dict.fromkeys((row["file"], row["cache"]) for row in rows):
        there = [r for r in rows if (r["file"], r["cache"]) == (file, cache) and r["seconds"]]
        own = [row for row in there if row["loader"] == "planner"]
        others = [row for row in there if row["loader"] != "planner"]
        if not own or not others:
            continue
        ours, best = (min(side, key=lambda row: row["seconds"]) for side in (own, others))
        first = min(others, key=lambda row: row["first_s"])
        found.append(
            {
                "file": file,
                "cache": cache,
                "seconds": ours["seconds"],
                "best_other": f"{best['loader']}, {best['setting']}",
                "best_other_s": best["seconds"],
                "times_as_fast": best["seconds"] / ours["seconds"],
                "first_s": ours["first_s"],
                "best_other_first": f"{first['loader']}, {first['setting']}",
                "best_other_first_s": first["first_s"],
                "times_as_fast_first": first["first_s"] / ours["first_s"],
            }
        )
    return found


def show(rows: Sequence[dict[str, Any]], title: str) -> None:
    """A table for people, the fastest first."""
    print(title)
    for row in sorted(rows, key=lambda row: row["seconds"] or float("inf")):
        name = f"  {row['loader']} {row['version'] or ''}, {row['setting']}"
        if row["seconds"] is None:
            print(f"{name:72} {row['reason']}")
            continue
        pinned = row["peak_pinned_bytes"]
        held = row["pinned_reason"] if pinned is None else f"{format_size(pinned)} pinned"
        print(
            f"{name:72} {format_time(row['seconds']):>9} {format_rate(row['rate_bytes_per_s']):>10}"
            f"  first {format_time(row['first_s']):>9}  {held}  {row['reason']}",
            flush=True,
        )


@contextlib.contextmanager
def folders(options: argparse.Namespace) -> Iterator[tuple[Path, list[Path], Path | None]]:
    """A folder for the file, and those of the unpacked wheels; removed on every way out."""
    with contextlib.ExitStack() as undo:
        place = undo.enter_context(tempfile.TemporaryDirectory(prefix="peers-", dir=options.folder))
        if options.wheels is None:
            yield Path(place), [], None
            return
        packages = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="packages-")))
        unpack(options.wheels.glob("*.whl"), packages / "all")
        newer = list(options.wheels.glob("*/*.whl"))
        unpack(newer, packages / "newer")
        yield Path(place), [packages / "all"], packages / "newer" if newer else None


def main() -> int:
    """Run all jobs that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--cache", default="warm,cold")
    parser.add_argument("--loaders", default="", help="words in the names of those to run")
    parser.add_argument("--settings", default="all", choices=("all", "default", "best"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--budget", type=float, help="seconds in all")
    parser.add_argument("--wheels", type=Path, help="folder of the loaders' wheels")
    parser.add_argument("--folder", type=Path, help="where the file is written")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the loaders")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every size")
    parser.add_argument("--no-watch", dest="watch", action="store_false", help="no pinned memory")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    clock = Clock(options.budget)
    gpus = read_gpus(Path("/"))
    label = f"{gpu_word(gpus.gpus[0].name)}-{len(gpus.gpus)}" if gpus.gpus else "host"
    options.out = options.out or RESULTS / f"peers-{label}.json"
    machine = here()  # calibrated before any clock runs; the loads read it from the cache
    body = header(machine) | {"machine": label, "device": options.device}
    contest = Contest(options, clock, body)
    with folders(options) as (place, contest.site, contest.newer):
        for name, table in tables(options.sizes.split(","), options.scale).items():
            path = place / "model.safetensors"
            size = make(path, table)
            try:
                for cache in ROUNDS:
                    if cache in options.cache.split(",") and not (
                        cache == "cold" and (size > MOST_COLD or name in ("7b", "100k"))
                    ):
                        contest.job(name, path, len(table), cache)
            finally:
                path.unlink()
    for row in standings(contest.rows):
        print(
            f"{row['file']}, {row['cache']}: {row['times_as_fast']:.2f} times as fast as "
            f"{row['best_other']}; first {row['times_as_fast_first']:.2f} times"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
