"""What depends on who is under way at the same time: found in one simulation, put into the next.

- **Rings.** Staged flows of one host share its caches: the copy capacity is that of all their
  workers and of the sum of their rings, and of what engines write there. The charge of each is the
  mean of 1 / C over its own time. Their workers crowd at the locks of the process together, which
  slows copies and turns of all of them.
- **Residual of a chunk.** Strict priorities cannot take back a chunk that is being served: a flow
  that finds a lower class on an engine waits for one chunk of it first, at most.

`refine` returns the corrections that a result calls for; they are final when they no longer change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from planner.machine.replicate import members
from planner.machine.schema import Machine
from planner.model.build import Build
from planner.model.copier import Copier, Slower, Stream, streamed_into
from planner.model.fluid import Fluid
from planner.model.simulate import FluidResult
from planner.model.strategies.copying import COPY

ROUNDING: Final = 1e-12
"""Share of its own time by which a copier must differ from one that is alone."""

Key = tuple[int, int, int]
"""(job, lane, step): the same movement in all its repeats."""


@dataclass(frozen=True)
class Corrections:
    """What copies of several flows do to each other, and extra delays."""

    copies: Mapping[Key, Slower] = field(default_factory=dict)
    delays: Mapping[Key, float] = field(default_factory=dict)


NONE = Corrections()


def refine(made: Build, machine: Machine, result: FluidResult) -> Corrections:
    """The corrections that a result calls for; when they come out the same they are settled."""
    spans: dict[Key, list[tuple[float, float]]] = {}
    for i, spec in enumerate(made.specs):
        if spec.kind == "move" and spec.work > 0:
            span = result.ready[i], result.finish[i]
            spans.setdefault((spec.job, spec.lane, spec.step), []).append(span)
    return Corrections(
        copies=_copies(made, machine, spans),
        delays=_delays(made, spans),
    )


def _copiers(made: Build, machine: Machine, keys: Sequence[Key]) -> dict[str, dict[Key, Copier]]:
    """All copying movements by the host that copies."""
    found: dict[str, dict[Key, Copier]] = {}
    for job, lane, step in keys:
        arrangement, number = made.lanes[job, lane]
        own = arrangement.lanes[number]
        count = made.specs[made.jobs[job].setup].members
        movement, shape = own.movements[step], own.candidate.shapes[step]
        if (name := streamed_into(movement)) is not None:
            times = max(1, count // members(machine, name))
            stream = Stream(movement, shape, name, times)
            found.setdefault(name, {})[job, lane, step] = stream
        for name in own.fluids[step].charges:
            if name.endswith(COPY):
                times = max(1, count // members(machine, name))
                copier = Copier(movement, shape, name, times)
                if copier.own > 0:
                    found.setdefault(name, {})[job, lane, step] = copier
    return found


def _copies(
    made: Build, machine: Machine, spans: Mapping[Key, Sequence[tuple[float, float]]]
) -> dict[Key, Slower]:
    """What others do to each copier: means over its own time."""
    found: dict[Key, Slower] = {}
    for copiers in _copiers(made, machine, sorted(spans)).values():
        if len(copiers) == 1 and next(iter(copiers.values())).times == 1:
            continue
        found |= _swept(copiers, spans)
    return found


def _swept(
    copiers: Mapping[Key, Copier], spans: Mapping[Key, Sequence[tuple[float, float]]]
) -> dict[Key, Slower]:
    changes = sorted(
        (time, turn, key)
        for key in copiers
        for start, end in spans[key]
        if end > start
        for time, turn in ((start, 1), (end, 0))
    )
    active: dict[Key, Copier] = {}
    sums = {key: [0.0, 0.0, 0.0, 0.0] for key in copiers}
    for (now, turn, key), (then, _, _) in pairwise([*changes, (changes[-1][0], 0, (0, 0, 0))]):
        if turn:
            active[key] = copiers[key]
        else:
            active.pop(key, None)
        if then <= now or not active:
            continue
        for name, (factor, own, crowding) in _together(active).items():
            row = sums[name]
            row[0] += then - now
            row[1] += (then - now) * factor
            row[2] += (then - now) * own
            row[3] += (then - now) * crowding
    found = {}
    for key, (spent, factor, own, crowding) in sums.items():
        alone = copiers[key].own
        moved = abs(own / alone - spent) if alone > 0 else 0.0
        if spent > 0 and max(abs(factor - spent), moved, crowding - spent) > ROUNDING * spent:
            found[key] = Slower(
                round(factor / spent, 9),
                spent / own if own > 0 else float("inf"),
                round(crowding / spent, 9),
                copiers[key].resource,
            )
    return found


def _together(active: Mapping[Key, Copier]) -> dict[Key, tuple[float, float, float]]:
    """Of each that copies now: factor of its charge, seconds a byte of its workers, crowding."""
    workers = sum(c.times * c.workers for c in active.values())
    ring = sum(c.times * c.ring for c in active.values())
    copying = [c for c in active.values() if c.workers]
    crowd = sum(c.times for c in copying) > 1
    # Equal movements that one stands for go to GPUs of their own, one each.
    inward = [c for c in copying if c.gpus]
    several = len({gpu for c in inward for gpu in c.gpus}) > 1 or any(c.times > 1 for c in inward)
    found = {}
    for key, copier in active.items():
        factor, own = copier.among(workers, ring, several=several)
        found[key] = factor, own, copier.crowding(factor) if crowd else 1.0
    return found


def _delays(made: Build, spans: Mapping[Key, Sequence[tuple[float, float]]]) -> dict[Key, float]:
    """One chunk of the lower classes that are found on the same engine, the longest of them."""
    classes = {spec.priority for spec in made.specs if spec.kind == "move"}
    if len(classes) < 2:
        return {}
    moves: dict[Key, tuple[int, Fluid]] = {}
    for spec in made.specs:
        if spec.kind == "move":
            moves.setdefault((spec.job, spec.lane, spec.step), (spec.priority, spec.moves))
    found: dict[Key, float] = {}
    for key, own in spans.items():
        priority, fluid = moves[key]
        wait = 0.0
        for other, theirs in spans.items():
            below, lower = moves[other]
            shared = lower.holds.keys() & fluid.holds.keys()
            if below < priority and shared and _begins_within(own, theirs):
                wait = max([wait, *(lower.holds[name] for name in shared)])
        if wait > 0.0:
            found[key] = wait
    return found


def _begins_within(
    own: Sequence[tuple[float, float]], theirs: Sequence[tuple[float, float]]
) -> bool:
    """Whether the first of our spans to be served can find one of theirs under way."""
    return any(a < end and start < b for a, b in own for start, end in theirs)
