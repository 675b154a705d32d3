"""Whether what is chosen is the best: every other way, and other shapes, measured beside it.

    python benchmarks/choice.py [--size 1GB] [--full | --machine FILE] [--budget 300]

For each plan of `choice_plans.py` every feasible way (route and strategies) runs at the chunk,
depth and workers that the planner would give it, and random inner points of the best two ways run
too. The chosen way and the fastest of all then run in turn, round after round, and medians decide:
the minimum of many single runs would be luck. Time is that of the plan: setup once, and every
repeat. Results go to `benchmarks/results/choice-MACHINE.json` plan by plan. A plan may take 1.25 of
its share of what is left of the budget: random shapes are left out first, then final rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.accuracy import add_machine_options, machine_to_judge, reason_of
from benchmarks.choice_plans import plan_of, plans, shared_file
from benchmarks.kept_buffers import Pool
from benchmarks.record import RESULTS, Clock, header, leave_on_sigterm, machine_label, write
from planner.engine.backends import Backend, open_backend
from planner.engine.execute import execute, require
from planner.engine.measure import middle
from planner.errors import PlannerError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide
from planner.model.classes import fitted
from planner.model.estimate import estimate
from planner.model.need import Need
from planner.model.needs import demands
from planner.model.strategies import EXECUTABLE
from planner.plan.schema import Plan
from planner.results import Estimate, FlowSchedule
from planner.units import format_size, format_time, parse_size

SEED = 20261129
INNER = 30
BEST = 2
"""Ways of which random shapes are tried."""
FINALISTS = 5
"""Schedules that run again beside the chosen one."""
ROUNDS = 5
GOOD = 1.03
HOPELESS = 3.0
"""Shapes that are predicted to take so many times the best are not tried: their runs would take
most of the time, and no prediction is that far off for a ring."""
SHARES = 1.25
"""How many times its share of the time that is left a plan may take."""
INNER_SHARE = 0.6
"""Of a plan's time, when the random shapes are over at the latest: the final rounds decide."""
BATCH = 5
"""Random shapes that run between two looks at the clock."""
LEAST_ROUNDS = 2
LEAST_S = 2.0
"""Seconds without which no plan begins."""
KIB = 1 << 10
SMALLEST, LARGEST = 256 * KIB, 64 << 20
"""Chunks of random shapes."""
MOST_SLOTS = 3
"""Of a worker, in random shapes."""


@dataclass
class Entry:
    """A schedule of a plan with what it took."""

    label: str
    prediction: Estimate
    kind: str
    seconds: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)

    @property
    def schedule(self) -> FlowSchedule:
        """What is run."""
        return self.prediction.flows[0].schedule

    @property
    def best(self) -> float:
        """The median of the final rounds, else of what there is."""
        return middle(self.final or self.seconds)

    def row(self) -> dict[str, Any]:
        """As it is written down."""
        hop = self.schedule.hops[0]
        return {
            "kind": self.kind,
            "ways": self.label,
            "chunk_bytes": hop.chunk_bytes,
            "depth": hop.depth,
            "workers": hop.workers,
            "predicted_s": self.prediction.flows[0].duration_s,
            "measured_s": self.best,
            "samples_s": self.final or self.seconds,
            "finalist": bool(self.final),
        }


