"""The state of a compiled simulation: records in flat arrays, and heaps of numbered items.

Only imported when used, since numba is optional. One record holds all that belongs to a slot, an
entry, a class or a flow, so that what is used together lies together in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from planner.model._fluid_levels import CAP, LOOSE
from planner.model._fluid_problem import NO_CLASS, Problem

Ints = NDArray[np.int64]
Records = Any
"""An array of one of the record types below."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _record(floats: str, ints: str) -> np.dtype[np.void]:
    fields = [(name, np.float64) for name in floats.split()]
    return np.dtype([*fields, *((name, np.int64) for name in ints.split())], align=True)


RESOURCE = _record("capacity busy since", "moving shifted")
SLOT = _record("capacity full taken room risen pull", "rising state first size shared serves asked")
ENTRY = _record("charge pull unit use held", "slot owner place")
CLASS = _record(
    "weight own_weight cap top level before count rate served since held_since held_cap",
    "first last tier holder held_by active noted dirty queue",
)
FLOW = _record(
    "work start delay members ready begin finish",
    "number waits followers followers_end held_first joined_late bottleneck",
)
NODE = _record("key", "item")
HEAP = _record("", "first size")


class World(NamedTuple):
    """Everything; an *entry* is a charge of a class on a slot.

    The entries of class c are those from `first` to `last`. The active entries of a slot are
    listed without gaps from `first` on in `listed`. `held_before` has one place for each entry of
    a flow's class and one for its cap. `pull` is what a member of a class weighs on an entry that
    is an engine, 0 elsewhere, and on a slot the sum of all. An engine `serves` one call at a time.
    """

    tiers: int
    weighed: int  # whether any class is on an engine
    resources: Records
    slots: Records
    entries: Records
    classes: Records
    flows: Records
    listed: Ints
    followers: Ints
    held_before: NDArray[np.float64]
    queue: Ints  # the flows that begin at a time known from the start, in order of it
    noted: Ints  # classes that may have changed in this repair
    seen: Ints  # slots with a state in this repair
    dirty: Ints  # classes with another count than at the last repair
    changed: Ints  # what the repair answers
    asked: Ints  # slots at which a call was issued, or has ended
    sizes: Ints  # how many of the last six are taken, by the numbers below
    heaps: Records
    nodes: Records
    place: Ints


QUEUE, NOTED, SEEN, DIRTY, CHANGED, ASKED = range(6)

# Heaps: slots to look at, classes to finish, flows to begin, one a class of its flows, and behind
# those one a slot of the calls that wait there, as items like those of flows that begin. Items
# are numbered over all heaps; `item_of` gives the first number of each kind.
TO_LOOK, TO_FINISH, TO_BEGIN, FLOWS_OF_CLASS = range(4)


def jit(function: Function) -> Function:
    """Compile when a compiled function first calls it; dividing by zero gives inf or nan."""
    # Inlined into the one cached function: calls that pass `World` on would cost twice the time.
    return cast("Function", numba.njit(error_model="numpy", forceinline=True)(function))


@jit
def put(w: World, heap: int, item: int, key: float) -> None:
    """Enter the item, or change its key."""
    first = w.heaps[heap].first
    at = w.place[item]
    if at < 0:
        at = w.heaps[heap].size
        w.heaps[heap].size = at + 1
    while at > 0:
        above = (at - 1) // 2
        node = w.nodes[first + above]
        if node.key < key or (node.key == key and node.item < item):
            break
        w.nodes[first + at].key = node.key
        w.nodes[first + at].item = node.item
        w.place[node.item] = at
        at = above
    size = w.heaps[heap].size
    while 2 * at + 1 < size:
        child = 2 * at + 1
        node = w.nodes[first + child]
        if child + 1 < size:
            right = w.nodes[first + child + 1]
            if right.key < node.key or (right.key == node.key and right.item < node.item):
                child += 1
                node = right
        if key < node.key or (key == node.key and item < node.item):
            break
        w.nodes[first + at].key = node.key
        w.nodes[first + at].item = node.item
        w.place[node.item] = at
        at = child
    w.nodes[first + at].key = key
    w.nodes[first + at].item = item
    w.place[item] = at


@jit
def drop(w: World, heap: int, item: int) -> None:
    """Remove the item if it is there."""
    at = w.place[item]
    if at < 0:
        return
    w.place[item] = -1
    w.heaps[heap].size -= 1
    size = w.heaps[heap].size
    if at < size:
        last = w.nodes[w.heaps[heap].first + size].item
        key = w.nodes[w.heaps[heap].first + size].key
        w.place[last] = at
        put(w, heap, last, key)


