from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from planner.machine.tables import CopyTable

MiB = 2**20


def table(**changes: Any) -> CopyTable:
    """2 workers: 8 and 4 GB/s; 8 workers: 32 and 16 GB/s; rings of 16 and 64 MiB."""
    fields = {
        "workers": (2, 8),
        "rings": (16 * MiB, 64 * MiB),
        "rates": ((8e9, 4e9), (32e9, 16e9)),
    }
    return CopyTable.model_validate({**fields, **changes})


def test_a_measured_cell_is_met() -> None:
    assert table().rate(2, 16 * MiB) == 8e9
    assert table().rate(8, 64 * MiB) == 16e9


def test_between_cells_the_rate_is_bilinear_in_the_logarithms() -> None:
    # 4 workers are half way from 2 to 8 in logarithms, 32 MiB half way from 16 to 64: the mean of
    # 8, 4, 32 and 16.
    assert table().rate(4, 32 * MiB) == pytest.approx(15e9)
    assert table().rate(4, 16 * MiB) == pytest.approx(20e9)
    assert table().rate(2, 32 * MiB) == pytest.approx(6e9)


@given(st.integers(1, 64), st.integers(1, 2**34))
def test_no_rate_leaves_what_was_measured(workers: int, ring: int) -> None:
    assert 4e9 * (1 - 1e-12) <= table().rate(workers, ring) <= 32e9 * (1 + 1e-12)


def test_outside_the_table_its_edge_holds() -> None:
    assert table().rate(1, 1) == table().rate(2, 16 * MiB)
    assert table().rate(99, 2**40) == table().rate(8, 64 * MiB)


def test_an_empty_cell_takes_the_next_larger_ring_or_else_the_last() -> None:
    rings = (16 * MiB, 64 * MiB, 256 * MiB)
    rates = ((None, 4e9, None), (32e9, None, 8e9))
    sparse = table(rings=rings, rates=rates)
    assert [sparse.rate(2, ring) for ring in rings] == [4e9, 4e9, 4e9]
    assert [sparse.rate(8, ring) for ring in rings] == [32e9, 8e9, 8e9]


def test_beside_dma_a_factor_applies_that_is_interpolated_over_the_workers() -> None:
    shared = table(beside_dma=(1.0, 0.8))
    assert shared.rate(8, 16 * MiB, beside_dma=True) == pytest.approx(32e9 * 0.8)
    # 4 workers: 20 GB/s as above, times (1 + 0.8) / 2.
    assert shared.rate(4, 16 * MiB, beside_dma=True) == pytest.approx(20e9 * 0.9)
    assert shared.rate(8, 16 * MiB) == 32e9
    assert table().rate(8, 16 * MiB, beside_dma=True) == 32e9


def test_several_engines_leave_another_factor() -> None:
    # Of one engine 0.8 is left with 8 workers, of several 1.2: half as much again. With 4 workers,
    # half way in logarithms, 0.9 and 1.1.
    shared = table(beside_dma=(1.0, 0.8), beside_several=(1.0, 1.2))
    assert shared.several(8) == pytest.approx(1.5)
    assert shared.several(4) == pytest.approx(1.1 / 0.9)
    assert shared.several(2) == 1.0
    assert table(beside_dma=(1.0, 0.8)).several(8) == 1.0


def test_slower_divides_every_rate_and_keeps_holes() -> None:
    sparse = table(rates=((None, 4e9), (32e9, 16e9)), per_chunk=1e-5, turn=7e-5)
    assert sparse.rate(2, 16 * MiB) == 4e9  # asked first: nothing derived is carried along
    slower = sparse.slower(2.0)
    assert slower.rates == ((None, 2e9), (16e9, 8e9))
    assert slower.rate(2, 16 * MiB) == 2e9
    assert slower.per_chunk == 2e-5
    assert slower.turn == 14e-5
    assert slower.lead is None
    assert table(lead=(1e-4, 4e-4)).slower(2.0).lead == (2e-4, 8e-4)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"workers": (8, 2)}, "grow"),
        ({"workers": (0, 2)}, "above 0"),
        ({"rings": (16 * MiB, 16 * MiB)}, "grow"),
        ({"rates": ((8e9, 4e9),)}, "one row for each"),
        ({"rates": ((8e9,), (32e9,))}, "one cell for each"),
        ({"rates": ((None, None), (32e9, 16e9))}, "at least one measured"),
        ({"rates": ((0.0, 4e9), (32e9, 16e9))}, "above 0"),
        ({"beside_dma": (1.0,)}, "give one factor for each"),
        (
            {"beside_several": (1.0,), "lead": (1e-3,)},
            "beside_several has 1 entries where workers has 2: give one factor for each; lead has",
        ),
        ({"one_slot": 1.2}, "less than or equal to 1"),
        ({"lead": (1e-3,)}, "give one time for each"),
        ({"beside_dma": (1.0, 0.0)}, "greater than 0"),
    ],
)
def test_a_table_that_is_no_table_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        table(**changes)
