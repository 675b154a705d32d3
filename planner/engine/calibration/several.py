"""What several copy engines leave of the copies, from pairs of pipelines: `beside_several`."""

from __future__ import annotations

from collections.abc import Sequence

from planner.engine.calibration.coupling import (
    LEAST,
    LINK,
    MOST,
    Joint,
    movement,
    table_of,
    with_table,
)
from planner.machine.schema import CopyName, Machine
from planner.machine.tables import CopyTable
from planner.model.copier import CROWD, Copier
from planner.model.strategies.copying import COPY


def beside_several(machine: Machine, pairs: Sequence[Joint]) -> Machine:
    """The machine, coupled already, with what pairs of runs into two GPUs say of its copies.

    Parameters
    ----------
    machine
        With the shares beside one engine.
    pairs
        Runs of two pipelines of one shape at once; `size` are the bytes of both.

    """
    for copy in dict.fromkeys(pair.copy for pair in pairs):
        own = [pair for pair in pairs if pair.copy == copy]
        machine = with_table(machine, copy, _with_shares(machine, copy, own))
    return machine


def _with_shares(machine: Machine, copy: CopyName, pairs: Sequence[Joint]) -> CopyTable:
    """The table; counts of workers below those of the pairs have what one engine leaves them."""
    table = table_of(machine, copy)
    alone = table.beside_dma or tuple(1.0 for _ in table.workers)
    found = {2 * pair.shape.workers: _share(machine, pair) for pair in pairs}
    shares = []
    for count, one in zip(table.workers, alone, strict=True):
        below = [workers for workers in found if workers <= count]
        shares.append(found[max(below)] if below else one)
    return table.model_copy(update={"beside_dma": alone, "beside_several": tuple(shares)})


def _share(machine: Machine, pair: Joint) -> float:
    """The share of C at which the model's two flows take as long as the pair did.

    Both take of one capacity, and of one thread's time to hand chunks on, and crowd at both
    (`model/copier.py`). Where something else held the pair back it is what one engine leaves, or
    what the pair proves if that is more.
    """
    copy, shape = pair.copy, pair.shape
    half = pair.size // 2
    way = movement(machine, copy, half)
    copier = Copier(way, shape, f"host0{COPY}")
    workers, ring = 2 * shape.workers, 2 * shape.ring
    table = table_of(machine, copy)
    one = table.rate(workers, ring, beside_dma=True) / table.rate(workers, ring)
    seconds = pair.seconds - way.lead(shape)
    bare = pair.size * copier.charge(workers, ring) * one  # seconds at all of C
    turns = pair.size * copier.turns
    alone = way.seconds(shape) - way.lead(shape)
    proved = bare / seconds
    if seconds <= max(alone, pair.size * _uplink(machine)) * (1 + LINK):
        return max(one, min(MOST, proved))
    left: float = seconds**CROWD - turns**CROWD
    return (
        max(LEAST, proved, min(MOST, bare / left ** (1 / CROWD))) if left > 0 else max(one, proved)
    )


def _uplink(machine: Machine) -> float:
    """Seconds that a byte takes of what both GPUs share on the way to them; 0 of nothing."""
    ports = [
        {name for name in machine.links[link].ports or () if name is not None}
        for link in ("pcie0", "pcie1")
        if link in machine.links
    ]
    shared = ports[0] & ports[1] if len(ports) > 1 else set()
    rates = [machine.ports[name].forward for name in shared]
    return max((1 / rate for rate in rates if rate), default=0.0)