class Trial:
    """One plan: its chosen schedule, all others, and what they took."""

    def __init__(self, name: str, plan: Plan, machine: Machine, device: Backend) -> None:
        self.name, self.plan, self.machine, self.device = name, plan, machine, device
        self.random = random.Random(f"{SEED} {name}")  # noqa: S311 - a seeded draw is the point
        self.failed: dict[str, str] = {}
        chosen = estimate(plan, machine, only=EXECUTABLE)
        require(device, machine, chosen)
        self.chosen = Entry(label_of(chosen.flows[0].schedule), chosen, "chosen")
        self.entries = [self.chosen]
        (demand,) = demands(plan, fitted(plan, machine))
        self.need: Need = demand.need

    def others(self) -> None:
        """Every feasible way at its own best shape."""
        topology = Topology(fitted(self.plan, self.machine))
        decision = decide(topology, self.need, only=EXECUTABLE)
        for candidate in (decision.best, *decision.others):
            self.add(candidate.schedule(self.need), "way")

    def add(self, schedule: FlowSchedule, kind: str, limit: float = float("inf")) -> bool:
        """Take up a schedule that is new, feasible, and predicted to take at most `limit`."""
        known = ((entry.schedule.hops, entry.schedule.parts) for entry in self.entries)
        if (schedule.hops, schedule.parts) in known:
            return False
        try:
            predicted = estimate(self.plan, self.machine, schedules={schedule.flow: schedule})
            require(self.device, self.machine, predicted)
        except PlannerError as error:
            self.failed[label_of(schedule)] = reason_of(error)
            return False
        if predicted.flows[0].duration_s > limit:
            return False
        self.entries.append(Entry(label_of(schedule), predicted, kind))
        return True

    def run(self, entries: Sequence[Entry], *, final: bool = False) -> None:
        """Each once, in an order of its own."""
        order = list(entries)
        self.random.shuffle(order)
        for entry in order:
            try:
                found = execute(
                    self.plan,
                    self.machine,
                    estimate=entry.prediction,
                    backend=self.device,
                    samples=1,
                    warmup=0,
                    verify=False,
                )
            except Exception as error:  # noqa: BLE001 - one way's failure must not lose the others
                self.failed[entry.label] = f"{type(error).__name__}: {reason_of(error)}"
                continue
            (entry.final if final else entry.seconds).append(found.flows[0].duration_s)

    def inner(self, count: int) -> None:
        """Random shapes of the best two ways that have a shape to choose."""
        measured = sorted((e for e in self.entries if e.seconds), key=lambda e: e.best)
        whole = [e for e in measured if has_ring(e.schedule) and not e.schedule.parts]
        shaped = list({e.label: e for e in reversed(whole)}.values())
        best = sorted(shaped, key=lambda e: e.best)[:BEST]
        limit = HOPELESS * min((e.prediction.flows[0].duration_s for e in best), default=0.0)
        for entry in best:
            wanted, tries = count // len(best), 20 * count
            while wanted > 0 and tries > 0:
                shape = self.drawn_shape()
                if shape is None:
                    break
                wanted -= self.add(self.reshaped(entry.schedule, shape), "inner", limit)
                tries -= 1

    def drawn_shape(self) -> dict[str, int] | None:
        """A random ring within the plan's budgets, `None` where the smallest has no room.

        All that fit are as likely, chunks by their logarithm: the larger the range of chunks that
        workers and slots leave, the more often they are drawn.
        """
        need, draw = self.need, self.random
        room, cores = min(need.pinned_budget, need.size), max(1, need.cores)
        rings = [(w, d) for w in range(1, cores + 1) for d in range(1, MOST_SLOTS + 1)]
        ranges = [log2(max(1.0, min(LARGEST, room / (w * d)) / SMALLEST)) for w, d in rings]
        if not any(ranges):
            return None
        (((workers, depth), width),) = draw.choices([*zip(rings, ranges, strict=True)], ranges)
        chunk = int(SMALLEST * 2 ** (width * draw.random())) // (4 * KIB) * 4 * KIB
        return {"chunk_bytes": chunk, "depth": depth, "workers": workers}

    def reshaped(self, schedule: FlowSchedule, shape: Mapping[str, int]) -> FlowSchedule:
        """The same way with this ring."""
        hops = tuple(
            hop.model_copy(update=shape) if is_cut(hop.workers, hop.chunk_bytes, self.need) else hop
            for hop in schedule.hops
        )
        return schedule.model_copy(update={"hops": hops})

    def finals(self, rounds: int, clock: Clock) -> None:
        """The chosen one and the fastest others, in turn, twice at least."""
        measured = sorted((e for e in self.entries if e.seconds), key=lambda e: middle(e.seconds))
        fastest = [e for e in measured if e is not self.chosen][:FINALISTS]
        for turn in range(rounds):
            if turn < LEAST_ROUNDS or clock.left() > 0:
                self.run([self.chosen, *fastest], final=True)

    def row(self) -> dict[str, Any]:
        """The plan as it is written down."""
        entries = [entry for entry in self.entries if entry.seconds]
        finals = [entry for entry in entries if entry.final] or entries
        best = min(finals, key=lambda entry: entry.best, default=None)
        done = self.chosen.seconds and best is not None
        factor = self.chosen.best / best.best if done and best else None
        return {
            "plan": self.name,
            "size_bytes": self.need.size,
            "repeat": self.need.repeat,
            "chosen": self.chosen.row() if self.chosen.seconds else None,
            "best": best.row() if best else None,
            "factor": factor,
            "good": factor is not None and factor <= GOOD,
            "inner": sum(entry.kind == "inner" for entry in entries),
            "rounds": len(self.chosen.final),
            "entries": [entry.row() for entry in entries],
            "failed": self.failed,
        }


