"""Joint runs become factors with which the model reproduces them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.engine.calibration.coupling import (
    HANDING_ON,
    Joint,
    coupled,
    factor,
    movement,
    with_table,
)
from planner.engine.calibration.joint import joints
from planner.engine.calibration.proved import proved
from planner.engine.calibration.rounds import Cell
from planner.machine.curve import Point
from planner.machine.load import load_machine
from planner.machine.schema import CopyName, Machine, Ram
from planner.machine.tables import BRIEF, CopyTable
from planner.model.strategies import Shape

MIB = 1 << 20
SIZE = 2 << 30
COPIES: tuple[CopyName, ...] = ("file", "memory", "save", "save_memory")


def _table(machine: Machine, copy: CopyName) -> CopyTable:
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    return host.copy_rates[copy]


def _machine() -> Machine:
    """One H200 with a table of every kind of copy, slow enough that copies limit: 4 GB/s a worker
    up to 8 workers, beside a link of 55 GB/s."""
    machine = load_machine("h200-sxm-1")
    table = CopyTable(
        workers=(1, 2, 4, 8), rings=(64 * MIB,), rates=((4e9,), (8e9,), (16e9,), (32e9,))
    )
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    rates = dict.fromkeys(COPIES, table)
    nodes = {**machine.nodes, "host0": host.model_copy(update={"copy_rates": rates})}
    return machine.model_copy(update={"nodes": nodes})


def _measured(machine: Machine, copy: CopyName, shape: Shape, **truth: object) -> Joint:
    """What a machine whose table has the `truth` would measure."""
    real = with_table(machine, copy, _table(machine, copy).model_copy(update=truth))
    return Joint(copy, shape, SIZE, movement(real, copy, SIZE).seconds(shape))


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("share", [0.3, 0.7, 1.2])
def test_a_factor_is_found_again(copy: CopyName, share: float) -> None:
    machine = _machine()
    joint = _measured(machine, copy, Shape(4 * MIB, 2, 4), beside_dma=(share,) * 4)
    assert factor(machine, joint) == pytest.approx(share, rel=1e-6)


def test_where_the_link_limits_the_copies_keep_all_they_have() -> None:
    # 32 GB/s x 4 = 128 GB/s of copies beside a link of 55: the run shows 55, which is 1.7 times
    # what the table has for eight workers, so that much is proved.
    machine = _machine()
    joint = _measured(machine, "memory", Shape(8 * MIB, 2, 8), beside_dma=(4.0,) * 4)
    proved = joint.size / joint.seconds / 32e9
    assert proved == pytest.approx(1.68, abs=0.05)
    assert factor(machine, joint) == pytest.approx(proved)
    # With 128 GB/s in the table itself, the same run proves less than that: nothing is lost.
    rates = ((16e9,), (32e9,), (64e9,), (128e9,))
    faster = with_table(
        machine, "memory", _table(machine, "memory").model_copy(update={"rates": rates})
    )
    assert factor(faster, joint) == 1.0


def test_counts_that_the_link_holds_take_the_share_of_fewer_workers() -> None:
    # 8 GB/s a worker, 16 with eight: 2 and 4 lose a fifth beside DMA, 8 have 102 GB/s left, twice
    # what the link takes. That says nothing of them, but that they lose no less than 4 do.
    rates = ((8e9,), (16e9,), (32e9,), (128e9,))
    machine = _machine()
    table = _table(machine, "memory").model_copy(update={"rates": rates})
    machine = with_table(machine, "memory", table)
    joints = [
        _measured(machine, "memory", Shape(4 * MIB, 2, workers), beside_dma=(0.8,) * 4)
        for workers in (2, 4, 8)
    ]
    found = _table(coupled(machine, joints), "memory").beside_dma
    assert found == pytest.approx((0.8, 0.8, 0.8, 0.8), rel=1e-3)
    # Alone it would keep all it has.
    alone = _table(coupled(machine, joints[2:]), "memory").beside_dma
    assert alone == (1.0, 1.0, 1.0, 1.0)


def test_the_coupled_machine_reproduces_every_run() -> None:
    machine = _machine()
    truth = {"beside_dma": (0.9, 0.8, 0.7, 0.6)}
    joints = [_measured(machine, "file", Shape(4 * MIB, 2, w), **truth) for w in (1, 2, 4, 8)]
    single = _measured(machine, "file", Shape(4 * MIB, 1, 4), **truth, late=0.25e-3)
    found = coupled(machine, [*joints, single])
    for joint in (*joints, single):
        seconds = movement(found, "file", SIZE).seconds(joint.shape)
        assert seconds == pytest.approx(joint.seconds, rel=1e-6)
    assert _table(found, "file").late == pytest.approx(0.25e-3, rel=1e-4)
    assert _table(found, "memory") == _table(machine, "memory")


def test_copies_by_the_workers_themselves_lose_a_share_of_their_pace() -> None:
    machine = _machine()
    truth = {"beside_dma": (0.9, 0.8, 0.7, 0.6)}
    joints = [_measured(machine, "memory", Shape(4 * MIB, 2, w), **truth) for w in (1, 2, 4, 8)]
    single = _measured(machine, "memory", Shape(4 * MIB, 1, 4), **truth, one_slot=0.85)
    found = _table(coupled(machine, [*joints, single]), "memory")
    assert found.one_slot == pytest.approx(0.85, rel=1e-4)
    assert found.late == 0.0


@pytest.mark.parametrize(
    ("copy", "workers", "kept"),
    [
        ("memory", (1, 2, 4, 8), 0.94),
        ("memory", (1, 2, 3, 4), 1.0),
        ("file", (1, 2, 4, 8), 1.0),  # the C library reads, and nobody waits for a turn
    ],
)
def test_one_slot_loses_a_part_at_least_where_workers_are_many(
    copy: CopyName, workers: tuple[int, ...], kept: float
) -> None:
    # A run that took no longer than the model has it without a loss says nothing of one.
    machine = _machine()
    table = _table(machine, copy).model_copy(update={"workers": workers})
    machine = with_table(machine, copy, table)
    joints = [_measured(machine, copy, Shape(4 * MIB, 2, w)) for w in workers]
    single = _measured(machine, copy, Shape(4 * MIB, 1, workers[2]))
    found = _table(coupled(machine, [*joints, single]), copy)
    assert found.one_slot == pytest.approx(kept)
    assert found.late == 0.0


def test_counts_between_take_the_share_of_the_next_smaller_one() -> None:
    machine = _machine()
    joints = [
        _measured(machine, "memory", Shape(4 * MIB, 2, workers), beside_dma=(share,) * 4)
        for workers, share in ((2, 0.8), (8, 0.5))
    ]
    found = _table(coupled(machine, joints), "memory").beside_dma
    assert found == pytest.approx((0.8, 0.8, 0.8, 0.5), rel=1e-6)


def test_a_slower_run_gives_a_smaller_share() -> None:
    machine = _machine()
    joint = _measured(machine, "save", Shape(4 * MIB, 2, 2), beside_dma=(0.8,) * 4)
    slower = replace(joint, seconds=joint.seconds * 1.25)
    # Copies limit, and their time is in inverse proportion to the share: 0.8 / 1.25 = 0.64, but
    # for the few chunks of filling.
    assert factor(machine, slower) == pytest.approx(0.64, rel=0.02)


def test_a_machine_without_a_table_has_no_pipeline() -> None:
    machine = load_machine("h200-sxm-1")
    host = machine.nodes["host0"]
    bare = machine.model_copy(
        update={"nodes": {**machine.nodes, "host0": host.model_copy(update={"copy_rates": {}})}}
    )
    with pytest.raises(ValueError, match="no pipeline of file copies"):
        movement(bare, "file", SIZE)


def test_small_chunks_tell_what_a_turn_at_the_locks_takes() -> None:
    # 200 us a chunk, of which eight workers hand over seven of eight: 1 MiB each 175 us is 6 GB/s,
    # where copies and link allow 32.
    machine = _machine()
    truth = {"beside_dma": (0.9, 0.8, 0.7, 0.6), "turn": 200e-6}
    big = [_measured(machine, "file", Shape(4 * MIB, 2, w), **truth) for w in (1, 2, 4, 8)]
    small = _measured(machine, "file", Shape(MIB, 2, 8), **truth)
    assert small.seconds == pytest.approx(SIZE / MIB * 175e-6, rel=0.01)
    found = _table(coupled(machine, [*big, small]), "file")
    assert found.turn == pytest.approx(200e-6, rel=1e-3)
    assert found.per_chunk == 0.0


def test_the_smallest_chunks_tell_what_share_of_a_turn_they_take() -> None:
    machine = _machine()
    truth = {"beside_dma": (0.9, 0.8, 0.7, 0.6), "turn": 200e-6, "brief": 0.65}
    big = [_measured(machine, "memory", Shape(4 * MIB, 2, w), **truth) for w in (1, 2, 4, 8)]
    shapes = [Shape(chunk, 2, 8) for chunk in (MIB, 256 << 10)]
    small = [_measured(machine, "memory", shape, **truth) for shape in shapes]
    found = _table(coupled(machine, [*big, *small]), "memory")
    assert found.turn == pytest.approx(200e-6, rel=1e-3)
    assert found.brief == pytest.approx(0.65, rel=1e-3)
    # One that is as fast as the link says nothing of a share, and one that only it shows is found.
    quick = replace(small[1], seconds=small[1].seconds / 100)
    assert _table(coupled(machine, [*big, small[0], small[1], quick]), "memory").brief == (
        pytest.approx(0.65, rel=1e-2)
    )
    held = replace(small[0], seconds=small[0].seconds / 100)
    alone = _table(coupled(machine, [*big, held, small[1]]), "memory")
    assert (alone.turn > 100e-6, alone.brief) == (True, BRIEF)
    # Without them it is what others have measured.
    assert _table(coupled(machine, [*big, small[0]]), "memory").brief == BRIEF


@pytest.mark.parametrize(
    ("copy", "workers", "turn"),
    [("memory", 8, 0.0), ("file", 2, 0.0), ("file", 8, HANDING_ON)],
)
def test_runs_that_the_link_holds_say_nothing_of_locks(
    copy: CopyName, workers: int, turn: float
) -> None:
    # But one thread hands on what the C library's threads read, and that takes it some time.
    machine = _machine()
    quick = [
        _measured(machine, copy, Shape(c, 2, workers), beside_dma=(4.0,) * 4)
        for c in (MIB, 8 * MIB)
    ]
    assert _table(coupled(machine, quick), copy).turn == turn


@pytest.mark.parametrize("copy", ["file", "memory", "save_memory"])
def test_short_runs_tell_what_every_run_takes_beside_its_pace(copy: CopyName) -> None:
    machine = _machine()
    # One worker 0.1 ms, four 0.5 and eight 0.9; two lie between one and four: 0.1 + 0.4 / 3.
    truth = {"beside_dma": (0.8,) * 4, "lead": (0.1e-3, 0.1e-3 + 0.4e-3 / 3, 0.5e-3, 0.9e-3)}
    real = with_table(machine, copy, _table(machine, copy).model_copy(update=truth))
    long = [_measured(machine, copy, Shape(4 * MIB, 2, w), **truth) for w in (1, 4, 8)]
    short = []
    for workers in (1, 4, 8):
        shape, size = Shape(2 * MIB, 2, workers), 8 * MIB * workers
        short.append(Joint(copy, shape, size, movement(real, copy, size).seconds(shape)))
    found = _table(coupled(machine, long, short), copy)
    # The long runs have it too, so both are found in turns: to some thousandths after two.
    assert found.lead == pytest.approx(truth["lead"], rel=0.02)
    assert found.beside_dma is not None
    assert found.beside_dma[0] == pytest.approx(0.8, rel=1e-3)
    # Without short runs nothing is known of it.
    assert _table(coupled(machine, long), copy).lead is None


def test_more_workers_take_no_less_until_they_are_at_it() -> None:
    machine = _machine()
    shape, size = Shape(2 * MIB, 2, 1), 8 * MIB
    quick = movement(machine, "memory", size).seconds(shape)
    many = movement(machine, "memory", 4 * size).seconds(replace(shape, workers=4))
    # One worker was late by 0.6 ms, four by 0.2: that is noise of either, so both take the mean.
    # Eight are woken one after another behind four; the catalogue's machine says nothing of waking.
    short = [
        Joint("memory", shape, size, quick + 0.6e-3),
        Joint("memory", replace(shape, workers=4), 4 * size, many + 0.2e-3),
    ]
    long = [_measured(machine, "memory", Shape(4 * MIB, 2, w)) for w in (1, 4)]
    host = machine.nodes["host0"]
    assert isinstance(host, Ram)
    wake = host.setup.wake
    found = _table(coupled(machine, long, short), "memory").lead
    assert found == pytest.approx((0.4e-3, 0.4e-3, 0.4e-3, 0.4e-3 + 4 * wake), rel=0.02)


def test_runs_prove_queued_copies_faster_than_one_stream_is() -> None:
    # 100 us for a queued copy of 4 MiB, and a run whose chunks took the link 80 us each. The wire's
    # 55 GB/s are 76.5 us, the least that is believed.
    link = _machine().links["pcie0"]
    assert link.forward is not None
    curve = link.forward.curves["pinned"]
    slow = curve.model_copy(update={"queued": (Point(size_bytes=4 * MIB, seconds=100e-6),)})

    def machine() -> Machine:
        curves = {**link.forward.curves, "pinned": slow}  # type: ignore[union-attr]
        forward = link.forward.model_copy(update={"curves": curves})  # type: ignore[union-attr]
        links = {"pcie0": link.model_copy(update={"forward": forward})}
        return _machine().model_copy(update={"links": {**_machine().links, **links}})

    def service(seconds: float) -> float:
        found = proved(machine(), {("forward", 4 * MIB): seconds}).links["pcie0"].forward
        assert found is not None
        return found.curves["pinned"].service(4 * MIB)

    assert service(80e-6) == pytest.approx(80e-6)
    assert service(120e-6) == pytest.approx(100e-6)
    assert service(10e-6) == pytest.approx(4 * MIB / curve.rate)
    joint = Joint("memory", Shape(4 * MIB, 2, 8), SIZE, SIZE / (4 * MIB) * 80e-6)
    forward = coupled(machine(), [joint]).links["pcie0"].forward
    assert forward is not None
    assert forward.curves["pinned"].service(4 * MIB) == pytest.approx(80e-6, rel=0.01)
    # Of a file several chunks went in one call, which says nothing of one by itself.
    forward = coupled(machine(), [replace(joint, copy="file")]).links["pcie0"].forward
    assert forward is not None
    assert forward.curves["pinned"].service(4 * MIB) == pytest.approx(100e-6)


def test_what_two_times_say_of_a_run_is_their_mean_and_how_far_they_lie_apart() -> None:
    # 100 and 101 ms at first, 90 and 91 some minutes later: their medians are 100.5 and 90.5.
    key = ("joint", "file", 4 * MIB, 2, 8, SIZE)
    first = Cell((*key, 1), None, clean=[0.100, 0.101])
    later = Cell((*key, 2), None, clean=[0.090, 0.091])
    (joint,) = joints([first, later])
    assert (joint.copy, joint.shape, joint.size) == ("file", Shape(4 * MIB, 2, 8), SIZE)
    assert joint.seconds == pytest.approx(0.0955)
    # Half of 10 ms of 95.5, by 0.67 / 0.56: samples in a row show a quarter of a per cent.
    assert joint.spread == pytest.approx(0.005 / 0.0955 * 0.67 / 0.56)
    (alone,) = joints([first])
    assert alone.spread == pytest.approx(0.00025 / 0.1005)


def test_a_table_is_as_unsure_as_the_runs_that_it_predicts() -> None:
    machine = _machine()
    run = _measured(machine, "file", Shape(4 * MIB, 2, 8), beside_dma=(0.9,) * 4)
    unsure = coupled(machine, [replace(run, spread=0.05)])
    assert _table(unsure, "file").spread == 0.05
    known = _table(machine, "file").model_copy(update={"spread": 0.08})
    surer = coupled(with_table(machine, "file", known), [replace(run, spread=0.05)])
    assert _table(surer, "file").spread == 0.08
