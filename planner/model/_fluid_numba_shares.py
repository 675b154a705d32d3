"""Weights as shares of engines once more, compiled by numba.

What each step is for is said in `_fluid_levels`, `_with_shares`.
"""

from __future__ import annotations

from planner.model._fluid_numba_world import DIRTY, World, jit

_FORGOTTEN, _SUMMED, _DONE = range(3)  # how far an engine is


@jit
def share_engines(w: World) -> None:
    """Set the weights that change with the counts of the dirty classes; all of these are dirty."""
    counted = w.sizes[DIRTY]
    for at in range(counted):
        w.classes[w.dirty[at]].dirty = 1
        _forget_pulls(w, w.dirty[at])
    _sum_pulls(w, counted)
    for at in range(counted):
        it = w.classes[w.dirty[at]]
        _weigh(w, w.dirty[at])
        for entry in range(it.first, it.last):
            slot = w.entries[entry].slot
            if w.entries[entry].pull > 0.0 and w.slots[slot].shared != _DONE:
                w.slots[slot].shared = _DONE
                _weigh_sharers(w, slot)
    for at in range(w.sizes[DIRTY]):
        w.classes[w.dirty[at]].dirty = 0


@jit
def _forget_pulls(w: World, number: int) -> None:
    for entry in range(w.classes[number].first, w.classes[number].last):
        if w.entries[entry].pull > 0.0:
            w.slots[w.entries[entry].slot].shared = _FORGOTTEN


@jit
def _sum_pulls(w: World, counted: int) -> None:
    """What all weigh on the engines of the first `counted` dirty classes, with these."""
    for at in range(counted):
        it = w.classes[w.dirty[at]]
        for entry in range(it.first, it.last):
            slot = w.entries[entry].slot
            if w.entries[entry].pull > 0.0 and w.slots[slot].shared == _FORGOTTEN:
                w.slots[slot].shared = _SUMMED
                w.slots[slot].pull = _pull(w, slot)
    for at in range(counted):
        it = w.classes[w.dirty[at]]
        for entry in range(it.first, it.last):
            if w.entries[entry].pull > 0.0 and not it.active:
                w.slots[w.entries[entry].slot].pull += w.entries[entry].pull * it.count


@jit
def _pull(w: World, number: int) -> float:
    """What those that were active on the slot weigh there with their counts of now."""
    slot = w.slots[number]
    total = 0.0
    for at in range(slot.first, slot.first + slot.size):
        entry = w.entries[w.listed[at]]
        total += entry.pull * w.classes[entry.owner].count
    return total


@jit
def _weigh_sharers(w: World, number: int) -> None:
    slot = w.slots[number]
    for at in range(slot.first, slot.first + slot.size):
        if w.entries[w.listed[at]].pull > 0.0:
            _weigh(w, w.entries[w.listed[at]].owner)


@jit
def _weigh(w: World, number: int) -> None:
    it = w.classes[number]
    if it.count == 0.0:
        return
    most = 0.0
    for entry in range(it.first, it.last):
        if w.entries[entry].pull > 0.0:
            most = max(most, w.slots[w.entries[entry].slot].pull)
    weight = it.own_weight / most if most > 0.0 else it.own_weight
    if weight == it.weight:
        return
    it.top = it.cap / weight
    it.weight = weight
    for entry in range(it.first, it.last):
        w.entries[entry].unit = w.entries[entry].charge * weight
    if it.dirty == 0:
        it.dirty = 1
        w.dirty[w.sizes[DIRTY]] = number
        w.sizes[DIRTY] += 1
