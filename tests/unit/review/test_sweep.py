"""A sweep: its points are estimates of the same plan, what stands out, and what goes wrong."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from planner.errors import ExitCode, InputError, PlanError, PlannerError
from planner.model.estimate import estimate as predict
from planner.report.sweep import mark
from planner.report.sweep_table import sweep_csv, sweep_markdown
from planner.results.sweep import Sweep
from planner.review import pool
from planner.review.answers import estimate
from planner.review.inputs import machine_for, read_plan
from planner.review.point import point as one_point
from planner.review.sweep import sweep

ROOT = Path(__file__).resolve().parents[3]
LLM = ROOT / "plans" / "llm_load.yaml"
CLUSTER = ROOT / "plans" / "cluster_cold_start.yaml"

# A link of 10 GB/s; 8 workers copy at 2.5 GB/s each, 20 GB/s together.
MACHINE = """\
name: {name}
sources: {{me: {{kind: assumed, where: here, when: today}}}}
nodes:
  disk0: {{kind: disk, host: host0}}
  host0:
    kind: ram
    capacity: 64GiB
    cores: 8
    cost: {price}
    copy:
      file:
        workers: [1, 8]
        rings: [1MiB, 1GiB]
        rates: [[2.5GB/s, 2.5GB/s], [20GB/s, 20GB/s]]
  gpu0: {{kind: hbm, host: host0, device: 0, capacity: 40GB, cost: 1}}
links:
  storage0:
    kind: storage
    ends: [disk0, host0]
    forward: {{rate: 20GB/s, curves: {{buffered: {{latency: 10us, rate: 20GB/s}}}}}}
  pcie0:
    kind: pcie
    ends: [host0, gpu0]
    forward: {{rate: {rate}, curves: {{pinned: {{latency: 10us, rate: {rate}}}}}}}
"""
PLAN = """\
version: 1
name: small
machine: fast.yaml
vars: { size: 10GB }
flows:
  load: { from: disk0, to: gpu0, size: $size, cache: warm }
