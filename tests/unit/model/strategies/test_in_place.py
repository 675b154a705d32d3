"""Zero-copy and managed memory that stays on the host: when they win and when they ruin."""

from __future__ import annotations

import pytest

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.movement import WAKE
from planner.model.need import Need, Pins
from planner.model.strategies import Use
from planner.model.ways import ways
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.variants import DOWN, UP, by, changed, every, reason, upload

RARE = Use(fraction=0.001, reads=1, pattern="dense")


def machine(**host: object) -> Machine:
    """`one_gpu` that reads host memory in place at 8 GB/s and 100 million requests a second."""
    return changed(
        one_gpu(**host),
        {
            f"{UP}.curves.zero_copy": affine(8e9, 20e-6),
            f"{UP}.requests": 100e6,
            f"{DOWN}.curves.zero_copy": affine(8e9, 20e-6),
        },
    )


def test_a_little_of_a_big_thing_touched_once_is_read_in_place() -> None:
    # 4 MB at 8 GB/s: 0.5 ms + 20 us. Copying 4 GB first would take 0.4 s.
    best = every(machine(), upload(4 * GB, "mapped", use=RARE)).best
    assert best.way.names == ("zero_copy",)
    assert best.steady == pytest.approx(20e-6 + 0.5e-3)


def test_dense_data_read_often_is_copied() -> None:
    # In place: 10 x 4 GB / 8 GB/s = 5 s. Copied: 0.4 s and 10 reads of 4 GB at 1 TB/s = 0.04 s.
    need = upload(4 * GB, "mapped", use=Use(1.0, 10, "dense"))
    assert every(machine(), need).best.way.names == ("pinned",)
    assert by(machine(), need, "pinned").steady == pytest.approx(10e-6 + 0.4 + 0.04)
    assert by(machine(), need, "zero_copy").steady == pytest.approx(20e-6 + 5.0)


def test_the_break_even_in_reads_is_where_arithmetic_puts_it() -> None:
    # r / 8 GB/s < 1 / 10 GB/s + r / 1 TB/s for r = 0.8: one dense read is copied already, while of
    # half of the bytes, 0.5 r / 8 < 1 / 10 + 0.5 r / 1000, one read is not and two are.
    def best(reads: int) -> tuple[str, ...]:
        return every(machine(), upload(4 * GB, "mapped", use=Use(0.5, reads))).best.way.names

    assert (best(1), best(2)) == (("zero_copy",), ("pinned",))


def test_scattered_reads_are_limited_by_requests() -> None:
    # 1 of 1000 bytes of 4 GB in sectors of 32 bytes: 125,000 reads at 1e8/s are 1.25 ms, while
    # their 4 MB would take 0.5 ms.
    need = upload(4 * GB, "mapped", use=Use(0.001, 1, "random"))
    found = by(machine(), need, "zero_copy")
    assert found.steady == pytest.approx(20e-6 + 1.25e-3)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert (stage.resource, stage.cause) == ("gpu0.requests", "queue_depth")
    # The wire serves only for its bytes: 0.5 ms of the 1.25.
    assert stage.charges["pcie0.forward"] * 4 * GB == pytest.approx(0.5e-3)


def test_ordinary_memory_is_registered_first() -> None:
    # 4 GB at 10 GB/s of registration: 0.4 s once. 50 runs at 0.5 ms then beat 50 copies, and a
    # managed buffer, which would be touched at 5 GB/s and filled first: 1 s.
    host = machine(setup={"register": 10e9, "touch_fresh": 5e9})
    once = by(host, upload(4 * GB, use=RARE), "zero_copy")
    assert [s.name for s in once.setup] == ["register the buffer"]
    assert once.setup_seconds == pytest.approx(0.4)
    assert every(host, upload(4 * GB, use=RARE, repeat=50)).best.way.names == ("zero_copy",)


def test_without_use_nobody_asks_for_it() -> None:
    assert "does not say how the GPU uses the data" in reason(machine(), upload(GB), "zero_copy")
    # What the plan pins, or memory that is mapped already, asks for it.
    dense = 20e-6 + GB / 8e9
    pinned = by(machine(), upload(GB, pins=Pins(strategy="zero_copy")), "zero_copy")
    assert pinned.steady == pytest.approx(dense)
    assert by(machine(), upload(GB, "mapped"), "zero_copy").steady == pytest.approx(dense)


def test_without_a_figure_it_is_not_guessed() -> None:
    told = reason(one_gpu(), upload(GB, "mapped"), "zero_copy")
    assert told == "zero_copy: pcie0.forward has no measured access to host memory in place"


def test_what_is_read_in_place_need_not_fit_into_the_gpu() -> None:
    # 40 GB on a GPU of 32 GB.
    decision = every(machine(), upload(40 * GB, "mapped", use=RARE))
    assert decision.best.way.names == ("zero_copy",)
    assert any("gpu0 holds 32 GB" in row.reason for row in decision.infeasible)


def test_a_kernel_writes_to_mapped_memory_too() -> None:
    need = Need("d", "gpu0", "host0", GB, "device", "mapped", pinned_budget=GB, cores=8)
    assert by(machine(), need, "zero_copy").steady == pytest.approx(20e-6 + GB / 8e9)


def test_managed_memory_advised_to_stay_is_zero_copy() -> None:
    need = upload(4 * GB, "managed", use=RARE)
    assert every(machine(), need).best.way.names == ("managed_host",)
    assert by(machine(), need, "managed_host").steady == pytest.approx(20e-6 + 0.5e-3)


def test_ordinary_memory_must_be_copied_into_managed_memory() -> None:
    # Touched at 5 GB/s and copied at 20 GB/s: 4 / 5 + 4 / 20 = 1 s.
    host = machine(setup={"touch_fresh": 5e9, "register": 1e18})
    found = by(host, upload(4 * GB, use=RARE), "managed_host")
    assert found.setup_seconds == pytest.approx(1.0)


def test_what_a_gpu_reads_in_place_it_cannot_hand_on() -> None:
    # Two GPUs with a link between them: only the one that reads has a way, and it is one hop.
    machine = load_machine("pcie4-a100")
    need = Need("n", "host0", "gpu0", GB, "mapped", "device", 16 * GB, 8)
    names = [way.names for way in ways(Topology(machine), need)]
    assert ("zero_copy",) in names
    assert [name for name in names if "zero_copy" in name and len(name) > 1] == []


def test_the_first_run_pays_the_pause_before_it_once_however_often_it_reads() -> None:
    # 70 us until caller, GPU and link are awake; each read is 4 GB / 8 GB/s.
    sleepy = changed(machine(), {f"{UP}.curves.zero_copy": affine(8e9, 20e-6) | {"idle": 70e-6}})
    need = upload(4 * GB, "mapped", use=Use(1.0, 10, "dense"))
    found = by(sleepy, need, "zero_copy")
    assert found.steady == pytest.approx(20e-6 + 5.0)
    assert [s.duration_s for s in found.setup if s.name == WAKE] == pytest.approx([70e-6])
