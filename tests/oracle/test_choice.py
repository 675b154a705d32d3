"""The choice against brute force: every way, a far finer grid of shapes, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import decide, setup_of
from planner.model.fits import does_not_fit
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.pipeline import exact, lengths
from planner.model.shapes import DEPTHS
from planner.model.strategies import Shape, Use
from planner.model.ways import Way, ways
from tests.helpers.machines import MIB, affine
from tests.helpers.networks import two_hosts
from tests.helpers.variants import changed, load, one_gpu, upload

SIZE = 96 * MIB


def shapes(movement: Movement, cores: int, budget: int) -> Iterator[Shape]:
    """Chunks of every 1.5 MiB from 0.5 up, all depths, all numbers of workers."""
    if movement.single:
        yield Shape(SIZE)
        return
    workers = [1] if movement.ahead else range(1, cores + 1)
    depths = DEPTHS if movement.has_ring else (2,) if movement.ahead or movement.streams else (1,)
    for chunk in range(MIB // 2, SIZE + 1, 3 * MIB // 2):
        for depth in depths:
            for count in workers:
                shape = Shape(chunk, depth, count)
                if not movement.has_ring or shape.ring <= budget:
                    yield shape


def quickest(machine: Machine, need: Need, way: Way) -> float:
    """Seconds of a way at the best of all shapes; infinite where it does not apply."""
    if way.lacks() or does_not_fit(machine, need, way):
        return float("inf")
    chosen, steady = [], 0.0
    for movement in way.movements:
        timed = [
            (_seconds(movement, shape), shape.ring, shape)
            for shape in shapes(movement, need.cores, need.pinned_budget)
        ]
        seconds, _, shape = min(timed, key=lambda row: row[:2])
        chosen.append(shape)
        steady += seconds
    setup = setup_of(machine, need, way, chosen)
    return sum(s.duration_s for s in setup) + steady


def _seconds(movement: Movement, shape: Shape) -> float:
    stages = movement.stages(shape)
    if not stages:
        return 0.0
    chunks = lengths(movement.size, shape.chunk)
    return exact(stages, chunks, shape.workers, shape.depth).total_s + movement.tail


def small() -> Machine:
    """`one_gpu` with everything, and setup that costs nothing, so that steady times decide."""
    return changed(
        one_gpu(setup={"map_touch": 10e9, "register": 1e18, "register_file": 1e18}),
        {
            "links.pcie0.forward.curves.zero_copy": affine(8e9, 20e-6),
            "links.pcie0.forward.curves.managed_fault": affine(2e9, 100e-6),
            "links.pcie0.forward.curves.managed_prefetch": affine(8e9, 50e-6),
            "nodes.host0.register_ahead": affine(40e9, 100e-6),
            "nodes.host0.issue": 5e-6,
            "nodes.host0.copy.memory.per_piece": 1e-6,
        },
    )


CASES = {
    "cached file": (small(), load(SIZE, cores=4)),
    "half cold file": (small(), load(SIZE, cores=4, cached=0.5)),
    "ordinary memory": (small(), upload(SIZE, cores=4)),
    "little of a mapped buffer": (small(), upload(SIZE, "mapped", use=Use(0.01, 3, "random"))),
    "managed, read often": (small(), upload(SIZE, "managed", cores=4, use=Use(1.0, 9))),
    "small pieces": (small(), upload(SIZE, "pinned", cores=4, pieces=((4096, SIZE // 4096),))),
    "file to another host's GPU": (
        two_hosts(),
        Need("n", "disk0", "node1.gpu0", SIZE, "file", "device", 64 * MIB, 3),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_choice_is_within_one_per_cent_of_brute_force(case: str) -> None:
    machine, need = CASES[case]
    best = decide(Topology(machine), need).best
    every = [quickest(machine, need, way) for way in ways(Topology(machine), need)]
    assert best.duration(1) <= min(every) * 1.01
    # The way itself is the one that brute force finds, or as good as that one.
    own = quickest(machine, need, best.way)
    assert own <= min(every) * 1.01


def test_every_candidate_is_within_one_per_cent_of_its_own_best() -> None:
    machine, need = CASES["cached file"]
    decision = decide(Topology(machine), need)
    for candidate in (decision.best, *decision.others):
        assert candidate.steady <= quickest(machine, need, candidate.way) * 1.01


def test_the_catalogues_load_is_within_one_per_cent_of_a_finer_grid() -> None:
    # Its copy table makes the ring matter: 4 – 6 MiB and 12 – 16 workers.
    machine = load_machine("h200-sxm-1")
    size = 2 << 30
    # Run so often that making the ring does not matter; registering 2 GiB is beyond the budget.
    need = Need("n", "disk0", "gpu0", size, "file", "device", 1 << 30, 16, repeat=1000)
    best = decide(Topology(machine), need).best
    assert best.way.names == ("buffered", "pinned")
    movement = best.way.movements[0]
    finer = min(
        exact(
            movement.stages(shape), lengths(size, shape.chunk), shape.workers, shape.depth
        ).total_s
        for chunk in range(3, 10)
        for count in range(10, 17)
        for depth in (1, 2)
        for shape in [Shape(chunk * MIB, depth, count)]
    )
    assert best.steady <= finer * 1.01


def test_a_small_flow_does_not_touch_a_big_ring() -> None:
    """With setup in it: brute force over what a single run takes, ring and all."""
    host = one_gpu(setup={"touch_fresh": 2e9, "register": 1e18})
    need = load(16 * MIB, cores=8)
    best = decide(Topology(host), need).best
    movement = best.way.movements[0]
    brute = min(
        exact(movement.stages(s), lengths(need.size, s.chunk), s.workers, s.depth).total_s
        + s.ring / 2e9
        for chunk in range(MIB // 4, 8 * MIB, MIB // 4)
        for depth in (1, 2)
        for workers in range(1, 9)
        for s in [Shape(chunk, depth, workers)]
    )
    # Shapes that save less than 5 % by their setup are passed over for the steady rate.
    assert best.duration(1) <= brute * 1.05 * 1.01
    many = decide(Topology(host), load(16 * MIB, cores=8, repeat=1000)).best
    assert many.ring > best.ring
