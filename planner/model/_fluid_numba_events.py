"""The events of the fluid simulation once more, compiled by numba.

What each step is for is said in `_fluid_events`, function by function of the same name.
"""

from __future__ import annotations

import math

from planner.model._fluid_events import TOGETHER
from planner.model._fluid_levels import CAP
from planner.model._fluid_numba_repair import update
from planner.model._fluid_numba_world import (
    ASKED,
    CHANGED,
    DIRTY,
    FLOWS_OF_CLASS,
    QUEUE,
    TO_BEGIN,
    TO_FINISH,
    World,
    drop,
    jit,
    put,
)
from planner.model._fluid_problem import NO_CLASS, NO_QUEUE

Log = list[tuple[float, int, float]]


@jit
def play(w: World, record: bool) -> tuple[int, Log]:  # noqa: FBT001
    """All events; how many instants, and the rates if recorded."""
    log = [(0.0, 0, 0.0)]
    log.clear()
    events = 0
    for flow in range(len(w.flows)):
        if w.flows[flow].waits == 0:
            w.flows[flow].ready = w.flows[flow].start
    while True:
        now = min(_first_key(w, TO_FINISH), _next_begin(w))
        if now == math.inf:
            return events, log
        _take_events(w, now)
        if w.sizes[DIRTY] == 0:
            continue
        events += 1
        _stop_idle(w, now)
        update(w)
        for at in range(w.sizes[CHANGED]):
            number = w.changed[at]
            _change_rate(w, number, now)
            if record:
                log.append((now, number, w.classes[number].rate))


@jit
def _stop_idle(w: World, now: float) -> None:
    for at in range(w.sizes[DIRTY]):
        number = w.dirty[at]
        w.classes[number].dirty = 0
        if w.classes[number].count == 0.0:
            _set_rate(w, number, now, 0.0)


@jit
def _first_key(w: World, heap: int) -> float:
    if w.heaps[heap].size == 0:
        return math.inf
    key: float = w.nodes[w.heaps[heap].first].key
    return key


@jit
def _next_begin(w: World) -> float:
    key = _first_key(w, TO_BEGIN)
    if w.sizes[QUEUE] < len(w.queue):
        flow = w.flows[w.queue[w.sizes[QUEUE]]]
        key = min(key, flow.start + flow.delay)
    return key


@jit
def _take_begin(w: World, begin: float) -> int:
    """The flow that begins next, at `begin`, taken off the queue or the heap."""
    if _first_key(w, TO_BEGIN) == begin:
        item: int = w.nodes[w.heaps[TO_BEGIN].first].item
        drop(w, TO_BEGIN, item)
        return item - len(w.slots) - len(w.classes)
    w.sizes[QUEUE] += 1
    flow: int = w.queue[w.sizes[QUEUE] - 1]
    return flow


@jit
def _take_events(w: World, now: float) -> None:
    """Retire and join what is due at this instant."""
    horizon = now * (1.0 + TOGETHER)
    while _first_key(w, TO_FINISH) <= horizon:
        item = w.nodes[w.heaps[TO_FINISH].first].item
        drop(w, TO_FINISH, item)
        _retire(w, item - len(w.slots), now)
    while True:
        begin = _next_begin(w)
        if begin > horizon:
            break
        flow = _take_begin(w, begin)
        w.flows[flow].begin = begin
        if w.flows[flow].number == NO_CLASS:
            _finish(w, flow, begin)
        elif w.classes[w.flows[flow].number].queue == NO_QUEUE:
            _join(w, flow, now)
        else:
            slot = w.classes[w.flows[flow].number].queue
            heap = FLOWS_OF_CLASS + len(w.classes) + slot
            put(w, heap, len(w.slots) + len(w.classes) + flow, begin)
            _ask(w, slot)
    if w.sizes[ASKED]:
        _start_calls(w, now)


@jit
def _ask(w: World, slot: int) -> None:
    if w.slots[slot].asked == 0:
        w.slots[slot].asked = 1
        w.asked[w.sizes[ASKED]] = slot
        w.sizes[ASKED] += 1


@jit
def _start_calls(w: World, now: float) -> None:
    for asked in range(w.sizes[ASKED]):
        slot = w.asked[asked]
        engine = w.slots[slot]
        engine.asked = 0
        heap = FLOWS_OF_CLASS + len(w.classes) + slot
        if engine.serves or w.heaps[heap].size == 0:
            continue
        issued = _first_key(w, heap)
        item = w.nodes[w.heaps[heap].first].item
        drop(w, heap, item)
        flow = w.flows[item - len(w.slots) - len(w.classes)]
        engine.serves = 1
        _join(w, item - len(w.slots) - len(w.classes), now)
        if now > issued:
            flow.begin = now
            for at in range(w.classes[flow.number].first, w.classes[flow.number].last):
                if w.entries[at].slot == slot:
                    w.entries[at].held = now - issued
    w.sizes[ASKED] = 0