objectives:
  - load.duration <= 3s
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`plan.yaml` with a fast machine for 4 an hour and a slow one for 2."""
    text = MACHINE.format(name="fast", price=3, rate="10GB/s")
    (tmp_path / "fast.yaml").write_text(text)
    text = MACHINE.format(name="slow", price=1, rate="5GB/s")
    (tmp_path / "slow.yaml").write_text(text)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def values(result: Sweep) -> list[float | None]:
    return [point.value for point in result.points]


KEYS = {
    "chunk": ["256KiB", "1MiB", "64MiB", "1GiB"],
    "depth": ["1", "2", "8"],
    "workers": ["1", "4", "12"],
    "weights": ["1GB", "13.5GB"],
    "machine": ["h200-sxm-1", "pcie4-a100", "desktop-rtx4090"],
    "links.pcie0.rate": ["25%", "50GB/s", "2x"],
    "links.pcie0.failed": ["true", "false"],
    "nodes.host0.cores": ["2", "16"],
    "flows.weights.cache": ["warm", "cold"],
    "flows.weights.budget.pinned": ["1MiB", "1GiB"],
}


@settings(max_examples=15)
@given(data=st.data())
def test_a_point_is_the_estimate_of_the_plan_with_the_same_settings(data: Any) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2, unique=True))
    chosen = {
        key: data.draw(st.lists(st.sampled_from(KEYS[key]), min_size=1, max_size=2, unique=True))
        for key in keys
    }
    result = sweep(LLM, axes=[f"{key}={','.join(chosen[key])}" for key in keys])
    for point in result.points:
        given_settings = [f"{key}={value}" for key, value in point.settings.items()]
        if not point.feasible:
            with pytest.raises(PlannerError) as caught:
                estimate(LLM, settings=given_settings)
            assert point.exit_code == caught.value.exit_code
            continue
        alone = estimate(LLM, settings=given_settings)
        assert point.makespan_s == alone.makespan_s
        assert [f.duration_s for f in point.flows] == [f.duration_s for f in alone.flows]
        assert point.value == alone.flows[0].duration_s
        # How far they hold is not worked out in a sweep, which shows that itself.
        untold = [one.model_copy(update={"holds_while": None}) for one in alone.objectives]
        assert list(point.objectives) == untold
        assert point.exit_code == alone.verdict.exit_code
        assert point.bottleneck == alone.bottleneck
        assert point.machine == alone.machine["name"]


@pytest.mark.parametrize(
    "name", ["llm_load", "kv_cache_offload", "tensor_parallel_load", "two_links_one_gpu"]
)
def test_a_brief_estimate_is_the_whole_one_without_what_is_told_beside(name: str) -> None:
    loaded = read_plan(ROOT / "plans" / f"{name}.yaml")
    machine = machine_for(loaded, None)
    whole = predict(loaded.plan, machine)
    beside = {"what_if": (), "lower_bound_s": None, "gap": None, "provenance": ()}
    update = {"arithmetic": (), "rejected": (), "flat": None}
    flows = tuple(flow.model_copy(update=update) for flow in whole.flows)
    kept = whole.model_copy(update={"flows": flows, **beside})
    assert predict(loaded.plan, machine, brief=True) == kept


def test_every_combination_is_a_point_and_the_last_key_turns_fastest(folder: Path) -> None:
    result = sweep(folder / "plan.yaml", axes=["size=1GB,2GB", "depth=1,2,4"])
    assert [point.settings for point in result.points] == [
        {"size": size, "depth": depth} for size in ("1GB", "2GB") for depth in ("1", "2", "4")
    ]
    assert [point.index for point in result.points] == list(range(6))
    assert (result.planned, result.complete) == (6, True)


def test_the_cheapest_machine_that_is_enough_is_the_smallest(folder: Path) -> None:
    # 10 GB at 10 and at 5 GB/s are 1 s and 2 s: both meet 3 s, and the slow one costs half of it.
    result = sweep(folder / "plan.yaml", axes=[f"machine={folder}/fast.yaml,{folder}/slow.yaml"])
    assert [point.price_per_hour for point in result.points] == [4.0, 2.0]
    assert result.smallest is not None
    assert (result.smallest.point, result.smallest.by) == (1, "price")
    assert result.near_best is not None
    assert (result.best, result.near_best.point) == (0, 0)
    assert result.verdict.exit_code == ExitCode.DONE
    fast = result.points[0]
    # And the first chunk, which is copied before anything crosses the link.
    assert fast.value == pytest.approx(1.0, rel=0.02)
    assert fast.cost == pytest.approx(4.0 * (fast.makespan_s or 0.0) / 3600)


def test_of_equal_machines_the_slowest_link_that_is_enough_is_the_smallest(folder: Path) -> None:
    # 2 GB/s take 5 s, 4 GB/s 2.5 s, 10 GB/s 1 s; the order they are written in does not matter.
    axis = "links.pcie0.rate=10GB/s,2GB/s,4GB/s"
    result = sweep(folder / "plan.yaml", axes=[axis])
    assert result.smallest is not None
    assert (result.smallest.point, result.smallest.by) == (2, "figures")
    assert [point.exit_code for point in result.points] == [0, 10, 0]


def test_within_one_per_cent_the_smaller_ring_is_picked(folder: Path) -> None:
    result = sweep(folder / "plan.yaml", axes=["chunk=1MiB,16MiB", "depth=1,2,8", "workers=8"])
    assert result.near_best is not None
    best = min(point.value or 9 for point in result.points)
    near = [point for point in result.points if (point.value or 9) <= 1.01 * best]
    assert len(near) > 1
    picked = result.points[result.near_best.point]
    assert picked.ring_bytes == min(point.ring_bytes or 0 for point in near)


def test_a_rate_is_better_when_it_is_more(folder: Path) -> None:
    result = sweep(folder / "plan.yaml", axes=["links.pcie0.rate=2GB/s,4GB/s"], metric="load.rate")
    assert (result.metric.better, result.metric.unit, result.best) == ("more", "bytes_per_s", 1)


def test_no_point_that_meets_the_objectives_is_exit_10(folder: Path) -> None:
    result = sweep(folder / "plan.yaml", axes=["links.pcie0.rate=1GB/s,2GB/s"])
    assert (result.verdict.exit_code, result.smallest) == (ExitCode.OBJECTIVE, None)
    assert result.verdict.sentence == "None of 2 points meet all objectives."


def test_an_objective_that_is_not_known_is_neither_met_nor_missed(folder: Path) -> None:
    """Of three speeds of the link one is too slow for 3 s; only a run knows the other metric."""
    plan = folder / "plan.yaml"
    plan.write_text(PLAN + "  - load.p95 <= 1s\n")
    result = sweep(plan, axes=["links.pcie0.rate=1GB/s,8GB/s,10GB/s"])
    assert [point.met for point in result.points] == [False, None, None]
    assert result.smallest is None
    assert result.best in (1, 2)
    told = "None of 3 points is known to meet all objectives; 2 cannot be judged."
    assert result.verdict.sentence == told
    assert result.verdict.exit_code == ExitCode.DONE
    marks = [mark(result, point)[0] for point in result.points]
    assert marks[0] == "✗"
    assert "?" in marks[1:]
    assert "✓" not in marks
    assert [row["met"] for row in csv.DictReader(io.StringIO(sweep_csv(result)))] == [
        *("false", "unknown", "unknown")
    ]
    assert "? load.p95 &lt;= 1s" in sweep_markdown(result)


def test_what_cannot_be_done_is_told_and_not_fatal(folder: Path) -> None:
    axes = ["links.pcie0.failed=true,false", "size=1GB,90GB"]
    result = sweep(folder / "plan.yaml", axes=axes)
    told = [(p.feasible, p.exit_code, (p.reason or "").partition(":")[0]) for p in result.points]
    # The link is gone; then 1 GB arrives, and 90 GB do not fit into 40 GB.
    assert told[:3] == [(False, 4, "flow load"), (False, 4, "flow load"), (True, 0, "")]
    assert told[3][:2] == (False, 4)
    assert "gpu0" in (result.points[3].reason or "")
    assert result.verdict.exit_code == ExitCode.DONE
    assert "3 points cannot be done." in result.verdict.sentence


def test_where_nothing_can_be_done_the_code_is_that_of_the_points(folder: Path) -> None:
    result = sweep(folder / "plan.yaml", axes=["size=80GB,90GB"])
    assert result.verdict.exit_code == ExitCode.INFEASIBLE
    assert result.verdict.sentence == "None of 2 points can be done."
    assert (result.best, result.smallest, result.near_best) == (None, None, None)


def test_the_matrix_of_the_plan_is_swept_and_settings_fix_its_keys(folder: Path) -> None:
    plan = folder / "plan.yaml"
    plan.write_text(PLAN + "matrix:\n  machine: [fast.yaml, slow.yaml]\n  depth: [1, 2]\n")
    assert [axis.key for axis in sweep(plan).axes] == ["machine", "depth"]
    assert [point.machine for point in sweep(plan).points] == ["fast", "fast", "slow", "slow"]
    assert [axis.key for axis in sweep(plan, settings=["depth=4"]).axes] == ["machine"]
    replaced = sweep(plan, axes=["depth=8"])
    assert [axis.values for axis in replaced.axes][1] == ("8",)
    point = replaced.points[1]
    again = estimate(plan, settings=[f"{key}={value}" for key, value in point.settings.items()])
    assert again.makespan_s == point.makespan_s


def test_counts_of_nodes() -> None:
    result = sweep(CLUSTER, axes=["nodes=8,32,64"])
    assert [(p.hosts, p.gpus) for p in result.points] == [(8, 64), (32, 256), (64, 512)]
    # 32 and 64 hosts wait for the storage of 640 GB/s: 8 x 17.5 GB each.
    for hosts, point in zip((32, 64), result.points[1:], strict=True):
        assert point.makespan_s == pytest.approx(hosts * 8 * 17.5 / 640, rel=0.01)
    assert result.smallest is not None
    assert (result.smallest.point, result.smallest.by) == (0, "hosts")


def faults_of(folder: Path, *axes: str, more: str = "") -> list[tuple[str, str]]:
    plan = folder / "plan.yaml"
    plan.write_text(PLAN + more)
    with pytest.raises(PlanError) as caught:
        sweep(plan, axes=axes)
    return [(f.position().removeprefix(f"{folder}/"), f.message) for f in caught.value.faults]


def test_every_value_that_cannot_be_read_is_told_at_once(folder: Path) -> None:
    found = faults_of(folder, "chunk=1MiB,1Mb", "depth=1,few")
    assert [place for place, _ in found] == ["--sweep chunk=1Mb", "--sweep depth=few"]
    assert faults_of(folder, "depht=1") == [("--sweep depht=1", 'the plan has no variable "depht"')]
    ((place, message),) = faults_of(folder, "links.pcie0.rate=1GB/s,5GB")
    assert (place, "not a rate" in message) == ("--sweep links.pcie0.rate=5GB", True)


def test_names_that_nobody_knows_are_told_before_anything_is_estimated(folder: Path) -> None:
    ((place, message),) = faults_of(folder, "strategy=staged,foo")
    assert (place, message) == ("--sweep strategy=foo", 'no strategy "foo"')
    ((place, message),) = faults_of(folder, "flows.load.to=gpu0,gpu7")
    assert (place, message) == ("--sweep flows.load.to=gpu7", 'no node "gpu7"')
    ((place, message),) = faults_of(folder, more="matrix:\n  strategy: [pinned, pined]\n")
    assert (place, message) == ("plan.yaml:10:22", 'no strategy "pined"')


def test_faults_of_a_matrix_stand_in_the_plan(folder: Path) -> None:
    more = "matrix:\n  chunk: [1MiB, 1Mb]\n  links.pcie9.rate: [1GB/s]\n"
    found = faults_of(folder, more=more)
    assert found[0] == ("plan.yaml:10:17", '"1Mb" is a number of bits')
    more = "matrix:\n  links.pcie9.rate: [1GB/s]\n"
    assert faults_of(folder, more=more) == [("plan.yaml:10:22", 'links has no "pcie9"')]
    more = "matrix:\n  machine: [fast.yaml, fats.yaml]\n"
    ((place, message),) = faults_of(folder, more=more)
    assert place == "plan.yaml:10:24"
    assert "no machine file" in message


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["depth"], "an axis is key=value,value"),
        (["depth="], "this value is empty"),
        (["depth=1", "depth=2"], "this key is swept twice"),
        (["depth={from: 4, to: 1}"], "the range runs backwards, from 4 to 1"),
    ],
)
def test_texts_that_are_no_axis(folder: Path, axes: list[str], message: str) -> None:
    assert [told for _, told in faults_of(folder, *axes)] == [message]


def test_nothing_or_too_much_to_sweep(folder: Path) -> None:
    with pytest.raises(InputError, match="nothing to sweep"):
        sweep(folder / "plan.yaml")
    many = "size={from: 1MB, to: 9000MB, step: 1MB}"
    with pytest.raises(InputError, match="more than 100000"):
        sweep(folder / "plan.yaml", axes=[many, "depth={from: 1, to: 20}"])


@pytest.mark.parametrize("name", ["load.p95", "quux", "duration", "load.makespan"])
def test_metrics_that_an_estimate_does_not_have(folder: Path, name: str) -> None:
    with pytest.raises(InputError, match="an estimate has no metric"):
        sweep(folder / "plan.yaml", axes=["depth=1"], metric=name)


def test_processes_find_what_one_finds(folder: Path) -> None:
    axes = ["size={from: 1GB, to: 4GB, step: 1GB}", "depth=1,2"]
    told: list[int] = []
    alone = sweep(folder / "plan.yaml", axes=axes)
    both = sweep(
        folder / "plan.yaml", axes=axes, processes=2, told=lambda done, _: told.append(done)
    )
    assert both == alone
    assert told[0] == 0
    assert told[-1] == 8
    assert told == sorted(told)


def test_ctrl_c_keeps_the_points_that_are_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_at_two(scene: Any, index: int, given_values: Any) -> Any:
        if index == 2:
            raise KeyboardInterrupt
        return one_point(scene, index, given_values)

    monkeypatch.setattr(pool, "point", stop_at_two)
    result = sweep(folder / "plan.yaml", axes=["size=1GB,2GB,3GB,4GB"])
    assert (result.complete, result.planned, len(result.points)) == (False, 4, 2)
    assert result.verdict.exit_code == ExitCode.INTERRUPTED
    assert result.verdict.sentence.startswith("Interrupted: 2 of 4 points done. 2 of 2 points meet")


def test_few_points_are_not_worth_a_process() -> None:
    assert pool.processes_for(10) == 1
