"""The page of an estimate: what stands on it, and where."""

from __future__ import annotations

import re

import pytest

from planner.report.estimate import headline
from planner.report.flow import flow_groups
from planner.report.style import Style
from planner.report.text import text
from planner.results import Bottleneck, Verdict
from planner.schedule import SplitPart
from tests.helpers import results

WIDE = Style(width=200)


def test_the_headline_says_how_long_how_sure_and_what_limits() -> None:
    assert headline(results.estimate()) == (
        "weights takes 2.060 s (1.850 – 2.270 s); storage0 (disk0 → host0) is the bottleneck: "
        "its bandwidth."
    )


def test_a_missed_objective_changes_headline_mark_closing_line_and_nothing_else() -> None:
    missed = results.objective(passed=False, value=2.06, limit=2.0)
    verdict = Verdict(passed=False, exit_code=10, sentence="1 of 1 objective missed.")
    good = results.estimate(objectives=(results.objective(value=2.06, limit=2.0),))
    bad = results.estimate(objectives=(missed,), verdict=verdict)
    changed = [
        (a, b)
        for a, b in zip(text(good, WIDE).splitlines(), text(bad, WIDE).splitlines(), strict=True)
        if a != b
    ]
    assert [b.split()[0] for _, b in changed] == ["weights", "✗", "1"]
    assert "which misses 1 of 1 objectives" in changed[0][1]


def test_the_times_add_up_on_the_page() -> None:
    page = text(results.estimate())
    # 2 s + 0.25 s one after another; 2.01 s overlapped saves 0.24 of 2.25; + 0.05 s setup.
    assert re.search(r"one after another +2\.250 s", page)
    assert re.search(r"overlapped, which saves 11 % +2\.010 s", page)
    assert re.search(r"with setup +2\.060 s", page)


def test_a_hop_that_moves_nothing_has_no_rate_and_nothing_is_saved_by_it() -> None:
    flow = results.flow_estimate()
    mapped = flow.hops[0].model_copy(update={"busy_s": 0.0, "rate_bytes_per_s": 0.0})
    carried = flow.hops[1].model_copy(update={"busy_s": 2.0})
    page = text(results.estimate(flow.model_copy(update={"hops": (mapped, carried)})))
    # 2 s busy of 2.01 s: no two hops that could overlap.
    assert "0 B/s" not in page
    assert "one after another" not in page
    assert re.search(r" steady +2\.010 s", page)


def test_where_nothing_moves_nothing_limits() -> None:
    flow = results.flow_estimate().model_copy(
        update={
            "duration_s": 0.0,
            "interval_s": None,
            "bottleneck": Bottleneck(resource="none", cause="latency", share=0.0),
        }
    )
    assert headline(results.estimate(flow)) == "weights takes 0 s; nothing limits it."


def test_ways_that_are_taken_at_once_are_not_told_as_one() -> None:
    flow = results.flow_estimate()
    there = results.READ.model_copy(update={"end": "gpu0"})
    parts = (
        SplitPart(share_bytes=1, hops=flow.schedule.hops),
        SplitPart(share_bytes=1, hops=(there,)),
    )
    schedule = flow.schedule.model_copy(update={"parts": parts})
    page = text(results.estimate(flow.model_copy(update={"schedule": schedule})), WIDE)
    assert "disk0 → host0 → gpu0 and disk0 → gpu0" in page


def test_a_reason_does_not_name_the_only_strategy_again() -> None:
    flow = results.flow_estimate()
    staged = flow.rejected[0].model_copy(update={"reason": "staged: it copies every byte twice"})
    page = text(results.estimate(flow.model_copy(update={"rejected": (staged,)})), WIDE)
    assert "not chosen: staged (2.900 s) — it copies every byte twice." in page


def test_many_names_alike_keep_the_width() -> None:
    flows = [results.flow_estimate(f"eight_reads[gpu={i}, gpu{i}]") for i in range(8)]
    page = text(results.estimate(*flows), Style(width=100))
    assert "likewise eight_reads[gpu=1, gpu1]" in page
    assert max(map(len, page.splitlines())) <= 100


def test_flows_that_look_alike_are_shown_once_with_their_names() -> None:
    flows = [results.flow_estimate(f"load{i}") for i in range(8)]
    groups = flow_groups([*flows, results.flow_estimate("other", repeat=2)])
    assert [len(names) for _, names in groups] == [8, 1]
    page = text(results.estimate(*flows))
    assert "likewise load1, load2, load3, load4 and 3 more" in page
    assert page.count("buffered") == 1
    assert "load0 and 7 alike" in page  # in the timeline


def test_nodes_that_are_filled_alike_share_a_line() -> None:
    estimate = results.estimate()
    gpu = estimate.nodes[1]
    gpus = tuple(gpu.model_copy(update={"name": f"gpu{i}"}) for i in range(8))
    page = text(estimate.model_copy(update={"nodes": (*estimate.nodes[:1], *gpus)}))
    assert "gpu0 and 7 alike" in page
    assert "gpu1" not in page


def test_only_explain_shows_every_candidate_and_the_arithmetic() -> None:
    short, long = (text(results.estimate(), explain=explain) for explain in (False, True))
    assert "not chosen: staged (2.900 s) — the CPU copies every byte twice." in short
    assert "1 more with --explain" in short
    assert "no link disk0 to gpu0" not in short
    assert "no link disk0 to gpu0" in long
    assert "14 GB / 7 GB/s = 2.000 s" in long


def test_doubling_is_told_with_its_gain() -> None:
    # 1.06 of 2.06 s: 49 % less.
    told = "twice as fast would give 1.060 s, 49 % less, by the same schedule."
    assert f"storage0 (disk0 → host0) {told}" in " ".join(text(results.estimate()).split())


def test_what_compute_hides_and_what_is_not_counted_is_told() -> None:
    flow = results.flow_estimate()
    update = {"exposed_s": 0.5, "hidden_share": 0.75}
    hidden = results.estimate(flow.model_copy(update=update))
    page = text(hidden.model_copy(update={"context_s": 0.25}))
    assert re.search(r"not hidden by compute +500\.0 ms", page)
    assert "not counted: a new process starts the GPU context in 250.0 ms." in page
    # Setup is part of the duration and moves nothing: what is exposed is less, yet nothing hides.
    plain = text(results.estimate(flow.model_copy(update={"exposed_s": 1.9})))
    assert "hidden" not in plain
    assert "context" not in plain


def test_emulation_stands_in_the_first_line() -> None:
    assert "emulated: HBM stands in RAM" in text(results.estimate(emulated=True)).splitlines()[0]


def test_memory_that_does_not_fit_is_marked() -> None:
    estimate = results.estimate()
    small = tuple(n.model_copy(update={"capacity_bytes": 10}) for n in estimate.nodes)
    page = text(estimate.model_copy(update={"nodes": small, "objectives": ()}))
    assert page.count("✗") == 2


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_page_keeps_its_width(width: int, unicode: bool) -> None:
    style = Style(width=width, unicode=unicode)
    estimate = results.estimate(results.flow_estimate(), results.flow_estimate("kv", repeat=3))
    for explain in (False, True):
        page = text(estimate, style, explain=explain)
        assert max(map(len, page.splitlines())) <= width
        assert unicode or page.isascii()


def test_colour_is_never_the_only_signal() -> None:
    estimate = results.estimate()
    colored = text(estimate, Style(color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == text(estimate)


def test_a_saved_file_is_named_in_the_last_line() -> None:
    assert text(results.estimate(), saved="e.json").splitlines()[-1].endswith("saved e.json")