@jit
def _finish(w: World, number: int, now: float) -> None:
    flow = w.flows[number]
    flow.finish = now
    for at in range(flow.followers, flow.followers_end):
        follower = w.flows[w.followers[at]]
        follower.waits -= 1
        if follower.waits == 0:
            follower.ready = max(now, follower.start)
            item = len(w.slots) + len(w.classes) + w.followers[at]
            put(w, TO_BEGIN, item, follower.ready + follower.delay)


@jit
def _join(w: World, number: int, now: float) -> None:
    flow = w.flows[number]
    it = w.classes[flow.number]
    heap = FLOWS_OF_CLASS + flow.number
    if w.heaps[heap].size > 0:
        _serve(w, flow.number, now)
        _hold_time(w, flow.number, now)
        flow.joined_late = 1
        for at in range(it.first, it.last):
            w.held_before[flow.held_first + at - it.first] = w.entries[at].held
        w.held_before[flow.held_first + it.last - it.first] = it.held_cap
    else:
        it.served = 0.0
        it.since = now
        it.held_since = now
        it.held_cap = 0.0
        for at in range(it.first, it.last):
            w.entries[at].held = 0.0
    it.count += flow.members
    item = len(w.slots) + len(w.classes) + len(w.flows) + number
    put(w, heap, item, it.served + flow.work)
    _soil(w, flow.number)


@jit
def _soil(w: World, number: int) -> None:
    if w.classes[number].dirty == 0:
        w.classes[number].dirty = 1
        w.dirty[w.sizes[DIRTY]] = number
        w.sizes[DIRTY] += 1


@jit
def _retire(w: World, number: int, now: float) -> None:
    it = w.classes[number]
    heap = FLOWS_OF_CLASS + number
    _serve(w, number, now)
    _hold_time(w, number, now)
    it.served = _first_key(w, heap)
    while _first_key(w, heap) <= it.served * (1.0 + TOGETHER):
        item = w.nodes[w.heaps[heap].first].item
        drop(w, heap, item)
        flow = item - len(w.slots) - len(w.classes) - len(w.flows)
        it.count -= w.flows[flow].members
        w.flows[flow].bottleneck = _longest(w, flow)
        _finish(w, flow, now)
    if w.heaps[heap].size == 0:
        it.count = 0.0
    _soil(w, number)
    if it.queue != NO_QUEUE:
        w.slots[it.queue].serves = 0
        _ask(w, it.queue)


@jit
def _longest(w: World, number: int) -> int:
    flow = w.flows[number]
    it = w.classes[flow.number]
    best, longest = CAP, it.held_cap
    if flow.joined_late:
        longest -= w.held_before[flow.held_first + it.last - it.first]
    for at in range(it.first, it.last):
        time = w.entries[at].held
        if flow.joined_late:
            time -= w.held_before[flow.held_first + at - it.first]
        if time > longest:
            best, longest = w.entries[at].slot % len(w.resources), time
    return best


@jit
def _hold_time(w: World, number: int, now: float) -> None:
    it = w.classes[number]
    spent = now - it.held_since
    it.held_since = now
    if it.held_by == CAP:
        it.held_cap += spent
        return
    for at in range(it.first, it.last):
        if w.entries[at].slot == it.held_by:
            w.entries[at].held += spent


@jit
def _serve(w: World, number: int, now: float) -> None:
    it = w.classes[number]
    it.served += it.rate * (now - it.since)
    it.since = now


@jit
def _change_rate(w: World, number: int, now: float) -> None:
    it = w.classes[number]
    if it.holder != it.held_by:
        _hold_time(w, number, now)
        it.held_by = it.holder
    _serve(w, number, now)
    _set_rate(w, number, now, it.level * it.weight)
    item = len(w.slots) + number
    if it.rate > 0.0:
        left = max(_first_key(w, FLOWS_OF_CLASS + number) - it.served, 0.0)
        put(w, TO_FINISH, item, now + left / it.rate)
    else:
        drop(w, TO_FINISH, item)


@jit
def _set_rate(w: World, number: int, now: float, rate: float) -> None:
    it = w.classes[number]
    was = it.rate
    it.rate = rate
    if (was > 0.0) == (rate > 0.0):
        return
    step = 1 if rate > 0.0 else -1
    for at in range(it.first, it.last):
        resource = w.resources[w.entries[at].slot % len(w.resources)]
        if resource.moving == 0:
            resource.since = now
        resource.moving += step
        if resource.moving == 0:
            resource.busy += now - resource.since
