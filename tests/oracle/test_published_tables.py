"""Tables of copies that others published, held against the model row by row.

The tables lie in `tests/data/tables`, each with its source.
"""

from __future__ import annotations

import pytest

from benchmarks.published_rows import Row, every_row, read


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(every_row())


def of(rows: list[Row], table: str, how: str) -> list[Row]:
    return [row for row in rows if row.table == table and row.how == how]


def test_every_row_of_every_table_is_answered(rows: list[Row]) -> None:
    # 50, 36 + 36, 27, 10, 20, 7, 7 and 6 rows.
    counts = {t: sum(row.table == t for row in rows) for t in ("t1", "t2", "t3", "t4", "t5")}
    assert counts == {"t1": 50, "t2": 72, "t3": 27, "t4": 10, "t5": 20}
    assert [len(read(t)) for t in ("t6", "t7", "t8")] == [7, 7, 6]
    assert [sum(row.table == t for row in rows) for t in ("t6", "t7", "t8")] == [7, 7, 6]
    for row in rows:
        assert row.note or row.how not in ("not expressible", "other machine")


def test_legs_one_after_the_other_add_up(rows: list[Row]) -> None:
    # 1 / (1/a + 1/b + 1/c) of the published legs is within 2.6 % of the published whole; the
    # second row as an example: 1 / (1/3.205 + 1/1.852 + 1/1.63) = 0.6821 GB/s against 0.693.
    found = of(rows, "t7", "composed")
    assert len(found) == 7
    for row in found:
        assert row.predicted is not None
        assert row.published is not None
        assert abs(row.predicted / row.published - 1) <= 0.026
        assert "serial_stages" in row.name
    assert found[1].predicted == pytest.approx(0.6821e9, rel=1e-3)


def test_threads_that_wait_for_their_own_request_obey_littles_law(rows: list[Row]) -> None:
    # 4 x 1 MiB / 1209.15 us = 3.469 GB/s; behind each read a copy of 40 us and 10 us of latency:
    # 4 MiB / 1259.5 us = 3.330 GB/s. Published 3.466 and 3.366.
    found = of(rows, "t6", "composed")
    assert [row.predicted for row in found[::2]] == pytest.approx([3.469e9, 3.330e9], rel=2e-3)
    assert all(row.factor is not None and row.factor < 1.02 for row in found)


def test_size_curves_are_read_between_their_points(rows: list[Row]) -> None:
    # The middle of a straight piece is exact: 128 KiB between 64 and 256 KiB of one curve.
    (row,) = [r for r in rows if r.name == "h2d_bar_write 131072 B"]
    assert row.predicted == pytest.approx(6.4906e-6 + (25.9459e-6 - 6.4906e-6) / 3, rel=1e-6)
    factors = sorted(row.factor for row in of(rows, "t2", "held out") if row.factor is not None)
    # Times are whole microseconds, of which small messages take 5 to 50: half a step is up to 10 %.
    assert factors[len(factors) // 2] < 1.1


def test_queue_pairs_fill_the_wire_together(rows: list[Row]) -> None:
    # Four pairs of 25 GB/s on a wire of 48: the wire limits; published 47.2.
    found = [r for r in of(rows, "t8", "composed") if r.name.startswith("1000000000")]
    assert [row.predicted for row in found] == pytest.approx([48e9], rel=5e-3)
