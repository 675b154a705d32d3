"""Rings of write-combined memory: better where an ordinary ring leaves the cache."""

from __future__ import annotations

from typing import Any

import pytest

from planner.machine.schema import Machine
from planner.model.need import Pins
from tests.helpers.machines import GB, MIB, affine, flat_table, one_gpu
from tests.helpers.variants import UP, by, changed, every, load, reason, upload

SMALL, BIG = 4 * MIB, 256 * MIB


def machine(*, real: bool | None = True, **tables: Any) -> Machine:
    """Ordinary rings copy 9 GB/s while they fit into the cache and 4 beyond, combined ones 8."""
    falling = {"workers": [8], "rings": [SMALL, BIG], "rates": [[9e9, 4e9]]}
    copy = {
        "file": falling,
        "memory": falling,
        "file_wc": flat_table(8e9),
        "memory_wc": flat_table(8e9),
    } | tables
    host = one_gpu(
        copy={k: v for k, v in copy.items() if v},
        write_combined=real,
        setup={"register": 1e18, "host_alloc": 2e9},
    )
    return changed(host, {f"{UP}.curves.write_combined": affine(10e9, 10e-6, 2e-6)})


def test_a_ring_in_the_cache_is_better_than_a_combined_one() -> None:
    assert every(machine(), load(4 * GB, repeat=100)).best.way.names == ("buffered", "pinned")


def test_a_ring_beyond_the_cache_is_worse() -> None:
    # Chunks of 64 MiB that the plan pins make a ring of 512 MiB and more: 4 GB/s against 8.
    need = load(8 * GB, repeat=100, pins=Pins(chunk=64 * MIB, workers=8))
    decision = every(machine(), need)
    assert decision.best.way.names == ("buffered", "write_combined")
    assert decision.best.steady == pytest.approx(1.0, rel=0.1)


def test_the_driver_alone_can_allocate_it() -> None:
    found = by(machine(), load(4 * GB), "buffered", "write_combined")
    (step,) = found.setup
    assert step.name == "allocate the write-combined ring"
    assert step.duration_s == pytest.approx(found.ring / 2e9)


def test_memory_goes_through_a_combined_ring_too() -> None:
    found = by(machine(), upload(4 * GB), "write_combined")
    assert found.steady == pytest.approx(0.5, rel=0.02)


def test_where_the_machine_says_that_it_is_ordinary_memory_it_is_waived() -> None:
    told = reason(machine(real=False), load(GB), "buffered", "write_combined")
    assert told == "buffered: write-combined memory is ordinary memory on host0: nothing is gained"
    told = reason(machine(real=False), upload(GB), "write_combined")
    assert "ordinary memory" in told


def test_unmeasured_copies_into_it_are_not_guessed() -> None:
    lacking = machine(memory_wc=None, file_wc=None)
    assert reason(lacking, upload(GB), "write_combined").endswith(
        "host0 has no measured copies into write-combined memory"
    )
    assert "no measured copies" in reason(lacking, load(GB), "buffered", "write_combined")
