"""How near `planner.load` of cached files comes to one big copy of as many bytes.

    python benchmarks/load_speed.py [--folder FOLDER] --sizes 8GB,100k,memory:8GB [--seconds 120]

Cases: a size (a file of 32 tensors a GB), `100k` (8 GB in 100,000 tensors), `memory:8GB` (as many
bytes of ordinary memory, by `planner.transfer`) and `cold` (1 GB, the first load of a fresh
process). Each round times, one after the other, one big copy out of registered memory, a load with
all that belongs to it (the destination's allocation, the copies, the header, the first tensor), and
the stage before the copies alone (`load_controls.py`); an allocation of as many bytes is timed
behind the rounds. `share_of_copy` is the big copy over the load, `share_of_ceiling` the slower of
the two stages over it. `--budget` and `--cores` bound the pool, `--seconds` the whole program.

What a load has made is given back right behind its last use, and `--pause` seconds pass before the
next copy and load (`load_cases.PAUSE_S` says why); each round has in `since_release_s` the seconds
between the last release of GPU memory and its load.

Results go to `benchmarks/results/load_speed-MACHINE.json`, round by round; a case that fails is a
row with its reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.checkpoints import data_bytes
from benchmarks.load_cases import MEMORY, PAUSE_S, Case, cold, table_of
from benchmarks.load_controls import Controls
from benchmarks.record import RESULTS, Clock, gpu_word, header, leave_on_sigterm, told, write
from planner.engine.calibrate import backend_name
from planner.engine.scratch import require_space
from planner.engine.serving.opening import open_for
from planner.errors import InfeasibleError
from planner.units import format_rate, format_time


def line(row: dict[str, Any]) -> str:
    """A case in one line."""
    if "load_s" not in row:
        return f"{row['case']:>10}  {row['reason']}"
    rate = format_rate(row["size_bytes"] / row["load_s"])
    text = f"{row['case']:>10}  load {format_time(row['load_s'])} ({rate})"
    if row["case"] == "cold":
        times = (format_time(row[key]) for key in ("import_s", "again_s"))
        return text + ", import {}, again {}".format(*times)
    words = ("copy", "stage", "moved", "allocate", "release", "tensor")
    parts = [f"{word} {format_time(row[word + '_s'])}" for word in words if word + "_s" in row]
    shares = f"{row['share_of_copy']:.1%} of the copy, {row['share_of_ceiling']:.1%} of the ceiling"
    return f"{text}, {shares}; {', '.join(parts)}  {row.get('reason', '')}"


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
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--sizes", default="8GB,100k", help="8GB, memory:8GB, 100k, cold")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=55.0, help="for the whole program")
    parser.add_argument("--backend", choices=("auto", "cuda", "host"), default="auto")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--cache", choices=("auto", "warm"), default="auto")
    parser.add_argument("--budget", default=None, help="most pinned memory, like 128MiB")
    parser.add_argument("--cores", type=int, default=None, help="only so many cores")
    parser.add_argument("--pause", type=float, default=None, help="seconds before copy and load")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    options.backend = backend_name(options.backend)
    if options.pause is None:  # no driver cleans up where host memory stands in
        options.pause = PAUSE_S if options.backend == "cuda" else 0.0
    return options


def place_for(folder: Path, word: str) -> Path:
    """The folder, or the one for temporary files where a memory file system is too small."""
    try:
        size = 0 if word.startswith(MEMORY) else data_bytes(table_of(word))
        require_space(folder, size)
    except InfeasibleError as error:
        other = Path(tempfile.gettempdir())
        print(f"{word}: {error.message}: {other} is taken", file=sys.stderr)
        return other
    return folder


class Bench:
    """The cases of a run and the file that they go to."""

    def __init__(self, options: argparse.Namespace, clock: Clock) -> None:
        self.options, self.clock = options, clock
        self.body = header()
        self.rows: list[dict[str, Any]] = []
        self.out: Path | None = options.output
        more = {"cores_used": options.cores, "budget": options.budget, "pause_s": options.pause}
        self.body |= more | {"folder": str(options.folder)}

    def save(self, more: dict[str, Any] | None = None) -> None:
        """Write what there is."""
        self.body["cases"] = [*self.rows, more] if more else self.rows
        if self.out is not None:
            write(self.out, self.body)

    def case(self, word: str, do: Callable[[Path], dict[str, Any]]) -> None:
        """One case in a folder of its own; what it raises is its reason."""
        if self.clock.left() <= 0:
            self.add({"case": word, "reason": "not measured: the time of the run was spent"})
            return
        try:
            with tempfile.TemporaryDirectory(dir=place_for(self.options.folder, word)) as place:
                row = do(Path(place) / "model.safetensors")
        except Exception as error:  # noqa: BLE001 - one case's failure must not lose the others
            row = {"case": word, "reason": told(error)}
        self.add(row)

    def add(self, row: dict[str, Any]) -> None:
        """A finished case: told and written down."""
        self.rows.append(row)
        print(line(row), flush=True)
        self.save()


def main() -> None:
    """Print a line a case, and write the result."""
    options = parse()
    clock = Clock(options.seconds)
    leave_on_sigterm()
    bench = Bench(options, clock)
    words = [word for word in options.sizes.split(",") if word]
    with on_cores(options.cores):
        if "cold" in words:  # before this process has a context
            words.remove("cold")
            bench.case("cold", lambda path: cold(path, options))
        with contextlib.closing(
            Controls(open_for(options.backend, options.gpu), options.gpu)
        ) as controls:
            about = controls.backend.describe([options.gpu])
            label = gpu_word(about.gpus[0]) if about.gpus and options.backend == "cuda" else "host"
            bench.out = bench.out or RESULTS / f"load_speed-{label}-1.json"
            bench.body |= {"gpu": list(about.gpus), "driver": about.driver}
            bench.body["libraries"] = about.libraries
            shifted = bench.body["shifted_copies_bytes_per_s"] = controls.shifted()
            rates = {key: format_rate(value) for key, value in shifted.items()}
            print(f"copies by what is shifted by 8 bytes: {json.dumps(rates)}")
            for word in words:
                one = Case(word, options, controls)
                bench.case(word, lambda path, one=one: one.run(path, clock, bench.save))  # type: ignore[misc]
        bench.save()


if __name__ == "__main__":
    main()