def label_of(schedule: FlowSchedule) -> str:
    """Strategies and places, `|` between ways at once: `buffered+pinned by disk0, host0, gpu0`."""
    ways = [part.hops for part in schedule.parts] or [schedule.hops]
    return " | ".join(
        f"{'+'.join(hop.strategy for hop in hops)} by "
        f"{', '.join([hops[0].start, *(hop.end for hop in hops)])}"
        for hops in ways
    )


def is_cut(workers: int, chunk: int, need: Need) -> bool:
    """Whether a hop goes in chunks by workers, so that there is a shape to choose."""
    return workers > 1 or chunk < need.size


def has_ring(schedule: FlowSchedule) -> bool:
    """Whether any hop does."""
    return any(hop.workers > 1 or hop.chunk_bytes < schedule.size_bytes for hop in schedule.hops)


def compete(trial: Trial, inner: int, rounds: int, clock: Clock) -> None:
    """All runs of one plan; the clock is the plan's own."""
    with (
        contextlib.closing(Pool()) as pool,
        mock.patch("planner.engine.ends.HostBuffer", pool.take),
    ):
        trial.run([trial.chosen])  # workers and caches of the process are up after one run
        trial.chosen.seconds.clear()
        trial.others()
        trial.run(trial.entries)
        before = len(trial.entries)
        trial.inner(inner)
        for at in range(before, len(trial.entries), BATCH):
            if clock.left() > (1 - INNER_SHARE) * (clock.seconds or 0.0):
                trial.run(trial.entries[at : at + BATCH])
        trial.finals(rounds, clock)


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many choices were good, and the worst."""
    factors = [row["factor"] for row in rows if row["factor"] is not None]
    return {
        "plans": len(factors),
        "within_3_percent": sum(factor <= GOOD for factor in factors),
        "worst": max(factors, default=None),
        "inner_points": sum(row["inner"] for row in rows),
    }


def show(row: Mapping[str, Any]) -> None:
    """One plan for people."""
    if row["factor"] is None:
        print(f"{row['plan']:34} not measured: {row['failed']}")
        return

    def told(entry: Mapping[str, Any]) -> str:
        shape = f"{entry['workers']} x {format_size(entry['chunk_bytes'])} x {entry['depth']}"
        return f"{format_time(entry['measured_s'])} {entry['ways']} {shape}"

    better = "" if row["factor"] <= 1 else f"; best {told(row['best'])}"
    print(f"{row['plan']:34} {row['factor']:.3f}x  {told(row['chosen'])}{better}", flush=True)


def main() -> int:
    """Run all plans that the budget allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_machine_options(parser)
    parser.add_argument("--size", type=parse_size, default=parse_size("1GB"))
    parser.add_argument("--inner", type=int, default=INNER, help="random shapes of each plan")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the final runs")
    parser.add_argument("--only", default="", metavar="WORD", help="plans with this in the name")
    options = parser.parse_args()
    clock = Clock(options.budget)
    leave_on_sigterm()
    machine, calibrated_s = machine_to_judge(options)
    path = options.out or RESULTS / f"choice-{machine_label(machine)}.json"
    body = header(machine) | {"calibrated_s": calibrated_s, "size_bytes": options.size}
    rows: list[dict[str, Any]] = []
    waived: dict[str, str] = {}

    def save() -> None:
        more = {"summary": summary(rows), "waived": waived, "rows": rows}
        write(path, body | more | {"spent_s": clock.spent()})

    listed = {k: v for k, v in plans(options.size).items() if options.only in k}
    save()
    device = open_backend(options.backend)
    with contextlib.closing(device), shared_file(machine, options.size) as source:
        for turn, (name, words) in enumerate(listed.items()):
            if clock.left() < LEAST_S:
                waived[name] = "the budget of the run was spent"
                continue
            share = SHARES * clock.left() / (len(listed) - turn)
            own = Clock(None if options.budget is None else share)
            try:
                trial = Trial(name, plan_of(name, words, source), machine, device)
                compete(trial, options.inner, options.rounds, own)
            except PlannerError as error:
                waived[name] = reason_of(error)
            except Exception as error:  # noqa: BLE001 - one plan must not lose the others
                waived[name] = f"{type(error).__name__}: {reason_of(error)}"
            else:
                rows.append(trial.row())
                show(rows[-1])
            save()
    save()
    print(json.dumps(summary(rows)), *(f"\nwaived: {k}: {v}" for k, v in waived.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
