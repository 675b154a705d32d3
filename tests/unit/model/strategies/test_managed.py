"""Managed memory moved by faults and by prefetch."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.need import Need
from planner.model.strategies import Use
from planner.model.touched import BLOCK, REGION
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.variants import DOWN, UP, by, changed, every, reason, upload


def machine() -> Machine:
    """Dense faults at 2 GB/s, prefetch at 8 GB/s, in place at 8 GB/s."""
    return changed(
        one_gpu(),
        {
            f"{UP}.curves.managed_fault": affine(2e9, 100e-6),
            f"{UP}.curves.managed_prefetch": affine(8e9, 50e-6),
            f"{UP}.curves.zero_copy": affine(8e9, 20e-6),
            f"{DOWN}.curves.managed_prefetch": affine(4e9, 50e-6),
        },
    )


def test_a_dense_pass_faults_everything_over() -> None:
    # 100 us + 4 GB / 2 GB/s.
    found = by(machine(), upload(4 * GB, "managed"), "managed")
    assert found.steady == pytest.approx(100e-6 + 2.0)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert (stage.resource, stage.cause) == ("gpu0.faults", "page_faults")
    # The wire carries 4 GB at 8 GB/s meanwhile.
    assert stage.charges["pcie0.forward"] * 4 * GB == pytest.approx(0.5)


def test_prefetch_moves_all_of_it_ahead() -> None:
    found = by(machine(), upload(4 * GB, "managed"), "prefetch")
    assert found.steady == pytest.approx(50e-6 + 0.5)


def test_dense_data_is_prefetched_or_copied_never_faulted() -> None:
    need = upload(4 * GB, "managed", use=Use(1.0, 5))
    decision = every(machine(), need)
    assert decision.best.way.names == ("staged",)
    # Prefetched: 0.5 s, and five reads of 4 GB at 1 TB/s.
    assert by(machine(), need, "prefetch").steady == pytest.approx(50e-6 + 0.5 + 0.02)
    # Faulted: the first of the five reads is the one that faults.
    assert by(machine(), need, "managed").steady == pytest.approx(100e-6 + 2.0 + 0.016)
    # In place: five times 0.5 s.
    assert by(machine(), need, "managed_host").steady == pytest.approx(20e-6 + 2.5)


def test_a_few_regions_cost_their_blocks_faults() -> None:
    # 16 bytes of each 2 MiB: one region of each of 1,024 blocks. A dense block takes 2 MiB at
    # 2 GB/s, 1.049 ms, of which 31 of 32 regions do not move: 1.966 MiB at 8 GB/s less.
    size = 1024 * BLOCK
    found = by(machine(), upload(size, "managed", use=Use(16 / BLOCK, 1, "strided")), "managed")
    dense, spared = size / 2e9, 1024 * (BLOCK - REGION) / 8e9
    assert found.steady == pytest.approx(100e-6 + dense - spared)


def test_a_few_regions_read_many_times_belong_on_the_gpu() -> None:
    # In place each read pays 8 GB/s, faulted only the first: for dense blocks of 1 % read often,
    # faulting 40 MB at 2 GB/s (20 ms) beats 100 reads of 5 ms, and a copy of everything (0.4 s).
    need = upload(4 * GB, "managed", use=Use(0.01, 100))
    assert every(machine(), need).best.way.names == ("managed",)


def test_without_use_or_managed_memory_they_are_not_candidates() -> None:
    for name in ("managed", "prefetch", "managed_host"):
        assert "does not say how" in reason(machine(), upload(GB), name)


def test_without_figures_they_are_not_guessed() -> None:
    need = upload(GB, "managed")
    told = reason(one_gpu(), need, "managed")
    assert told == "managed: pcie0.forward has no measured page faults of managed memory"
    told = reason(one_gpu(), need, "prefetch")
    assert told == "prefetch: pcie0.forward has no measured prefetch of managed memory"


def test_managed_memory_must_fit_into_the_gpu() -> None:
    told = reason(machine(), upload(40 * GB, "managed"), "prefetch")
    assert told == "gpu0 holds 32 GB, the flow has 40 GB"


def test_results_come_back_by_prefetch() -> None:
    need = Need("d", "gpu0", "host0", 4 * GB, "device", "managed", pinned_budget=GB, cores=8)
    assert by(machine(), need, "prefetch").steady == pytest.approx(50e-6 + 1.0)


def test_a_file_is_read_into_managed_memory() -> None:
    # 4 GB out of the page cache at 20 GB/s, then faulted over.
    need = Need(
        "l", "disk0", "gpu0", 4 * GB, "file", "device", pinned_budget=GB, cores=8, use=Use(1.0)
    )
    found = by(machine(), need, "buffered", "managed")
    assert found.steady == pytest.approx(0.2 + 100e-6 + 2.0, rel=1e-3)


def test_a_pass_in_no_order_has_a_curve_of_its_own() -> None:
    # Dense faults run at 2 GB/s, scattered ones at 1: 2 GB of which a tenth is touched all move.
    apart = changed(machine(), {f"{UP}.curves.managed_scattered": affine(1e9, 100e-6)})
    random = Use(0.1, 1, "random")
    need = upload(2 * GB, "managed", use=random)
    assert by(apart, need, "managed").steady == pytest.approx(100e-6 + 2.0, rel=1e-3)
    # All of it is as good as dense, and so is one block.
    for use in (Use(1.0, 1, "random"), Use()):
        dense = upload(2 * GB, "managed", use=use)
        assert by(apart, dense, "managed").steady == pytest.approx(100e-6 + 1.0, rel=1e-3)
    # Without it the dense one stands in.
    assert by(machine(), need, "managed").steady == pytest.approx(100e-6 + 1.0, rel=1e-3)


def test_making_and_filling_managed_memory_is_as_measured() -> None:
    # 3 ms and 10 GB/s to make it, 1 ms and 20 GB/s to fill it.
    curves = {
        "nodes.host0.managed_touch": affine(10e9, 3e-3),
        "nodes.host0.managed_fill": affine(20e9, 1e-3),
    }
    found = by(changed(machine(), curves), upload(2 * GB, use=Use()), "managed")
    seconds = {step.name: step.duration_s for step in found.setup}
    assert seconds["touch the managed buffer"] == pytest.approx(3e-3 + 0.2)
    assert seconds["copy into it"] == pytest.approx(1e-3 + 0.1)


def test_managed_memory_that_stays_on_the_host_is_mapped_for_the_gpu_first() -> None:
    # 1 ms and 20 GB/s to map it; then it is read in place at 8 GB/s.
    mapped = changed(machine(), {"nodes.host0.managed_map": affine(20e9, 1e-3)})
    found = by(mapped, upload(2 * GB, "managed"), "managed_host")
    seconds = {step.name: step.duration_s for step in found.setup}
    assert seconds["map the managed memory"] == pytest.approx(1e-3 + 0.1)
    assert found.steady == pytest.approx(20e-6 + 0.25)
    # What is copied into managed memory is advised before it is touched.
    fresh = by(mapped, upload(2 * GB, use=Use()), "managed_host")
    assert "map the managed memory" not in {step.name for step in fresh.setup}


def test_registering_stands_in_where_mapping_was_not_measured() -> None:
    # 1 ms and 10 GB/s to register: 0.2 s more than a prefetch of the same time has.
    figures = {"nodes.host0.setup.register": 10e9, "nodes.host0.setup.register_latency": 1e-3}
    registered = changed(machine(), figures)
    found = by(registered, upload(2 * GB, "managed"), "managed_host")
    seconds = {step.name: step.duration_s for step in found.setup}
    assert seconds["map the managed memory"] == pytest.approx(1e-3 + 0.2)
    best = every(registered, upload(2 * GB, "managed")).best
    assert best.way.names != ("managed_host",)