def build_world(problem: Problem) -> World:
    """The state before the first event."""
    classes, entries = _classes(problem)
    flows, followers, held_before = _flows(problem, classes)
    slots = np.zeros(len(problem.capacity), SLOT)
    slots["capacity"] = problem.capacity
    slots["full"] = math.inf
    slots["first"] = _starts(np.bincount(entries["slot"], minlength=len(slots)))[:-1]
    resources = np.zeros(problem.resources, RESOURCE)
    resources["capacity"] = problem.capacity[: problem.resources]
    free = np.flatnonzero(flows["waits"] == 0)
    begins = flows["start"][free] + flows["delay"][free]
    queued = flows["number"][flows["number"] != NO_CLASS]
    calls = classes["queue"][queued]
    heap_sizes = [
        len(slots),
        len(classes),
        len(flows),
        *np.bincount(queued, minlength=len(classes)),
        *np.bincount(calls[calls >= 0], minlength=len(slots)),
    ]
    heaps = np.zeros(len(heap_sizes), HEAP)
    first = _starts(np.array(heap_sizes, dtype=np.int64))
    heaps["first"] = first[:-1]
    items = len(slots) + len(classes) + 2 * len(flows)
    return World(
        tiers=problem.tiers,
        weighed=int(any(problem.classes.engines)),
        resources=resources,
        slots=slots,
        entries=entries,
        classes=classes,
        flows=flows,
        listed=np.zeros(len(entries), dtype=np.int64),
        followers=followers,
        held_before=held_before,
        queue=free[np.argsort(begins, kind="stable")],
        noted=np.zeros(len(classes), dtype=np.int64),
        seen=np.zeros(len(slots), dtype=np.int64),
        dirty=np.zeros(len(classes), dtype=np.int64),
        changed=np.zeros(len(classes), dtype=np.int64),
        asked=np.zeros(len(slots), dtype=np.int64),
        sizes=np.zeros(6, dtype=np.int64),
        heaps=heaps,
        nodes=np.zeros(int(first[-1]), NODE),
        place=np.full(items, -1, dtype=np.int64),
    )


def _starts(sizes: Ints) -> Ints:
    """Where each part begins if the parts lie one after another, and where the last ends."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _classes(problem: Problem) -> tuple[Records, Records]:
    given = problem.classes
    classes = np.zeros(len(given.slots), CLASS)
    lengths = np.array([len(part) for part in given.slots], dtype=np.int64)
    first = _starts(lengths)
    classes["first"], classes["last"] = first[:-1], first[1:]
    classes["weight"] = classes["own_weight"] = given.weight
    classes["cap"] = given.cap
    classes["top"] = np.array(given.cap, dtype=np.float64) / classes["weight"]
    classes["level"] = math.inf
    classes["tier"] = given.tier
    classes["holder"] = LOOSE
    classes["held_by"] = CAP
    entries = np.zeros(int(first[-1]), ENTRY)
    entries["owner"] = np.repeat(np.arange(len(classes)), lengths)
    entries["slot"] = np.fromiter(chain.from_iterable(given.slots), np.int64, len(entries))
    charge = np.fromiter(chain.from_iterable(given.charge), np.float64, len(entries))
    entries["charge"] = charge
    entries["unit"] = charge * classes["weight"][entries["owner"]]
    classes["queue"] = given.queue
    for number, engines in enumerate(given.engines):
        for engine, weight in engines:
            entries["pull"][first[number] + given.slots[number].index(engine)] = weight
    return classes, entries


def _flows(problem: Problem, classes: Records) -> tuple[Records, Ints, NDArray[np.float64]]:
    count = len(problem.flow_class)
    flows = np.zeros(count, FLOW)
    flows["number"] = problem.flow_class
    flows["waits"] = problem.waits
    for name in ("work", "start", "delay", "members"):
        flows[name] = getattr(problem, name)
    for name in ("ready", "begin", "finish"):
        flows[name] = math.nan
    flows["bottleneck"] = CAP
    sizes = np.zeros(count, dtype=np.int64)
    for flow, after in problem.followers.items():
        sizes[flow] = len(after)
    ends = _starts(sizes)
    flows["followers"], flows["followers_end"] = ends[:-1], ends[1:]
    in_order = (problem.followers[flow] for flow in sorted(problem.followers))
    followers = np.fromiter(chain.from_iterable(in_order), np.int64, int(ends[-1]))
    places = np.append(classes["last"] - classes["first"] + 1, 0)  # NO_CLASS reads the last: none
    held_first = _starts(places[flows["number"]])
    flows["held_first"] = held_first[:-1]
    return flows, followers, np.zeros(int(held_first[-1]))
