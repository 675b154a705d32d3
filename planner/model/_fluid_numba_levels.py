"""Where the sharing stands once more, compiled by numba.

What each step is for is said in `_fluid_levels`, function by function of the same name.
"""

from __future__ import annotations

import math

from planner.model._fluid_levels import LOOSE, LOST, MARGIN
from planner.model._fluid_numba_world import NOTED, World, jit


@jit
def note(w: World, number: int, before: float) -> None:
    if w.classes[number].noted == 0:
        w.classes[number].noted = 1
        w.classes[number].before = before
        w.noted[w.sizes[NOTED]] = number
        w.sizes[NOTED] += 1


@jit
def _list_entry(w: World, number: int) -> None:
    slot = w.slots[w.entries[number].slot]
    w.entries[number].place = slot.size
    w.listed[slot.first + slot.size] = number
    slot.size += 1


@jit
def _unlist_entry(w: World, number: int) -> None:
    slot = w.slots[w.entries[number].slot]
    slot.size -= 1
    last = w.listed[slot.first + slot.size]
    w.listed[slot.first + w.entries[number].place] = last
    w.entries[last].place = w.entries[number].place
    if slot.size == 0:
        slot.taken = 0.0


@jit
def set_count(w: World, number: int) -> None:
    it = w.classes[number]
    was_active = it.active
    for at in range(it.first, it.last):
        entry = w.entries[at]
        if was_active:
            w.slots[entry.slot].taken -= entry.use * it.level
        entry.use = entry.unit * it.count
        if it.count == 0.0:
            _unlist_entry(w, at)
        elif not was_active:
            _list_entry(w, at)
    if w.tiers > 1:
        mark_shifted(w, number)
    if it.count == 0.0:
        it.active = 0
        it.level = math.inf
        it.holder = LOOSE
        return
    it.active = 1
    loosen(w, number)
    note(w, number, -1.0)


@jit
def loosen(w: World, number: int) -> None:
    it = w.classes[number]
    it.level = it.top
    it.holder = LOOSE
    for at in range(it.first, it.last):
        entry = w.entries[at]
        slot = w.slots[entry.slot]
        slot.room += entry.use
        slot.risen += entry.use
        slot.rising += 1


@jit
def rest(w: World, number: int, own: float) -> None:
    it = w.classes[number]
    for at in range(it.first, it.last):
        entry = w.entries[at]
        slot = w.slots[entry.slot]
        slot.taken += entry.use * own
        slot.rising -= 1
        if slot.rising:
            slot.room -= entry.use
        else:
            slot.room = 0.0
            slot.risen = 0.0


@jit
def move(w: World, number: int, own: float, slot: int) -> None:
    it = w.classes[number]
    rise = own - it.level
    for at in range(it.first, it.last):
        w.slots[w.entries[at].slot].taken += w.entries[at].use * rise
    it.level = own
    it.holder = slot


@jit
def free_until(w: World, number: int) -> float:
    slot = w.slots[number]
    spare = slot.capacity * (1.0 - MARGIN) - slot.taken
    if spare <= 0.0:
        return 0.0
    if slot.rising == 0:
        return math.inf
    free: float = spare / (slot.room + LOST * slot.risen)
    return free


@jit
def mark_shifted(w: World, number: int) -> None:
    for entry in range(w.classes[number].first, w.classes[number].last):
        w.resources[w.entries[entry].slot % len(w.resources)].shifted = 1
