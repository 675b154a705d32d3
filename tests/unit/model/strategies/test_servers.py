"""The servers that strategies share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.machine.curve import Curve
from planner.machine.tables import CopyTable
from planner.model.strategies import Crossing, Shape
from planner.model.strategies.base import Kind
from planner.model.strategies.copying import copy_stage, ring_of
from planner.model.strategies.servers import dma
from tests.helpers.machines import GB, MIB, one_gpu


def crossing(before: Kind = "pageable", size: int = GB, **more: object) -> Crossing:
    return Crossing(one_gpu(), "pcie0", "host0", "gpu0", before, "device", size, **more)  # type: ignore[arg-type]


def table(per_chunk: float = 0.0, per_piece: float = 0.0) -> CopyTable:
    return CopyTable(
        workers=(8,), rings=(MIB,), rates=((16e9,),), per_chunk=per_chunk, per_piece=per_piece
    )


def crowding(alone: float, turns: float) -> float:
    """Seconds of a chunk whose copying and whose turns at the locks add up in the fourth power."""
    return float((alone**4 + turns**4) ** (1 / 4))


def test_workers_share_the_capacity() -> None:
    # Eight workers at 16 GB/s together: 1 MB each in 0.5 ms.
    stage = copy_stage(crossing(), table(), Shape(10**6, 2, 8), MIB, dma=False)
    assert stage.seconds(10**6) == pytest.approx(0.5e-3)
    assert stage.charges == {"host0.copy": 1 / 16e9}


def test_the_interpreter_is_taken_in_turn() -> None:
    # 10 us a chunk: of 1 MB beside 0.5 ms of copying it is a 2 % tax, and 80 us of turns are waited
    # for by next to nobody; of 64 KB (32 us of copying) eight workers queue for it, 80 us a round.
    shared = table(per_chunk=10e-6)
    big = copy_stage(crossing(), shared, Shape(10**6, 2, 8), MIB, dma=False)
    assert big.seconds(10**6) == pytest.approx(crowding(0.51e-3, 80e-6))
    assert big.seconds(10**6) == pytest.approx(0.51e-3, rel=0.02)
    assert big.cause == "host_copy"
    small = copy_stage(crossing(), shared, Shape(64_000, 2, 8), MIB, dma=False)
    assert small.seconds(64_000) == pytest.approx(crowding(42e-6, 80e-6))
    assert small.cause == "issue_overhead"


def test_a_turn_is_taken_only_where_workers_crowd() -> None:
    # 10 us of Python and 70 us a turn, of which eight workers hand over 60 us 7/8 of the time, and
    # wait for it as much of that: 10 + 60 * 49/64 us. Eight take 0.45 ms beside the 0.53 ms of a
    # copy of 1 MiB.
    crowded = table(per_chunk=10e-6).model_copy(update={"turn": 70e-6, "brief": 0.6})
    shape = Shape(MIB, 2, 8)
    beside = copy_stage(crossing(), crowded, shape, MIB, dma=True)
    assert beside.seconds(MIB) == pytest.approx(crowding(10e-6 + MIB / 2e9, 8 * 55.9375e-6))
    # Of 512 KiB, halfway from 0.6 to all of it, a turn of 56 us: eight take 0.36 ms, a copy 0.27.
    small = copy_stage(crossing(), crowded, Shape(MIB // 2, 2, 8), MIB, dma=True)
    turns = 8 * (10e-6 + 46e-6 * 49 / 64)
    assert small.seconds(MIB // 2) == pytest.approx(crowding(10e-6 + MIB / 4e9, turns))
    assert (beside.cause, small.cause) == ("host_copy", "issue_overhead")
    assert beside.charges["host0.dispatch"] == pytest.approx(55.9375e-6 / MIB)
    # 8 MB take 4.01 ms: hardly a turn is waited for. One worker never meets anybody.
    assert beside.seconds(8 * 10**6) == pytest.approx(crowding(4.01e-3, 8 * 55.9375e-6))
    lonely = copy_stage(crossing(), crowded, Shape(10**5, 2, 1), MIB, dma=True)
    assert lonely.seconds(10**5) == pytest.approx(10e-6 + 10**5 / 16e9)
    assert lonely.cause == "host_copy"
    # Two meet half as often as many do, and find the lock taken half as often; who copies for some
    # us finds the others awake, by turns of 42 us.
    pair = copy_stage(crossing(), crowded, Shape(10**5, 2, 2), MIB, dma=True)
    assert pair.seconds(10**5) == pytest.approx(crowding(10e-6 + 2 * 10**5 / 16e9, 2 * 18e-6))
    # But a worker by itself hands every chunk to an emulated engine's thread, and takes it back.
    tree = one_gpu().model_dump(mode="json", by_alias=True) | {"emulated": True}
    few = Crossing(
        type(one_gpu()).model_validate(tree), "pcie0", "host0", "gpu0", "pageable", "device", GB
    )
    handed = copy_stage(few, crowded, Shape(10**5, 2, 1), MIB, dma=True)
    assert handed.seconds(10**5) == pytest.approx(70e-6)
    # Without DMA the lock goes from hand to hand as well: 32 workers on 256 KiB of a cached file
    # reached 18 GB/s where their copies alone would have reached 67 (H200 machine). Who has not
    # measured that takes the turn beside DMA for it.
    plain = copy_stage(crossing(), crowded, shape, MIB, dma=False)
    assert plain.seconds(MIB) == beside.seconds(MIB)


def test_a_turn_without_dma_is_the_host_s_own() -> None:
    # The table's 70 us hold the driver's locks, too, 42 of them by so little. 100 KB take eight
    # workers 50 us of copying and 10 of Python, or eight turns of 15 us at the interpreter's lock.
    crowded = table(per_chunk=10e-6).model_copy(update={"turn": 70e-6, "brief": 0.6})
    tree = one_gpu().model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["turn"] = 15e-6
    at = Crossing(
        type(one_gpu()).model_validate(tree), "pcie0", "host0", "gpu0", "pageable", "device", GB
    )
    shape = Shape(10**5, 2, 8)
    plain = copy_stage(at, crowded, shape, MIB, dma=False)
    assert plain.seconds(10**5) == pytest.approx(crowding(60e-6, 8 * (10e-6 + 5e-6 * 49 / 64)))
    assert plain.charges["host0.dispatch"] == pytest.approx((10e-6 + 5e-6 * 49 / 64) / 10**5)
    beside = copy_stage(at, crowded, shape, MIB, dma=True)
    assert beside.seconds(10**5) == pytest.approx(crowding(60e-6, 8 * (10e-6 + 32e-6 * 49 / 64)))


def test_without_dma_a_run_waits_for_its_workers_as_the_host_says() -> None:
    # Beside DMA the table's own 1 ms for eight workers; without it 7 further ones of 50 us each, or
    # nothing that a stage knows where the host does not.
    led = table().model_copy(update={"lead": (1e-3,) * len(table().workers)})
    tree = one_gpu().model_dump(mode="json", by_alias=True)
    shape = Shape(10**6, 2, 8)
    for lead, waking in ((50e-6, 350e-6), (None, None)):
        tree["nodes"]["host0"]["lead"] = lead
        at = Crossing(
            type(one_gpu()).model_validate(tree), "pcie0", "host0", "gpu0", "pageable", "device", GB
        )
        assert copy_stage(at, led, shape, MIB, dma=True).waking == pytest.approx(1e-3)
        assert copy_stage(at, led, shape, MIB, dma=False).waking == pytest.approx(waking)


def test_pieces_are_gathered_under_the_same_lock() -> None:
    # 1,000 pieces in 1 MB, 1 us each: 1 ms a chunk, eight workers take 8 ms for eight chunks, and
    # each its own 1.5 ms.
    pieces = ((1000, 1_000_000),)
    stage = copy_stage(
        crossing(pieces=pieces), table(per_piece=1e-6), Shape(10**6, 2, 8), MIB, dma=False
    )
    assert stage.seconds(10**6) == pytest.approx(crowding(1.5e-3, 8e-3))
    assert stage.cause == "issue_overhead"


def test_a_copy_engine_charges_its_own_time_and_disturbs_the_other_direction() -> None:
    tree = one_gpu().model_dump(mode="json", by_alias=True)
    tree["links"]["pcie0"]["backward"]["against"] = 0.1
    machine = type(one_gpu()).model_validate(tree)
    at = Crossing(machine, "pcie0", "host0", "gpu0", "pinned", "device", GB)
    stage = dma(at, Curve(latency=10e-6, gap=2e-6, rate=10e9), Shape(10**6))
    # 2 us + 100 us for 1 MB.
    assert stage.charges["pcie0.forward"] == pytest.approx(102e-12)
    assert stage.charges["pcie0.backward"] == pytest.approx(0.1 / 10e9)
    assert stage.lag == pytest.approx(8e-6)


@pytest.mark.parametrize(("before", "bytes_round"), [("fill", 64 * MIB), ("pageable", GB)])
def test_stores_go_round_in_the_ring_or_through_the_whole_buffer(
    before: Kind, bytes_round: int
) -> None:
    assert ring_of(crossing(before), Shape(8 * MIB, 2, 4)) == bytes_round


@pytest.mark.parametrize(
    ("workers", "chunk", "cores", "idle"),
    [
        (8, 4 * MIB, 32, 0.25e-3),
        (2, 4 * MIB, 32, 0.0),  # so few copy for themselves
        (4, 4 * MIB, 4, 0.0),  # nobody is left to hand on
        (8, 64 << 10, 32, 0.0),  # and chunks so small are read by whoever issues them
    ],
)
def test_a_slot_stands_idle_only_where_another_thread_hands_it_on(
    workers: int, chunk: int, cores: int, idle: float
) -> None:
    late = table().model_copy(update={"late": 0.25e-3})
    shape = Shape(chunk, 1, workers)
    stage = copy_stage(crossing("file", cores=cores), late, shape, MIB, dma=True)
    assert stage.turns is not None
    assert stage.turns.late == idle
    # What lies in memory the workers copy themselves.
    own = copy_stage(crossing(cores=cores), late, shape, MIB, dma=True)
    assert own.turns is not None
    assert own.turns.late == 0


def test_workers_call_the_driver_three_times_for_a_chunk_beside_an_engine() -> None:
    # 5 us each: 15 us beside 0.5 ms of copying and 10 us of Python, where the machine has a driver,
    # and where the worker is not one of the C library's threads.
    tree = one_gpu().model_dump(mode="json", by_alias=True)
    tree["nodes"]["host0"]["issue"] = 5e-6
    machine = type(one_gpu()).model_validate(tree)
    emulated = type(one_gpu()).model_validate(tree | {"emulated": True})
    plain = table(per_chunk=10e-6)
    shape = Shape(10**6, 2, 8)

    def seconds(at: Crossing, *, dma: bool = True) -> float:
        stage = copy_stage(at, plain, shape, MIB, dma=dma)
        assert stage.turns is not None
        return stage.turns.alone(10**6)

    real = replace(crossing(cores=32), machine=machine)
    assert seconds(real) == pytest.approx(0.525e-3)
    assert seconds(real, dma=False) == pytest.approx(0.51e-3)
    assert seconds(replace(real, before="file")) == pytest.approx(0.51e-3)
    assert seconds(replace(real, machine=emulated)) == pytest.approx(0.51e-3)


def test_who_hands_on_meets_the_readers_and_they_do_not_meet_each_other() -> None:
    # 64 KB would be read by eight workers themselves; 256 KiB are handed on, 10 + 60 * 7/8 us each.
    crowded = table(per_chunk=10e-6).model_copy(update={"turn": 70e-6, "brief": 0.6})
    # Readers that wake each other take 0.6 of a turn for so little.
    expected: dict[Kind, float] = {
        "file": 8 * 62.5e-6,
        "pageable": 8 * (10e-6 + 32e-6 * 49 / 64),
    }
    for before, turns in expected.items():
        at = crossing(before, cores=32)
        stage = copy_stage(at, crowded, Shape(256 << 10, 2, 8), MIB, dma=True)
        copying = 10e-6 + 8 * (256 << 10) / 16e9
        assert stage.seconds(256 << 10) == pytest.approx(crowding(copying, turns))
