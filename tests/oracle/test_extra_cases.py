"""Twenty-two more published observations: the ones that a report's own figures let us check."""

from __future__ import annotations

import pytest

from benchmarks.extra_cases import Extra, extras


@pytest.fixture(scope="module")
def rows() -> list[Extra]:
    return extras()


def test_every_case_is_answered(rows: list[Extra]) -> None:
    assert {row.case for row in rows} == {f"X{i:02}" for i in range(1, 23)}
    assert all(row.comment for row in rows)


@pytest.mark.parametrize(
    ("what", "tolerance"),
    [
        # The tolerances of the reports; 65.5 GB at 55 GB/s, 688.6 GB at 50, 10 GB at 25.6 …
        ("65.5 GB out of a pinned pool", 0.20),
        ("13.3 GB out of a disk of 373 MB/s", 0.25),
        ("1 GB, eight drives of 6.75 GB/s", 0.15),
        ("688.6 GB to eight GPUs, 50 GB/s shared", 0.15),
        ("GDS out of four striped drives of 6.4 GB/s, 10 GB", 0.12),
        ("206 GiB of Lustre into memory, 32 streams", 0.15),
    ],
)
def test_what_is_predicted_from_other_figures(
    rows: list[Extra], what: str, tolerance: float
) -> None:
    (row,) = [row for row in rows if row.what == what]
    assert row.predicted_s is not None
    assert row.observed_s is not None
    assert not row.given
    assert abs(row.predicted_s / row.observed_s - 1) <= tolerance


def test_small_messages_go_straight_and_large_ones_are_staged(rows: list[Extra]) -> None:
    small, large = (row.limit for row in rows if row.case == "X11")
    assert "gpudirect_rdma" in small
    assert "host_staged" in large


def test_a_container_refuses_what_its_host_could_hold(rows: list[Extra]) -> None:
    assert [row.limit for row in rows if row.case == "X21"] == ["refused"]
