"""How do flows share resources at one instant? One weighted max-min allocation, in whole arrays.

>>> max_min([10.0], [{0: 1.0}, {0: 1.0}], weights=[1.0, 3.0]).tolist()
[2.5, 7.5]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def max_min(
    capacities: Sequence[float],
    charges: Sequence[Mapping[int, float]],
    weights: Sequence[float] | None = None,
    caps: Sequence[float] | None = None,
) -> Floats:
    """The weighted max-min rates of flows that share resources.

    The smallest rate / weight is as large as it can be, then the next smallest, and so on, with
    sum over flows of charge * rate <= capacity on every resource and rate <= cap of every flow.

    Parameters
    ----------
    capacities
        Units of work per second, one a resource, at least 0.
    charges
        One a flow: resource index to multiplicity, the work charged to it per unit moved.
    weights
        One a flow, greater than 0; all 1.0 if left out.
    caps
        One a flow, units of work per second, at least 0; none if left out.

    Returns
    -------
    Rates in units of work per second, shape (flows,); inf for a flow that nothing bounds.

    Raises
    ------
    ValueError
        Lengths that differ, or a number out of its range; it says which.
    """
    count = len(charges)
    capacity = _checked("capacity", capacities, len(capacities), 0.0)
    weight = _checked("weight", [1.0] * count if weights is None else weights, count, 0.0)
    cap = _checked("cap", [np.inf] * count if caps is None else caps, count, 0.0)
    if not ((weight > 0.0) & (weight < np.inf)).all():
        raise ValueError("every weight must be finite and greater than 0")
    owner = np.repeat(np.arange(count), [len(row) for row in charges])
    slot = np.array([index for row in charges for index in row], dtype=np.int64)
    charge = _checked("charge", [value for row in charges for value in row.values()], len(slot), 0)
    if slot.size and (slot.min() < 0 or slot.max() >= len(capacity)):
        raise ValueError(f"a charge names a resource outside 0 to {len(capacity) - 1}")
    kept = charge > 0.0
    unit = charge[kept] * weight[owner[kept]]
    level, _ = fill(capacity, owner[kept], slot[kept], unit, cap / weight)
    return level * weight


def _checked(name: str, values: Sequence[float], count: int, least: float) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (count,):
        raise ValueError(f"{count} flows need {count} numbers as {name}, not {array.shape}")
    bad = np.flatnonzero(~(array >= least))
    if bad.size:
        raise ValueError(f"{name} {bad[0]} is {array[bad[0]]}; it must be at least {least:g}")
    return array


def fill(
    capacity: Floats, owner: Ints, slot: Ints, use: Floats, top: Floats
) -> tuple[Floats, Ints]:
    """Progressive filling: raise one level for all classes until something stops each.

    Parameters
    ----------
    capacity
        Of each slot, shape (slots,).
    owner, slot, use
        The charges, shape (charges,), sorted by owner: which class, where, and how much capacity
        it takes there per unit of level (> 0).
    top
        The level at which each class stops by itself, shape (classes,).

    Returns
    -------
    The level of each class, and the slot that holds it (-1: its own top), shape (classes,).

    Notes
    -----
    (capacity - used) / room is a lower bound of the level at which a slot is full, as long as some
    of its classes may yet stop elsewhere. Every slot whose bound is the lowest for all of its
    classes is final, so each round settles all such slots at once, not only the lowest of all.
    """
    level = top.copy()
    holder = np.full(len(top), -1, dtype=np.int64)
    used = np.zeros(len(capacity))
    while len(owner):
        room = np.bincount(slot, weights=use, minlength=len(capacity))
        full = np.full(len(capacity), np.inf)
        np.divide(np.maximum(capacity - used, 0.0), room, out=full, where=room > 0.0)
        heads = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
        length = np.diff(np.r_[heads, len(owner)])
        classes = owner[heads]
        bound = np.minimum.reduceat(full[slot], heads)
        stop = np.repeat(np.minimum(bound, top[classes]), length)
        lowest = full.copy()
        np.minimum.at(lowest, slot, stop)
        final = lowest == full
        holds = final[slot] & (full[slot] < np.inf)
        held = np.logical_or.reduceat(holds, heads)
        capped = top[classes] <= bound
        level[classes[held]] = bound[held]
        # Backwards, so that the first slot of several that are full at this level is kept.
        holder[owner[holds][::-1]] = slot[holds][::-1]
        level[classes[capped]] = top[classes[capped]]
        holder[classes[capped]] = -1
        gone = np.repeat(held | capped | (bound == np.inf), length)
        stopped = gone & (level[owner] < np.inf)
        used += np.bincount(
            slot[stopped], weights=use[stopped] * level[owner[stopped]], minlength=len(capacity)
        )
        owner, slot, use = owner[~gone], slot[~gone], use[~gone]
    return level, holder
