"""What a report shows beyond the result: the replay is of that very estimate."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from planner.results import Estimate, TimelineRow
from planner.review import answers
from planner.review.study import busy_of, outline, study

ROOT = Path(__file__).resolve().parents[3]
PLANS = sorted((ROOT / "plans").glob("*.yaml"))


def _busy_times_agree(estimate: Estimate, rows: tuple[TimelineRow, ...]) -> None:
    for flow in estimate.flows:
        for number, hop in enumerate(flow.hops):
            assert busy_of(rows, flow.name, number) == pytest.approx(
                hop.busy_s * flow.repeat, rel=1e-9, abs=1e-12
            )


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.stem)
def test_the_slices_of_a_plan_add_up_to_the_busy_times_of_its_hops(plan: Path) -> None:
    estimate = answers.estimate(plan)
    found = study(estimate, slices=300, sensitivity=False)
    assert (found.predicted.origin, found.remarks) == ("played", ())
    _busy_times_agree(estimate, found.predicted.rows)
    for row in found.predicted.rows:
        spans = list(zip(row.start_s, row.end_s, row.busy_s, strict=True))
        # A slice has room for what it serves, and none begins before the one before has ended.
        slack = 1e-9 * max(1.0, estimate.makespan_s)
        assert all(end - start >= busy - slack for start, end, busy in spans)
        assert all(a[1] <= b[0] + slack for a, b in itertools.pairwise(spans))
        assert 0.0 <= spans[0][0] <= spans[-1][1] <= estimate.makespan_s + slack


@pytest.mark.parametrize("plan", ["llm_load", "kv_cache_offload", "pinned_budget"])
def test_memory_over_time_peaks_where_the_estimate_says(plan: str) -> None:
    estimate = answers.estimate(ROOT / "plans" / f"{plan}.yaml")
    tracks = {track.node: track for track in study(estimate, sensitivity=False).memory}
    for node in estimate.nodes:
        if node.peak_bytes and node.name in tracks:
            layers = tracks[node.name].layers
            at_starts = [
                sum(o.size_bytes for o in layers if o.start_s <= layer.start_s < o.end_s)
                for layer in layers
            ]
            assert max(at_starts) == node.peak_bytes


def test_the_outline_adds_up_too() -> None:
    estimate = answers.estimate(ROOT / "plans" / "kv_cache_offload.yaml")
    _busy_times_agree(estimate, outline(estimate).rows)


def test_a_slower_link_is_never_faster_for_a_single_flow() -> None:
    estimate = answers.estimate(ROOT / "plans" / "llm_load.yaml")
    (link, *_others) = study(estimate).sensitivity
    assert link.resource == "pcie0.forward"
    spans = [span for _, span in link.points]
    assert spans == sorted(spans, reverse=True)
    # At the link's own rate it is the estimate; at twice the rate what the estimate says of that.
    assert dict(link.points)[1.0] == estimate.makespan_s
    doubled = next(w.makespan_s for w in estimate.what_if if w.resource == "pcie0.forward")
    assert math.isclose(dict(link.points)[2.0], doubled, rel_tol=1e-2)


def test_what_cannot_be_played_again_is_shown_in_outline_and_said() -> None:
    estimate = answers.estimate(ROOT / "plans" / "llm_load.yaml")
    broken = estimate.model_copy(update={"machine": {"name": "gone"}})
    found = study(broken)
    assert found.predicted.origin == "outline"
    assert "cannot be played again" in found.remarks[0]
    other = estimate.model_copy(update={"makespan_s": 2 * estimate.makespan_s})
    assert "another time" in study(other).remarks[0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"chunk_bytes": 0}, "in chunks of nothing"), ({"workers": 10**9}, "1000000000 workers")],
)
def test_a_schedule_that_is_none_is_shown_in_outline(wrong: dict[str, int], told: str) -> None:
    """One divided by nothing, the other would make a milliard workers."""
    made = answers.estimate(ROOT / "plans" / "llm_load.yaml")
    (flow,) = made.flows
    hops = tuple(hop.model_copy(update=wrong) for hop in flow.schedule.hops)
    schedule = flow.schedule.model_copy(update={"hops": hops})
    damaged = made.model_copy(update={"flows": (flow.model_copy(update={"schedule": schedule}),)})
    found = study(damaged)
    assert found.predicted == outline(damaged)
    assert told in found.remarks[0]


@pytest.mark.parametrize("plan", ["llm_load", "kv_cache_offload", "gpu_to_gpu"])
def test_a_run_keeps_slices_that_add_up_to_its_busy_times(plan: str) -> None:
    run = answers.execute(ROOT / "plans" / f"{plan}.yaml", backend="null")
    measured = study(run, sensitivity=False).measured
    assert measured is not None
    assert measured.span_s == pytest.approx(run.makespan_s, abs=1e-9)
    for flow in run.flows:
        for number, hop in enumerate(flow.hops):
            rows = [r for r in measured.rows if (r.flow, r.hop) == (flow.name, number)]
            slices = sum(len(row.busy_s) for row in rows)
            # Every sample is alike on a virtual clock; each slice is kept to the nanosecond.
            assert busy_of(measured.rows, flow.name, number) == pytest.approx(
                hop.busy_s * flow.repeat, rel=1e-9, abs=1e-9 * slices
            )
            assert sum(s for row in rows for s in row.size_bytes) == flow.size_bytes * flow.repeat
