"""This project's `planner.load` beside the other loaders of safetensors files, in one run.

    python benchmarks/peers.py [--wheels FOLDER] [--budget 540] [--sizes 1GB,8GB,32GB,7b,100k]
                               [--cache warm,cold] [--loaders planner,kvikio]

The same file on the same machine: each loader in its default and in its best setting
(`peer_loaders.py`), each in a process of its own, in rounds whose order is shuffled; a few of them
at a time, this project among them every time. The CUDA
context stands before the clock starts; the clock stops after a device synchronisation with every
tensor usable. A cold file was synced and dropped from the page cache before each load, and the
cache was asked (mincore); on a virtual machine its host may still hold the bytes. Some tensors of
each load are compared with the file. Peak pinned memory is what the driver is asked for in a load
by another process, behind the timed ones: to watch the driver's calls (`pinned_watch.py`) costs
time. A loader that is absent, fails or hangs is a row with its reason; what the budget leaves out
is told under `left_out`.

`--sizes` takes sizes (288 equal tensors), `7b` (the 291 tensors of Llama-2-7B) and `100k` (100,000
tensors in 8 GB). Results go to `benchmarks/results/peers-MACHINE.json`, load by load.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.checkpoints import Table, data_bytes, even_table, make, tables
from benchmarks.peer_loaders import Cache, Setting, chosen_loaders, find
from benchmarks.peer_process import Child, Nobody, all_ready, close_all, unpack
from benchmarks.peer_rows import Entrant, Peak, leading, show, show_standings, standings, waves
from benchmarks.pinned_watch import build
from benchmarks.record import RESULTS, Clock, gpu_word, header, leave_on_sigterm, write
from planner.engine import pagecache
from planner.engine.here import here
from planner.engine.room import free_memory
from planner.errors import PlannerError
from planner.machine.discover_gpus import read_gpus
from planner.machine.schema import Machine, Ram
from planner.plan.schema import FileSource
from planner.units import format_size

GB = 10**9
SIZES = "8GB,1GB,7b,100k,32GB"
"""The order in which a budget is spent."""
ROUNDS: dict[Cache, int] = {"warm": 4, "cold": 2}
MOST_COLD = 10 * GB
"""Bytes of the largest file that is read cold: a load of 8 GB takes 5 s at 1.5 GB/s."""
HOST_SHARE = 0.5
"""Of the free memory, what a loader may pin: those that pin the whole file stay out of larger."""
DISK = 0.9e9
"""Bytes/s at which a file is written, about; whether a file can still be made is judged by it."""
START_S = 20.0
"""Seconds in which all processes are up, about."""
SEED = 20261129
SPENT = "not measured: the budget of the run was spent"
MOST = 8
"""Processes with a context at once: of eighteen on one H200 nine could make none ("out of memory",
2026-11-30), with 130 GB free."""
CANARY = ("torch pin_memory", "best (two 64 MiB buffers)")
CANARY_PINNED = 2 * 64 * 2**20
"""What it pins, whatever it loads."""


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

    def __init__(
        self, options: argparse.Namespace, clock: Clock, machine: Machine, body: dict[str, Any]
    ) -> None:
        self.options, self.clock, self.machine, self.body = options, clock, machine, body
        self.random = random.Random(SEED)  # noqa: S311 - a seeded order is the point
        self.rows: list[dict[str, Any]] = []
        self.left_out: dict[str, str] = {}
        self.site: list[Path] = []
        self.newer: Path | None = None
        self.watch: Path | None = None
        self._absent: dict[tuple[str, str], str] = {}
        self._paces: dict[tuple[str, str, Cache], float] = {}
        self._peaks: dict[tuple[str, str, str], Peak] = {}

    def start(self, setting: Setting, *, watched: bool = False) -> Child:
        """A loader's process; it is not ready yet."""
        site = [self.newer, *self.site] if setting.newer and self.newer else self.site
        options, watch = self.options, self.watch if watched else None
        return Child(setting, options.device, site, options.python, watch=watch)

    def check_watch(self, folder: Path) -> None:
        """Let one process count what is known; unless it comes out right, nobody's is counted."""
        if not self.options.watch:
            return
        path, reason = folder / "canary.safetensors", ""
        try:
            self.watch = build(folder)
            make(path, even_table(2**20, 2))
            child = self.start(find(*CANARY), watched=True)
            try:
                reason = child.ready(left=self.clock.left())
                found = {} if reason else child.load(path)
            finally:
                close_all([child])
            reason = reason or found.get("failed", "") or found["pinned_reason"]
            if not reason and found["pinned_bytes"] != CANARY_PINNED:
                reason = f"it counted {found['pinned_bytes']} bytes of {CANARY_PINNED}"
        except (RuntimeError, OSError, PlannerError) as error:
            reason = str(error)
        self.body["pinned_watch"] = reason or "counts right"
        if reason:
            self.watch = None
            print(f"pinned memory is not counted: {reason}", file=sys.stderr)

    def entrants(self, cache: Cache) -> list[Entrant]:
        """Loaders that are asked for; nobody's process is started."""
        chosen = chosen_loaders(self.options.loaders, self.options.settings, cache)
        return [Entrant(one, Nobody()) for one in chosen]

    def start_all(self, wave: Sequence[Entrant]) -> None:
        """Start the processes of a wave together."""
        there = [entrant for entrant in wave if entrant.names not in self._absent]
        children: list[Child] = []
        try:
            children.extend(self.start(entrant.setting) for entrant in there)
            reasons = all_ready(children, self.clock.left)
        except BaseException:
            close_all(children)
            raise
        for entrant, child, reason in zip(there, children, reasons, strict=True):
            spent = self.clock.left() <= 0
            if reason:
                self._absent[entrant.names] = f"{SPENT} ({reason})" if spent else reason
            entrant.renew(child)
        for entrant in wave:
            entrant.reason = entrant.reason or self._absent.get(entrant.names, "")

    def job(self, name: str, path: Path, tensors: int, cache: Cache) -> None:
        """All rounds of one file in one state."""
        size = path.stat().st_size
        entrants = self.entrants(cache)
        host = self.machine.nodes.get("host0")
        room = free_memory(host) if isinstance(host, Ram) else 0
        for entrant in entrants:
            entrant.expected = size * self._paces.get((*entrant.names, cache), 0.0)
            if entrant.setting.pins_file and size > HOST_SHARE * room:
                entrant.reason = f"it would pin the whole file: {format_size(size)}"
        if cache == "warm":
            # Whoever reads freshly written pages first also pays for marking them as used.
            pagecache.warm([source_of(path)])
        for wave in waves(entrants, MOST):
            try:
                self.start_all(wave)
                for turn in range(self.options.rounds or ROUNDS[cache]):
                    for entrant in self._order(wave, turn, cache):
                        self._load(entrant, path, cache, first=turn == 0)
                        self.save([e.row(name, size, tensors, cache) for e in entrants])
            finally:
                close_all(entrant.child for entrant in wave)
        self._count(name, path, entrants, cache)
        rows = [entrant.row(name, size, tensors, cache) for entrant in entrants]
        self.rows += rows
        for entrant in entrants:
            if entrant.steady:
                self._paces[(*entrant.names, cache)] = entrant.steady / size
        show(rows, f"{name}, {cache}: {format_size(size)} in {tensors} tensors")
        self.save()

    def _order(self, wave: Sequence[Entrant], turn: int, cache: Cache) -> list[Entrant]:
        """Who loads in this round, shuffled."""
        lead = leading(wave)
        order = [e for e in wave if e in lead or e.wants(turn, cache)]
        self.random.shuffle(order)
        if turn == 0:  # a budget that ends here should not cost the fastest
            order.sort(key=lambda entrant: entrant.expected)
        return order

    def _load(self, entrant: Entrant, path: Path, cache: Cache, *, first: bool) -> None:
        """One load, unless the budget ends before it would."""
        expected = max(entrant.seconds, default=entrant.expected)
        if cache == "cold" and not entrant.seconds:
            expected = max(expected, path.stat().st_size / GB)
        left = self.clock.left()
        if left <= expected:
            if first and not entrant.seconds:
                entrant.reason = SPENT
            return
        state = prepare(path, cache)
        if not state.endswith(cache):  # on a virtual machine it is `guest-cold`
            entrant.reason = f"the file could not be made {cache}: it is {state}"
            return
        if isinstance(entrant.child, Nobody):
            return
        entrant.states.add(state)
        found = entrant.child.load(path, max(1.0, self.clock.left()))
        if "failed" in found and self.clock.left() <= 0:
            found["failed"] = f"{SPENT} ({found['failed']})"
        entrant.took(found)

    def _count(self, name: str, path: Path, entrants: Sequence[Entrant], cache: Cache) -> None:
        """The pinned memory of those that have loaded the file, once for all its states."""
        loaded = [entrant for entrant in entrants if entrant.seconds and not entrant.reason]
        new = [entrant for entrant in loaded if (*entrant.names, name) not in self._peaks]
        for at in range(0, len(new) if self.watch else 0, MOST):
            group = new[at : at + MOST]
            for entrant, peak in zip(group, self._watched(group, path, cache), strict=True):
                self._peaks[(*entrant.names, name)] = peak
        for entrant in entrants:
            entrant.peak = self._peaks.get((*entrant.names, name), Peak())

    def _watched(self, group: Sequence[Entrant], path: Path, cache: Cache) -> list[Peak]:
        """One load by each, in new processes, which pay for being watched and end behind it."""
        if self.clock.left() < START_S * self.options.scale:
            return [Peak(reason=SPENT)] * len(group)
        children: list[Child] = []
        peaks: list[Peak] = []
        try:
            children.extend(self.start(entrant.setting, watched=True) for entrant in group)
            reasons = all_ready(children, self.clock.left)
            for entrant, child, reason in zip(group, children, reasons, strict=True):
                left = self.clock.left()
                if reason or left <= max(entrant.seconds):
                    peaks.append(Peak(reason=reason or SPENT))
                    continue
                state = prepare(path, cache)
                peaks.append(Peak.of(child.load(path, max(1.0, left)), state))
        finally:
            close_all(children)
        return peaks

    def file(self, name: str, place: Path, table: Table) -> None:
        """All jobs of one file, which is made for them and removed."""
        path, size = place / "model.safetensors", data_bytes(table)
        wanted: list[Cache] = [
            cache
            for cache in ROUNDS
            if cache in self.options.cache.split(",")
            and not (cache == "cold" and (size > MOST_COLD or name in ("7b", "100k")))
        ]
        needed = size / DISK + START_S * self.options.scale
        if self.clock.left() < needed:
            self.left_out |= {f"{name}, {cache}": SPENT for cache in wanted}
            self.save()
            return
        try:
            make(path, table)
            for cache in wanted:
                if self.clock.left() < START_S * self.options.scale:
                    self.left_out[f"{name}, {cache}"] = SPENT
                else:
                    self.job(name, path, len(table), cache)
        except (OSError, PlannerError) as error:
            self.left_out[name] = f"{type(error).__name__}: {error}"
        finally:
            path.unlink(missing_ok=True)
            self.save()

    def save(self, more: Sequence[dict[str, Any]] = ()) -> None:
        """Write what there is."""
        rows = [*self.rows, *more]
        self.body |= {"rows": rows, "summary": standings(rows), "left_out": self.left_out}
        self.body["spent_s"] = self.clock.spent()
        write(self.options.out, self.body)


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


def parse() -> argparse.Namespace:
    """The command line."""
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
    return parser.parse_args()


def main() -> int:
    """Run all jobs that the budget allows."""
    options = parse()
    clock = Clock(options.budget)
    leave_on_sigterm()
    gpus = read_gpus(Path("/"))
    label = f"{gpu_word(gpus.gpus[0].name)}-{len(gpus.gpus)}" if gpus.gpus else "host"
    options.out = options.out or RESULTS / f"peers-{label}.json"
    wanted = tables(options.sizes.split(","), options.scale)
    machine = here()  # calibrated before any clock runs; the loads read it from the cache
    body = header(machine) | {"machine": label, "device": options.device}
    contest = Contest(options, clock, machine, body)
    with folders(options) as (place, contest.site, contest.newer):
        contest.check_watch(place)
        for name, table in wanted.items():
            contest.file(name, place, table)
    show_standings(standings(contest.rows))
    for name, reason in contest.left_out.items():
        print(f"{name}: {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
