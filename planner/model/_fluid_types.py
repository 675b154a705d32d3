"""What the fluid simulator is asked and what it answers.

Resources are anything whose capacity is shared at a rate: a direction of a link, a memory bus, a
copy engine, the cores of a host. Flows are amounts of work that use several of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Resource:
    """Something shared: `capacity` in units of work per second (bytes/s, or 1.0 for one engine).

    `members` > 1 makes it the representative of that many equal resources, `capacity` each, over
    which every flow class that uses it is spread evenly: one memory bus a node, of 12,500 equal
    nodes, is a single resource with `members=12500`. `weight` is that of all that is under way on
    it, for flows of which it is an engine.
    """

    name: str
    capacity: float
    members: int = 1
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class FluidFlow:
    """An amount of work that takes its weighted max-min share of the resources it charges.

    Attributes
    ----------
    name
        Used in messages only.
    work
        Bytes (or any other unit of work) that each member moves; 0 leaves only the delay.
    charges
        Resource index to multiplicity: what one byte moved takes of that resource. A copy that
        reads and writes the same memory bus charges it 2.0. A multiplicity of 0 is no charge.
    delay
        Silent seconds between `ready` and `begin`; the flow takes no share meanwhile.
    cap
        Upper bound of the rate of one member, bytes/s. A flow that charges nothing runs at its
        cap, and is instantaneous where that is infinite.
    weight
        Rates grow in proportion to the weights until a resource or a cap stops them.
    engines
        Indices of the charged resources that serve one piece of work at a time, in the order in
        which it is issued. Whatever is under way there weighs what the resource does, of which
        the flow has its share: a weight says what a flow gets beside others on its own engine, and
        nothing of what one engine gets beside another. Of several the smallest share counts.
    one_call
        All work of each member is issued at once, to its only engine: the flow begins to move when
        the calls of its priority that were issued there before have ended.
    priority
        Higher is served strictly first; a lower class shares what the higher ones leave.
    start
        Seconds before which the flow is not ready.
    after
        Indices of the flows that must have finished before this one is ready.
    members
        The flow stands for that many equal flows, each with this `work`, `charges`, `cap` and
        `weight`, that begin and end together. On a resource with `members` M, each of the M
        carries members / M of them, so M must divide `members`.
    """

    name: str
    work: float
    charges: Mapping[int, float]
    delay: float = 0.0
    cap: float = math.inf
    weight: float = 1.0
    priority: int = 0
    start: float = 0.0
    after: tuple[int, ...] = ()
    members: int = 1
    engines: tuple[int, ...] = ()
    one_call: bool = False


class RateChange(NamedTuple):
    """From `time` (seconds) on, each member of flow `flow` moves at `rate` bytes/s."""

    time: float
    flow: int
    rate: float


@dataclass(frozen=True, slots=True)
class FluidResult:
    """When every flow moved and how long every resource was in use.

    Attributes
    ----------
    ready, begin, finish
        Seconds, one a flow: predecessors done and start reached; delay over and calls before it
        ended; last byte moved.
    busy
        Seconds, one a resource, during which at least one flow moved on it.
    load
        Seconds, one a resource, that it would need at full capacity for what it carried.
    makespan
        The last finish, seconds; 0.0 without flows.
    bottleneck
        One a flow: the resource that held its rate down for most of the time between the end of
        its delay and `finish`, or its queue up (the lowest index among equals); -1 where its own
        cap did, or it had no work.
    events
        Number of instants at which flows began or ended to move.
    rates
        The piecewise constant rates in order of time, if recorded: each flow that moves has an
        entry where its rate changes and a last one with rate 0.0 at its finish.
    """

    ready: tuple[float, ...]
    begin: tuple[float, ...]
    finish: tuple[float, ...]
    busy: tuple[float, ...]
    load: tuple[float, ...]
    makespan: float
    bottleneck: tuple[int, ...]
    events: int
    rates: tuple[RateChange, ...] | None = None
