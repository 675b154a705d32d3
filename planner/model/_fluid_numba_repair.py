"""The repair of the max-min levels once more, compiled by numba.

Why each step is right is said in `_fluid_repair`, function by function of the same name.
"""

from __future__ import annotations

import math

from planner.model._fluid_levels import CAP, LOOSE
from planner.model._fluid_numba_levels import (
    free_until,
    loosen,
    mark_shifted,
    move,
    note,
    rest,
    set_count,
)
from planner.model._fluid_numba_shares import share_engines
from planner.model._fluid_numba_world import (
    CHANGED,
    DIRTY,
    NOTED,
    SEEN,
    TO_LOOK,
    World,
    drop,
    jit,
    put,
)
from planner.model._fluid_repair import EMPTY, SAME

_PASSED = 1  # states of a slot in a repair; 0 is none
_SETTLED = 2


@jit
def update(w: World) -> None:
    """Repair the levels after the counts of the dirty classes changed; fills `changed`."""
    w.sizes[CHANGED] = 0
    if w.weighed:
        share_engines(w)
    for tier in range(w.tiers):
        if tier > 0:
            _shift_capacities(w, tier)
        for at in range(w.sizes[DIRTY]):
            if w.classes[w.dirty[at]].tier == tier:
                set_count(w, w.dirty[at])
        for at in range(w.sizes[DIRTY]):
            if w.classes[w.dirty[at]].tier == tier:
                _look_at_all(w, w.dirty[at])
        _replay(w)
        _collect(w)
    if w.tiers > 1:
        for resource in range(len(w.resources)):
            w.resources[resource].shifted = 0
    w.sizes[DIRTY] = 0


@jit
def _shift_capacities(w: World, tier: int) -> None:
    for resource in range(len(w.resources)):
        if w.resources[resource].shifted:
            _shift_capacity(w, tier, resource)


@jit
def _shift_capacity(w: World, tier: int, resource: int) -> None:
    slot = tier * len(w.resources) + resource
    above = w.slots[slot - len(w.resources)]
    left = above.capacity
    for at in range(above.first, above.first + above.size):
        entry = w.entries[w.listed[at]]
        left -= entry.use * w.classes[entry.owner].level
    if left <= EMPTY * w.resources[resource].capacity:
        left = 0.0
    if left != w.slots[slot].capacity:
        w.slots[slot].capacity = left
        _look_at(w, slot, 0.0)


@jit
def _look_at(w: World, slot: int, level: float) -> None:
    at = w.place[slot]
    if at < 0:
        if level < math.inf:
            put(w, TO_LOOK, slot, level)
    elif level < w.nodes[w.heaps[TO_LOOK].first + at].key:
        put(w, TO_LOOK, slot, level)


@jit
def _mark(w: World, slot: int, state: int) -> None:
    if w.slots[slot].state == 0:
        w.seen[w.sizes[SEEN]] = slot
        w.sizes[SEEN] += 1
    w.slots[slot].state = state


@jit
def _look_at_all(w: World, number: int) -> None:
    """Look at the slots of a class whose count has changed."""
    for at in range(w.classes[number].first, w.classes[number].last):
        slot = w.entries[at].slot
        if w.slots[slot].full < math.inf:
            _look_at(w, slot, 0.0)
        elif w.classes[number].active:
            _look_at(w, slot, free_until(w, slot))


@jit
def _replay(w: World) -> None:
    while w.heaps[TO_LOOK].size > 0:
        node = w.nodes[w.heaps[TO_LOOK].first]
        slot, now = node.item, node.key
        drop(w, TO_LOOK, slot)
        state, old = w.slots[slot].state, w.slots[slot].full
        if state == _SETTLED:
            continue
        if old == math.inf:
            free = free_until(w, slot)
            if free > now:
                _look_at(w, slot, free)
                continue
        new = _full_at(w, slot, now)
        if state == _PASSED:
            if new <= now * (1.0 + SAME):
                _hold(w, slot, new)
            else:
                _look_at(w, slot, new)
        elif new > old * (1.0 + SAME):
            if now < old:
                _look_at(w, slot, old)
            else:
                _let_go(w, slot, now)
                _look_at(w, slot, max(new, now))
        elif new <= now * (1.0 + SAME) or now >= old:
            _hold(w, slot, new)
        else:
            _look_at(w, slot, min(new, old))


@jit
def _full_at(w: World, number: int, now: float) -> float:
    slot = w.slots[number]
    bar = now
    while True:
        used = room = 0.0
        lowest = math.inf
        for at in range(slot.first, slot.first + slot.size):
            entry = w.entries[w.listed[at]]
            it = w.classes[entry.owner]
            own = it.top if it.holder == number else it.level
            if own <= bar:
                used += entry.use * own
            else:
                room += entry.use
                lowest = min(lowest, own)
        if room == 0.0:
            return math.inf
        full: float = (slot.capacity - used) / room
        if lowest > full:
            return max(full, 0.0)
        bar = full


@jit
def _let_go(w: World, number: int, now: float) -> None:
    _mark(w, number, _PASSED)
    slot = w.slots[number]
    slot.full = math.inf
    for listed in range(slot.first, slot.first + slot.size):
        owner = w.entries[w.listed[listed]].owner
        it = w.classes[owner]
        if it.holder != number:
            continue
        note(w, owner, it.level)
        tie = -1
        for at in range(it.first, it.last):
            if w.slots[w.entries[at].slot].state == _SETTLED:
                tie = w.entries[at].slot
                break
        if tie >= 0:
            move(w, owner, w.slots[tie].full, tie)
            continue
        for at in range(it.first, it.last):
            w.slots[w.entries[at].slot].taken -= w.entries[at].use * it.level
        loosen(w, owner)
        for at in range(it.first, it.last):
            other = w.entries[at].slot
            if other != number:
                free = now if w.slots[other].full < math.inf else free_until(w, other)
                _look_at(w, other, max(free, now))


@jit
def _hold(w: World, number: int, new: float) -> None:
    _mark(w, number, _SETTLED)
    slot = w.slots[number]
    if abs(new - slot.full) <= SAME * new:
        new = slot.full
    slot.full = new
    limit = new * (1.0 + SAME)
    for listed in range(slot.first, slot.first + slot.size):
        owner = w.entries[w.listed[listed]].owner
        it = w.classes[owner]
        if it.level <= limit and (it.holder != number or it.level == new):
            continue
        note(w, owner, it.level)
        if it.holder == LOOSE:
            rest(w, owner, new)
            it.level = new
            it.holder = number
            continue
        for at in range(it.first, it.last):
            other = w.slots[w.entries[at].slot]
            if other.full < math.inf and other.state != _SETTLED:
                _look_at(w, w.entries[at].slot, max(new, other.full))
        move(w, owner, new, number)


@jit
def _collect(w: World) -> None:
    """Append the noted classes whose level differs to `changed`; forget all notes."""
    for noted in range(w.sizes[NOTED]):
        number = w.noted[noted]
        it = w.classes[number]
        it.noted = 0
        if it.active and it.holder == LOOSE:
            rest(w, number, it.level)
            it.holder = CAP
        if it.active and it.level != it.before:
            w.changed[w.sizes[CHANGED]] = number
            w.sizes[CHANGED] += 1
            if w.tiers > 1:
                mark_shifted(w, number)
    for at in range(w.sizes[SEEN]):
        w.slots[w.seen[at]].state = 0
    w.sizes[NOTED] = 0
    w.sizes[SEEN] = 0
