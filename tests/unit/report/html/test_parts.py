"""The parts of the page, each by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from planner.report.html.compare import comparisons
from planner.report.html.memory import memory_charts
from planner.report.html.phases import phases
from planner.report.html.plan_text import plan_text
from planner.report.html.route_map import route_map
from planner.report.html.samples import outliers
from planner.report.html.scales import short_time, ticks
from planner.report.html.sources import environment_facts
from planner.report.html.timeline import UNITS, timeline_chart
from planner.results import MemoryLayer, MemoryTrack, Timeline, TimelineRow
from planner.review import answers
from planner.review.study import study
from tests.helpers.results import estimate as estimate_result, run as run_result

ROOT = Path(__file__).resolve().parents[4]
PLANS = sorted((ROOT / "plans").glob("*.yaml"))


@given(st.floats(1e-7, 1e5), st.integers(3, 12))
def test_ticks_are_round_and_few(span: float, most: int) -> None:
    found = ticks(span, most)
    assert found[0] == 0.0
    assert 2 <= len(found) <= most + 1
    assert found[-1] <= span * (1 + 1e-9)
    # 1, 2 or 5 times a power of ten: one digit is enough.
    assert all(float(f"{found[1]:.0e}") == pytest.approx(found[1]) for _ in found)


def test_times_on_an_axis_have_no_idle_zeros() -> None:
    assert [short_time(t) for t in (0.0, 0.05, 0.25, 1.5)] == ["0 s", "50 ms", "250 ms", "1.5 s"]


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_the_resolved_plan_reads_as_the_same_plan(plan: Path) -> None:
    first = answers.estimate(plan)
    # Files that a plan names lie beside it, as its machine does.
    again = plan.parent / f".{plan.stem}.again.yaml"
    again.write_text(plan_text(first), encoding="utf-8")
    try:
        second = answers.estimate(again)
    finally:
        again.unlink()
    assert second.makespan_s == first.makespan_s
    assert [f.schedule for f in second.flows] == [f.schedule for f in first.flows]
    assert second.objectives == first.objectives


def _area(path: str, high: int) -> float:
    """The area of boxes `M x y v-h h w v h z`, in units of a lane that is busy all the time."""
    boxes = re.findall(r"M(\d+) \d+v-(\d+)h(\d+)v", path)
    return sum(int(tall) * int(wide) for _, tall, wide in boxes) / (UNITS * high)


def test_the_area_of_a_track_is_its_busy_time() -> None:
    estimate = answers.estimate(ROOT / "plans/llm_load.yaml")
    chart = timeline_chart(study(estimate, sensitivity=False), estimate, None)
    lane = next(lane for lane in chart.lanes if lane.name == "pcie0")
    (path,) = lane.tracks[0].paths
    share = estimate.flows[0].hops[1].busy_s / estimate.makespan_s
    # 333 boxes on 100,000 steps: each rounds by half a step at most, heights by 1/40.
    assert _area(path, chart.high) == pytest.approx(share, rel=0.03)
    assert "merged into" in chart.stated


def test_the_timeline_of_a_plan_stays_below_2000_slices() -> None:
    run = answers.execute(ROOT / "plans/kv_cache_offload.yaml", backend="null")
    for result in (run, answers.estimate(ROOT / "plans/tensor_parallel_load.yaml")):
        seen = study(result, sensitivity=False)
        rows = [*seen.predicted.rows, *(seen.measured.rows if seen.measured else ())]
        assert sum(len(row.start_s) for row in rows) <= 2000


def test_flows_that_share_a_lane_at_once_get_a_band_each() -> None:
    estimate = answers.estimate(ROOT / "plans/tensor_parallel_load.yaml")
    chart = timeline_chart(study(estimate, sensitivity=False), estimate, None)
    lane = next(lane for lane in chart.lanes if lane.name == "host0")
    # One flow, and then eight at once: eight bands of a lane of 20.
    bottoms = {int(path.split("v")[0].split(" ")[1]) for path in lane.tracks[0].paths}
    assert len(bottoms) == 8
    assert max(bottoms) == chart.high


def test_phases_are_those_of_the_pipeline() -> None:
    """The second hop is a second behind the first: fill 1 s, steady 3 s, drain 1 s."""

    def row(hop: int, start: float, end: float) -> TimelineRow:
        columns = {"start_s": (start,), "end_s": (end,), "busy_s": (end - start,)}
        about = {"lane": f"l{hop}", "kind": "hop", "flow": "weights", "hop": hop}
        return TimelineRow.model_validate({**about, **columns, "size_bytes": (1,), "chunks": (1,)})

    timeline = Timeline(origin="played", span_s=6.0, rows=(row(0, 1, 5), row(1, 2, 6)))
    (found,) = phases(timeline, estimate_result(), 6.0, 600)
    assert [(p.name, p.x, p.width) for p in found.parts] == [
        ("setup", 0, 100),
        ("fill", 100, 100),
        ("steady", 200, 300),
        ("drain", 500, 100),
    ]


def test_memory_is_stacked_and_held_against_the_capacity() -> None:
    layers = (
        MemoryLayer(flow="a", start_s=0.0, end_s=2.0, size_bytes=600),
        MemoryLayer(flow="b", start_s=1.0, end_s=2.0, size_bytes=300, pinned=True),
    )
    track = MemoryTrack(node="gpu0", capacity_bytes=1000, layers=layers)
    estimate = estimate_result().model_copy(update={"makespan_s": 2.0, "nodes": ()})
    (chart,) = memory_charts([track], estimate)
    # 900 of 1,000 bytes at the peak: the capacity is the top of the drawing.
    assert (chart.peak, chart.share, chart.limit_y) == ("900 B", "90 %", "0")
    # b lies on top of a, from 600 to 900: 10 to 40 from the top, in the second half.
    assert chart.layers[1].path == "M500 10h500v30h-500z"
    assert chart.layers[1].text == "b: 300 B, pinned"


def test_the_map_rings_the_bottleneck_and_no_other_link() -> None:
    found = route_map(estimate_result(), None)
    # The read is the bottleneck of the result made by hand, 2 s of 2.06.
    assert [(w.start, w.ring, w.step) for w in found.wires] == [
        ("disk0", True, 4),
        ("host0", False, 0),
    ]


def test_what_was_measured_is_compared_row_by_row() -> None:
    run = run_result()
    *flows, whole = comparisons(run.estimate, run)
    assert [flow.name for flow in flows] == [flow.name for flow in run.flows]
    names = [line.name for line in flows[0].lines]
    assert {"disk0 → host0", "host0 → gpu0", "first", "steady"} <= set(names)
    assert whole.lines[-1].name == "makespan"


def test_outliers_lie_far_from_the_median() -> None:
    assert outliers([1.0, 1.01, 0.99, 1.0, 1.5]) == [False] * 4 + [True]
    assert outliers([1.0, 1.01, 0.99]) == [False] * 3
    assert outliers([1.0, 2.0]) == [False, False]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-11-29T20:45:52+00:00", "2026-11-29 20:45 UTC"),
        ("2026-11-29T21:45:52+01:00", "2026-11-29 20:45 UTC"),
        ("2026-11-29", "2026-11-29"),
        ("in the autumn", "in the autumn"),
    ],
)
def test_the_date_of_a_run_is_read_at_a_glance(written: str, shown: str) -> None:
    run = run_result()
    where = run.environment.model_copy(update={"date": written})
    assert dict(environment_facts(run.model_copy(update={"environment": where})))["Date"] == shown
