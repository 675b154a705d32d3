"""The page of a run: what moved the bytes first, then predicted beside measured."""

from __future__ import annotations

import re

import pytest

from planner.report.style import Style
from planner.report.text import text
from tests.helpers import results


def test_backend_and_emulation_stand_first() -> None:
    first = text(results.run()).splitlines()[0]
    assert first == "llm-load on workstation   host backend, emulated: HBM stands in RAM"
    assert "emulated" not in text(results.run(emulated=False)).splitlines()[0]


def test_how_it_was_measured_stands_second() -> None:
    second = text(results.run()).splitlines()[1]
    assert second.strip() == "3 samples after 1 warm-up · cache warm · data verified"
    one = text(results.run().model_copy(update={"samples": 1})).splitlines()[1]
    assert one.strip().startswith("1 sample after 1 warm-up")


@pytest.mark.parametrize(
    ("verified", "words"),
    [(True, "data verified"), (None, "data not verified"), (False, "data damaged")],
)
def test_verification_is_stated(verified: bool | None, words: str) -> None:
    page = text(results.run(results.flow_run(verified=verified)))
    assert words in page.splitlines()[1]


def test_each_hop_has_predicted_measured_error_and_rates() -> None:
    page = text(results.run(results.flow_run(factor=1.5)))
    # 2.06 s x 0.5 = 1.03 s more in the read: 3.03 s of 2 s predicted; 14 GB / 3.03 s = 4.62 GB/s.
    read = next(line for line in page.splitlines() if line.startswith("    disk0"))
    assert re.split(r"  +", read.strip()) == [
        "disk0 → host0",
        "buffered",
        "2.000 s",
        "3.030 s",
        "1.52× slower",
        "!!",
        "4.62 GB/s",
        "of 7 GB/s",
    ]
    assert "makespan   predicted 2.060 s   measured 3.090 s   1.50× slower !!" in page


def test_the_headline_tells_whether_the_interval_held() -> None:
    inside = text(results.run(results.flow_run(factor=1.05)))  # 2.163 s of 1.85 – 2.27
    outside = text(results.run(results.flow_run(factor=1.5)))
    assert "predicted 2.060 s: 1.05× slower, inside the interval." in inside
    assert "predicted 2.060 s: 1.50× slower, outside the interval." in outside


def test_the_blame_names_the_hop_only_beyond_noise() -> None:
    off = text(results.run(results.flow_run(factor=1.5)))
    good = text(results.run(results.flow_run(factor=1.01)))
    assert "blame: 1.030 s of the 1.030 s excess of weights is disk0 → host0." in off
    assert "blame" not in good


def test_warnings_and_what_was_waived_are_shown() -> None:
    run = results.run().model_copy(
        update={"warnings": ("the first sample was slow",), "waived": ("gds: no driver",)}
    )
    page = text(run)
    assert "! the first sample was slow" in page
    assert "waived: gds: no driver" in page


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_page_keeps_its_width(width: int) -> None:
    run = results.run(results.flow_run(), results.flow_run("kv", factor=4.0))
    page = text(run, Style(width=width, unicode=False))
    assert page.isascii()
    assert max(map(len, page.splitlines())) <= width


def test_an_objective_that_a_run_does_not_measure_is_said_to_be_that() -> None:
    unknown = results.objective(passed=None, text="weights.exposed <= 1s")
    page = text(results.run(objectives=(unknown,)))
    assert re.search(r"\?  weights.exposed <= 1s +not measured", page)
