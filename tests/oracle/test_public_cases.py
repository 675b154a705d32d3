"""What others measured: thirteen published loads and copies, held against the model.

Plans and machines (`benchmarks/cases`) hold the conditions that each report states, `answers.tsv`
what it observed, with its address and the tolerance. The bounds here are those tolerances.
"""

from __future__ import annotations

import pytest

from benchmarks.public_cases import CASES, Outcome, outcomes, summary
from planner.plan.load import load_plan

MISSED = {"C04"}
"""Cases whose limit the model cannot name, and why: docs/model.md."""


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Outcome]:
    return {(row.answer.case, row.answer.flow): row for row in outcomes()}


def test_there_is_a_plan_and_one_main_flow_for_each_case(
    found: dict[tuple[str, str], Outcome],
) -> None:
    cases = [path.stem for path in sorted(CASES.glob("C*.yaml"))]
    assert cases == [f"C{i:02}" for i in range(1, 14)]
    assert [row.answer.case for row in found.values() if row.answer.main] == cases
    # Every flow of every plan is compared with something, or its pair is.
    for case in cases:
        compared = {flow for name, flow in found if name == case}
        assert set(load_plan(CASES / f"{case}.yaml").plan.flows) - compared <= {
            "near_back",
            "far_back",
        }


def test_what_limits_is_named(found: dict[tuple[str, str], Outcome]) -> None:
    main = [row for row in found.values() if row.answer.main]
    wrong = {row.answer.case: (row.resource, row.cause) for row in main if not row.named}
    assert set(wrong) <= MISSED, wrong
    assert len(main) - len(wrong) >= 11


def test_seconds_are_within_the_tolerance_of_the_case(
    found: dict[tuple[str, str], Outcome],
) -> None:
    graded = [row for row in found.values() if row.answer.graded]
    assert {row.answer.case for row in graded} == {"C01", "C02", "C03", "C08", "C11", "C12"}
    for row in graded:
        assert row.error is not None
        assert row.answer.tolerance is not None
        assert abs(row.error) <= row.answer.tolerance, row


@pytest.mark.parametrize(
    ("case", "flow", "seconds"),
    [
        # The cap of the volume is 1000 MiB/s: 15 GB in 14.305 s. Three points of four are held out.
        ("C01", "streams_4", 15e9 / (1000 * 2**20)),
        ("C01", "streams_8", 15e9 / (1000 * 2**20)),
        ("C01", "streams_16", 15e9 / (1000 * 2**20)),
        # 32 clients of 8 MiB in 63.2 ms: 4.25 GB/s, below the adapter's 5.
        ("C02", "clients_32", 15e9 / (32 * 8 * 2**20 / 63.2e-3)),
        ("C03", "load", 61.07e9 / 50e9),
        # 1 GB is read in 0.1 s, then copied at 26 GB/s: one after the other.
        ("C08", "bounce", 0.1 + 1 / 26),
        ("C08", "overlapped", 0.1),
        ("C09", "load", 135 / 38),
        # 704 GiB in eight shards, each rank faulting at an eighth of 28 MiB/s.
        ("C07", "mapped", 704 * 1024 / 28),
        # Four outstanding reads of 64 KiB take 134 us each.
        ("C12", "qd4_64k", 256 * 2**20 / (4 * 65536 / 134e-6)),
    ],
)
def test_the_arithmetic_behind_a_prediction(
    found: dict[tuple[str, str], Outcome], case: str, flow: str, seconds: float
) -> None:
    # Fill, drain and one round trip of the network come on top: under 4 %.
    predicted = found[case, flow].predicted_s
    assert seconds * 0.999 <= predicted <= seconds * 1.04


def test_a_pair_that_shares_its_uplink_is_slower_than_one_across(
    found: dict[tuple[str, str], Outcome],
) -> None:
    # Each direction of the near pair's uplink carries both copies: half of its rate B. Across, each
    # direction of a GPU's link shares with the other: B / (1 + m), m = 0.296. So the ratio is
    # (1 + m) / 2 = 0.648 whatever B is, and a little more, as the first and the last chunk weigh
    # more on the faster pair. The report has 6.11 / 8.58 = 0.712 and a tolerance of 25 %.
    near, far = found["C13", "near_out"], found["C13", "far_out"]
    ratio = near.predicted_bytes_per_s / far.predicted_bytes_per_s
    assert ratio == pytest.approx((1 + 0.296) / 2, rel=0.03)
    assert abs(ratio / (6.11 / 8.58) - 1) <= 0.25


def test_a_known_miss_is_still_one(found: dict[tuple[str, str], Outcome]) -> None:
    """Whoever mends the model is told to take the case out of the list, and its page along."""
    assert {row.answer.case for row in found.values() if row.named is False} == MISSED


def test_the_summary_counts_what_the_rows_say(found: dict[tuple[str, str], Outcome]) -> None:
    told = summary(list(found.values()))
    assert told["cases"] == 13
    assert told["limits_missed"] == sorted(MISSED)
    assert told["graded_seconds"] == told["graded_seconds_within"] == 6
