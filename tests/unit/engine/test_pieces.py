"""Many small pieces: a file's range is read as it lies; those of memory are gathered."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from planner.engine import drive
from planner.engine.execute import execute
from planner.engine.layout import Layout, pieces_of, scattered
from planner.engine.memory import HostBuffer
from planner.engine.ops import POOL
from planner.engine.pattern import Pattern
from planner.engine.strategies.base import Hands, Operation, Scattered, cut
from planner.engine.worker import operations_of
from planner.errors import UnavailableError
from planner.model.estimate import estimate
from planner.model.strategies import EXECUTABLE
from planner.plan.schema import Plan
from tests.helpers.machines import MIB, every_way, linked_gpus, one_gpu, two_gpus
from tests.helpers.schedules import KIB, PIECES, SCATTERED, plan_for, run_way


def test_pieces_cost_nothing_while_bytes_move(monkeypatch: pytest.MonkeyPatch) -> None:
    count = [0]

    def counting(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        read = operations[POOL]

        def counted(slot: int, chunk: int) -> None:
            count[0] += 1
            read(slot, chunk)

        operations[POOL] = counted
        return operations

    monkeypatch.setattr(drive, "operations_of", counting)
    pieces = {"count": 100_000}
    run = run_way("load", 16 * MIB, one_gpu(), shape=(MIB, 2, 1), pieces=pieces)
    assert run.flows[0].verified is True
    # One read for each chunk of 1 MiB, however many of the 100,000 pieces lie in it.
    assert count[0] == 16


@pytest.mark.parametrize("shape", [(4 * KIB, 2, 2), (256 * KIB + 64, 1, 3), (64 * MIB, 2, 1)])
@pytest.mark.parametrize("way", SCATTERED)
def test_every_byte_of_scattered_pieces_arrives(way: str, shape: tuple[int, int, int]) -> None:
    run = run_way(
        way,
        sum(PIECES),
        every_way(),
        shape=shape,
        samples=2,
        pieces={"count": len(PIECES), "sizes": PIECES},
    )
    assert run.flows[0].verified is True


@pytest.mark.parametrize("way", SCATTERED)
def test_scattered_pieces_alone_measure_their_estimate(way: str) -> None:
    pieces = {"count": 302, "sizes": [64 * KIB] * 300 + [8 * MIB, 3]}
    run = run_way(
        way,
        300 * 64 * KIB + 8 * MIB + 3,
        every_way(),
        shape=(MIB, 2, 4),
        backend="null",
        pieces=pieces,
    )
    flow = run.flows[0]
    assert flow.duration_s == pytest.approx(flow.predicted_s, rel=1e-9)
    assert flow.steady_s == pytest.approx(flow.predicted_steady_s, rel=1e-9)


def test_shares_of_a_flow_have_their_own_pieces() -> None:
    words = {
        "from": "host0",
        "to": ["gpu0", "gpu1"],
        "copy": "shard",
        "size": 3 * MIB,
        "pieces": {"count": 1000},
        "memory": "pinned",
    }
    plan = Plan.model_validate({"flows": {"f": words}})
    run = execute(
        plan, two_gpus(), estimate=estimate(plan, two_gpus()), backend="host", samples=1, warmup=0
    )
    assert [flow.verified for flow in run.flows] == [True, True]


def test_copies_of_scattered_pieces_lie_packed() -> None:
    machine = linked_gpus(3)
    words = {
        "from": "host0",
        "to": ["gpu0", "gpu1", "gpu2"],
        "copy": "replicate",
        "size": 8 * MIB,
        "pieces": {"count": 900},
    }
    plan = Plan.model_validate({"flows": {"f": words}})
    found = estimate(plan, machine, only=EXECUTABLE)
    run = execute(plan, machine, estimate=found, backend="host", samples=1, warmup=0)
    assert [flow.verified for flow in run.flows] == [True] * 3


@pytest.mark.parametrize("way", ["zero-copy in", "chunks in", "local"])
def test_ways_that_gather_nothing_say_so(way: str) -> None:
    with pytest.raises(UnavailableError, match="does not gather the 10 pieces"):
        run_way(way, MIB, every_way(), pieces={"count": 10})


def test_neighbours_are_one_piece() -> None:
    # 100,000 pieces of 100 bytes one behind the other: every chunk is one call.
    layout = Layout((at, 100) for at in range(4096, 4096 + 10_000_000, 100))
    assert len(layout) == 1
    assert layout.runs(5, 1_000_005) == ((5, 4101, 1_000_000),)


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=40).filter(sum),
    data=st.data(),
)
def test_runs_cover_their_bytes_once(sizes: list[int], data: st.DataObject) -> None:
    layout, total = scattered(sizes), sum(sizes)
    assert layout.size == total
    whole = layout.runs(0, total)
    # No two share a byte of the memory, and none reaches beyond its extent.
    used = sorted((place, place + length) for _, place, length in whole)
    assert all(end <= start for (_, end), (start, _) in pairwise(used))
    assert used[-1][1] == layout.extent
    memory = np.zeros(layout.extent, np.uint8)
    layout.write(
        lambda at, found: memory.__setitem__(slice(at, at + found.size), found), Pattern(5)
    )
    wanted = np.empty(total, np.uint8)
    Pattern(5).write(wanted, 0)
    low = data.draw(st.integers(0, total - 1))
    high = data.draw(st.integers(low, total))
    found = [memory[place : place + length] for _, place, length in layout.runs(low, high)]
    assert b"".join(part.tobytes() for part in found) == wanted[low:high].tobytes()


def test_a_plan_s_own_order_of_pieces_is_kept() -> None:
    flow = plan_for("pinned in", 600, pieces={"count": 3, "sizes": [100, 200, 300]}).flows["f"]
    assert pieces_of(flow, 0, 600) == [100, 200, 300]
    assert pieces_of(flow, 150, 300) == [150, 150]
    assert pieces_of(flow, 0, 100) == []  # one piece lies as it lies
    even = plan_for("pinned in", 10, pieces={"count": 4}).flows["f"]
    assert pieces_of(even, 0, 10) == [3, 3, 2, 2]


def test_a_gathered_piece_costs_little() -> None:
    """Packing 20,000 pieces of 64 bytes; 5 us each is thrice what is measured on a busy machine."""
    layout = scattered([64] * 20_000)
    memory, packed = HostBuffer(layout.extent), HostBuffer(layout.size)
    memory.touch()
    packed.touch()
    chunks = cut(layout.size, 256 * KIB)
    source = Scattered(layout, memory.address, chunks)

    def once() -> float:
        start = perf_counter()
        for chunk, low in enumerate(chunks.lows):
            source.gather(chunk, packed.address + low)
        return (perf_counter() - start) / 20_000

    assert min(once() for _ in range(5)) < 5e-6
    memory.close()
    packed.close()
