"""The transcripts' own tools: a comparison that could not fail would hide everything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers.golden import Golden, mask_json, mask_measured


def test_a_transcript_is_written_only_on_request_and_then_holds(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no transcript a/b\.txt"):
        Golden(tmp_path).check("a/b.txt", "one\n")
    Golden(tmp_path, update=True).check("a/b.txt", "one  \ntwo")
    assert (tmp_path / "a/b.txt").read_text() == "one\ntwo\n"
    Golden(tmp_path).check("a/b.txt", "one\ntwo\n\n")


def test_a_difference_is_shown_as_a_diff(tmp_path: Path) -> None:
    Golden(tmp_path, update=True).check("t.txt", "same\nold\n")
    with pytest.raises(AssertionError, match=r"(?s)-old\n\+new"):
        Golden(tmp_path).check("t.txt", "same\nnew\n")


@pytest.mark.parametrize(
    ("printed", "masked"),
    [
        ("  weights took 2.204 s ± 18 ms", "  weights took <time> ± <time>"),
        ("6.37 of  6.8 GB/s", "6.37 of <rate>"),
        ("400 Gb/s, 25GB/s", "<rate>, <rate>"),
        ("1.07× slower, 5.800 µs", "<factor> slower, <time>"),
        ("−49.2 %  margin 17.6%", "<share> margin <share>"),
        ("████▌ 12 %", "<bar> <share>"),
        ("saved runs/x-2026-11-29T1402.json", "saved runs/x-<date>.json"),
        ("2026-11-29", "<date>"),
    ],
)
def test_what_a_measurement_may_change_is_masked(printed: str, masked: str) -> None:
    assert mask_measured(printed) == masked


@pytest.mark.parametrize(
    "line", ["14 GB of 141 GB", "5 samples", "gpu0 host0.pinned 512MiB", "planner.run/1", "h200s"]
)
def test_what_the_plan_decides_stays(line: str) -> None:
    assert mask_measured(line) == line


def test_a_kind_may_be_kept() -> None:
    assert mask_measured("95 % in 2 s", keep=("share",)) == "95 % in <time>"


def test_json_keeps_its_form_and_loses_its_times() -> None:
    document = {
        "name": "weights",
        "size_bytes": 14,
        "samples_s": [1.0, 2.0],
        "emulated": True,
        "hops": [{"rate_bytes_per_s": 6.8e9, "interval_s": None, "chunk_bytes": 4}],
    }
    assert mask_json(document) == {
        "name": "weights",
        "size_bytes": 14,
        "samples_s": ["<samples_s>"],
        "emulated": True,
        "hops": [{"rate_bytes_per_s": "<rate_bytes_per_s>", "interval_s": None, "chunk_bytes": 4}],
    }


def test_the_cache_of_the_reader_is_out_of_reach(tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = Path(os.environ["PLANNER_CACHE_DIR"])
    assert cache.is_relative_to(tmp_path_factory.getbasetemp())
