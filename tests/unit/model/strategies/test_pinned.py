"""Copies by the engine: one range, many pieces, memory that is registered for the purpose."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.need import Need
from tests.helpers.machines import GB, affine, every_way, one_gpu
from tests.helpers.variants import READ, UP, by, changed, every, load, reason, upload


def machine(**parts: object) -> Machine:
    """`one_gpu` in which a call costs its caller 5 us, and a gathered piece 1 us."""
    return changed(
        one_gpu(),
        {"nodes.host0.issue": 5e-6, "nodes.host0.copy.memory.per_piece": 1e-6, **parts},
    )


def test_pieces_of_pinned_memory_take_a_call_each() -> None:
    # 1000 pieces of 4,000 bytes: 5 us to issue, 2.4 us to serve (2 us gap, 0.4 us bytes): the
    # calls limit, 5 ms; the last one arrives its lag of 8 us later.
    need = upload(4_000_000, "pinned", pieces=((4000, 1000),))
    found = by(machine(), need, "pinned")
    assert found.steady == pytest.approx(1000 * 5e-6 + 8e-6)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "issue_overhead"
    # The engine serves them for 2.4 ms of that: so much others lose.
    assert stage.charges["pcie0.forward"] * 4_000_000 == pytest.approx(1000 * 2.4e-6)


def test_big_pieces_are_limited_by_the_wire() -> None:
    # 10 MB take 2 us + 1 ms; issuing hides behind it.
    need = upload(40_000_000, "pinned", pieces=((10_000_000, 4),))
    found = by(machine(), need, "pinned")
    assert found.steady == pytest.approx(4 * (2e-6 + 1e-3) + 8e-6)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "bandwidth"


def test_pieces_of_very_different_size_are_added_one_by_one() -> None:
    # One of 10 MB (1.002 ms) and 100 of 1,000 bytes (2.1 us served): 1.212 ms served, 0.505 issued.
    need = upload(10_100_000, "pinned", pieces=((10_000_000, 1), (1000, 100)))
    assert by(machine(), need, "pinned").steady == pytest.approx(1.002e-3 + 210e-6 + 8e-6)


def test_many_tiny_pieces_are_gathered_where_that_is_cheaper() -> None:
    # 100,000 of 4,000 bytes: calls 0.5 s. Gathering takes 1 us of the interpreter for each, one
    # thread at a time: 0.1 s, behind which copies (20 ms) and wire (40 ms) hide.
    need = upload(400_000_000, "pinned", pieces=((4000, 100_000),))
    decision = every(machine(), need)
    assert decision.best.way.names == ("staged",)
    # Four workers wait for each other's turns, in the second power of 0.1 s and their own quarter.
    assert decision.best.steady == pytest.approx(0.1 * (1 + 0.25**2) ** 0.5, rel=0.05)
    assert by(machine(), need, "pinned").steady == pytest.approx(0.5, rel=1e-3)


def test_few_big_pieces_are_not_gathered() -> None:
    need = upload(400_000_000, "pinned", pieces=((100_000_000, 4),))
    assert every(machine(), need).best.way.names == ("pinned",)


def test_one_range_needs_no_ring() -> None:
    told = reason(machine(), upload(GB, "pinned"), "staged")
    assert (
        told == "staged: the buffer is pinned and in one piece: a ring would only copy it once more"
    )


def test_pieces_come_back_one_by_one_too() -> None:
    need = Need(
        "d", "gpu0", "host0", 4_000_000, "device", "pinned", 10**9, 8, pieces=((4000, 1000),)
    )
    assert by(machine(), need, "pinned").steady == pytest.approx(5e-3 + 8e-6)


def test_registering_is_setup_and_undone() -> None:
    host = one_gpu(setup={"register": 10e9, "register_latency": 1e-3, "unregister": 20e9})
    found = by(host, upload(4 * GB), "registered")
    assert {s.name: s.duration_s for s in found.setup} == pytest.approx(
        {"register the buffer": 0.401, "unregister the buffer": 0.2}
    )
    assert found.steady == pytest.approx(10e-6 + 0.4)


def test_a_users_mapped_buffer_is_registered_already() -> None:
    told = reason(one_gpu(), upload(GB, "mapped"), "registered")
    assert told == "registered: the buffer is page-locked already"
    assert by(one_gpu(), upload(GB, "mapped"), "pinned").steady == pytest.approx(10e-6 + 0.1)


def test_memory_is_registered_chunk_by_chunk_ahead() -> None:
    # Registration at 5 GB/s leads, the wire (10 GB/s) follows: 4 GB in 0.8 s.
    host = one_gpu(setup={"register": 5e9})
    found = by(host, upload(4 * GB), "registered_chunks")
    assert found.steady == pytest.approx(0.8, rel=0.01)
    # Beside copies it was seen at 4 GB/s: that counts.
    both = changed(host, {"nodes.host0.register_memory": affine(4e9)})
    found = by(both, upload(4 * GB), "registered_chunks")
    assert found.steady == pytest.approx(1.0, rel=0.01)


def test_registration_holds_the_lock_that_others_need_to_queue_copies() -> None:
    # At 5 GB/s each byte takes 0.2 ns of registering, and so long nobody else queues a copy.
    found = by(one_gpu(setup={"register": 5e9}), upload(4 * GB), "registered_chunks")
    stage = found.way.movements[0].stages(found.shapes[0])[0]
    assert stage.charges["host0.dispatch"] == pytest.approx(0.2e-9)
    # What waits for the disk waits before the driver has been called: 1/(1 GB/s) on top.
    host = changed(
        every_way(), {f"{READ}.curves.mmap": affine(1e9), "nodes.host0.setup.map_touch": 100e9}
    )
    cold = by(host, load(4 * GB, cached=0.0), "mmap", "registered_chunks")
    ahead = cold.way.movements[0].stages(cold.shapes[0])[0]
    assert ahead.charges["host0.dispatch"] == pytest.approx(1 / 40e9, rel=1e-3)
    assert ahead.charges["host0.register"] == pytest.approx(1 / 40e9 + 1e-9, rel=1e-3)


def test_the_figures_come_from_the_links_own_curves() -> None:
    fast = changed(one_gpu(), {f"{UP}.curves.registered": affine(20e9, 10e-6)})
    assert by(fast, upload(4 * GB), "registered").steady == pytest.approx(10e-6 + 0.2)
    assert by(fast, upload(4 * GB, "pinned"), "pinned").steady == pytest.approx(10e-6 + 0.4)


@pytest.mark.parametrize("missing", ["pinned", "registered"])
def test_either_curve_stands_in_for_the_other(missing: str) -> None:
    curves = {"pinned": affine(10e9), "registered": affine(10e9)}
    del curves[missing]
    alike = changed(one_gpu(), {f"{UP}.curves": curves})
    assert by(alike, upload(GB, "pinned"), "pinned").steady == pytest.approx(0.1)


def test_without_any_it_is_not_guessed() -> None:
    bare = changed(one_gpu(), {f"{UP}.curves": {"pageable": affine(4e9)}})
    told = reason(bare, upload(GB), "registered")
    assert told == "registered: pcie0.forward has no measured pinned copies"


def test_pieces_of_a_file_are_given_back_at_their_own_pace() -> None:
    # 4 GB: at 20 GB/s of memory that somebody wrote, at 80 GB/s of a file's pages.
    setup = {"nodes.host0.setup.unregister": 20e9, "nodes.host0.setup.unregister_file": 80e9}
    host = changed(every_way(), setup)
    ways = {("mmap", "registered_chunks"): load(4 * GB), ("registered_chunks",): upload(4 * GB)}
    took = [
        next(
            s.duration_s for s in by(host, need, *names).setup if s.name == "unregister afterwards"
        )
        for names, need in ways.items()
    ]
    assert took == pytest.approx([0.05, 0.2])
