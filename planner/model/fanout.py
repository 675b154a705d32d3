"""The same bytes for several GPUs: read once and copied on, instead of read once for each.

A *tree* copies whole copies: after one copy there are two, then four, then eight. A *chain* passes
every chunk on as it comes in, so all copies end a few chunks after the first, and the first is as
fast as the slowest link of all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from planner.errors import InfeasibleError
from planner.machine.schema import Hbm
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, Fan, Lane, alone, turns_of
from planner.model.choose import Candidate, decide, setup_of, steady_of
from planner.model.need import Need, Pins
from planner.model.needs import Demand
from planner.model.scheduled import rebased
from planner.model.strategies import Shape


def fans(
    topology: Topology,
    group: Sequence[Demand],
    first: Mapping[str, Arrangement],
    only: Collection[str] | None = None,
    suited: Callable[[Demand, Arrangement], Arrangement] = lambda _demand, arrangement: arrangement,
) -> dict[Fan, dict[str, Arrangement]]:
    """What a group of equal copies could do instead of reading one each, by kind and flow's name.

    `first` is what each of them would do alone; the one that is fastest alone is read. Empty where
    the destinations are no GPUs, the plan pins a way, or there is no way between two of them (by
    the strategies `only`). `suited` makes of a flow's arrangement what its class and its cap want.
    """
    order = sorted(group, key=lambda d: (first[d.need.name].candidate.steady, d.need.name))
    if len(order) < 2 or not all(_may_copy(topology, d) for d in order):
        return {}
    try:
        tree = _tree(topology, order, only)
        chain = _chain(topology, order, first[order[0].need.name], only, suited)
    except InfeasibleError:
        return {}
    root = {order[0].need.name: first[order[0].need.name]}
    found: dict[Fan, dict[str, Arrangement]] = {"tree": root | tree}
    if chain:
        found["chain"] = chain
    return found


def _may_copy(topology: Topology, demand: Demand) -> bool:
    gpu = isinstance(topology.machine.nodes[demand.need.end], Hbm)
    return demand.copies and gpu and demand.need.pins == Pins()


def _onward(demand: Demand, source: str) -> Need:
    """The need of a copy from one GPU to the next, where the bytes lie in one range."""
    return replace(demand.need, start=source, first="device", cached=1.0, hot=False, pieces=())


def _tree(
    topology: Topology, order: Sequence[Demand], only: Collection[str] | None
) -> dict[str, Arrangement]:
    """Copy k comes from copy k - 2^m with the largest 2^m up to k: each has one child a round."""
    found: dict[str, Arrangement] = {}
    latest: dict[int, str] = {}
    for k, demand in enumerate(order[1:], start=1):
        parent = k - (1 << (k.bit_length() - 1))
        need = _onward(demand, order[parent].need.end)
        lane = Lane(need, decide(topology, need, only=only).best)
        source = order[parent].need.name
        found[demand.need.name] = Arrangement(
            (lane,), source=source, fan="tree", behind=latest.get(parent)
        )
        latest[parent] = demand.need.name
    return found


def _chain(
    topology: Topology,
    order: Sequence[Demand],
    root: Arrangement,
    only: Collection[str] | None,
    suited: Callable[[Demand, Arrangement], Arrangement],
) -> dict[str, Arrangement]:
    """Each from the one before; only where the first comes in chunks, and each hop is one copy.

    The root is among them, in chunks that suit what is done with them.
    """
    if len(root.lanes) > 1 or root.candidate.shapes[-1].chunk >= order[0].need.size:
        return {}
    need = order[0].need
    # A chunk that is passed on keeps its worker longer at the locks, so larger ones may be better.
    busier = decide(topology, replace(need, turns=turns_of(len(order) - 1)), only=only).best
    root = suited(order[0], alone(need, rebased(topology.machine, need, busier)))
    shape = root.candidate.shapes[-1]
    if shape.chunk >= need.size:
        return {}
    found: dict[str, Arrangement] = {need.name: root}
    for before, demand in pairwise(order):
        need = _onward(demand, before.need.end)
        decision = decide(topology, need, only=only)
        direct = (c for c in (decision.best, *decision.others) if _is_one_copy(c))
        best = next(direct, None)
        if best is None:
            return {}
        shapes = (Shape(shape.chunk, 2),)
        steady = steady_of(need, best.way.movements, shapes)
        setup = setup_of(topology.machine, need, best.way, shapes)
        lane = Lane(need, Candidate(best.way, shapes, steady, setup))
        found[demand.need.name] = Arrangement((lane,), source=before.need.name, fan="chain")
    return found


def _is_one_copy(candidate: Candidate) -> bool:
    """Whether every chunk goes from GPU to GPU in one copy, with nothing between."""
    movements = candidate.way.movements
    return len(movements) == 1 and not movements[0].has_ring
