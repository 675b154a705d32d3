"""The driver's own copies of ordinary memory."""

from __future__ import annotations

import pytest

from planner.machine.schema import Machine
from planner.model.need import Need
from tests.helpers.machines import GB, affine, one_gpu
from tests.helpers.variants import UP, by, changed, reason, upload


def machine(cache: int | None) -> Machine:
    """4 GB/s out of memory, 12 GB/s out of the cache."""
    return changed(one_gpu(cache=cache), {f"{UP}.curves.pageable_hot": affine(12e9, 10e-6)})


def test_a_cold_buffer_takes_the_cold_curve() -> None:
    found = by(machine(None), upload(4 * GB), "pageable")
    assert found.steady == pytest.approx(10e-6 + 1.0)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "host_copy"
    # The wire is taken only for the bytes themselves: 4 GB at 10 GB/s.
    assert stage.charges["pcie0.forward"] * 4 * GB == pytest.approx(0.4)


def test_a_hot_buffer_that_fits_takes_the_hot_curve() -> None:
    # 120 MB at 12 GB/s.
    found = by(machine(GB), upload(120_000_000, hot=True), "pageable")
    assert found.steady == pytest.approx(10e-6 + 0.01)


def test_what_the_cache_cannot_hold_is_cold_again() -> None:
    # A quarter of 4 GB in a cache of 1 GB: 1 / 12 + 3 / 4 s.
    found = by(machine(GB), upload(4 * GB, hot=True), "pageable")
    assert found.steady == pytest.approx(10e-6 + 1 / 12 + 3 / 4)


def test_a_hot_copy_of_that_size_that_was_measured_says_what_the_cache_keeps() -> None:
    # 2 GB took 0.4 s though a cache of 1 GB would hold half of it; 1 GB lies between 0 and that.
    hot = affine(12e9, 10e-6) | {"points": [(2 * GB, 0.4)]}
    measured = changed(one_gpu(cache=GB), {f"{UP}.curves.pageable_hot": hot})
    assert by(measured, upload(2 * GB, hot=True), "pageable").steady == pytest.approx(0.4)
    below = by(measured, upload(GB, hot=True), "pageable").steady
    assert below == pytest.approx(10e-6 + (0.4 - 10e-6) / 2)


def test_a_machine_without_a_known_cache_keeps_the_hot_curve() -> None:
    found = by(machine(None), upload(4 * GB, hot=True), "pageable")
    assert found.steady == pytest.approx(10e-6 + 1 / 3)


def test_pieces_take_a_call_each() -> None:
    # 1000 of 4,000 bytes: the driver's latency of 10 us and 1 us of bytes each.
    found = by(one_gpu(), upload(4_000_000, pieces=((4000, 1000),)), "pageable")
    assert found.steady == pytest.approx(1000 * 11e-6)
    (stage,) = found.way.movements[0].stages(found.shapes[0])
    assert stage.cause == "issue_overhead"


def test_back_to_the_host() -> None:
    need = Need("d", "gpu0", "host0", 4 * GB, "device", "pageable", 10**9, 8)
    assert by(one_gpu(), need, "pageable").steady == pytest.approx(10e-6 + 1.0)


def test_without_a_curve_it_is_not_guessed() -> None:
    bare = changed(one_gpu(), {f"{UP}.curves": {"pinned": affine(10e9)}})
    told = reason(bare, upload(GB), "pageable")
    assert told == "pageable: pcie0.forward has no measured pageable copies"
