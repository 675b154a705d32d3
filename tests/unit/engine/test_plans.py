"""Whole plans on the host backend: order, repeats, shares, first runs, scratch, progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.engine.execute import execute
from planner.errors import InputError
from planner.model.estimate import estimate
from planner.model.movement import READY
from planner.plan.schema import Plan
from planner.results import Run
from tests.helpers.machines import MIB, one_gpu, two_gpus
from tests.helpers.schedules import noise_file, run_way

pytestmark = pytest.mark.usefixtures("scratch")


def run_plan(words: dict[str, Any], **options: Any) -> Run:
    machine, plan = two_gpus(), Plan.model_validate(words)
    prediction = estimate(plan, machine)
    return execute(plan, machine, estimate=prediction, backend="host", **options)


def test_flows_and_compute_wait_for_each_other() -> None:
    words = {
        "flows": {
            "a": {"from": "host0", "to": ["gpu0"], "size": MIB},
            "b": {"from": "gpu0", "to": ["host0"], "size": MIB, "after": ["step"], "start": 0.02},
        },
        "compute": {"step": {"gpu": "gpu0", "time": 0.03, "after": ["a"], "repeat": 2}},
    }
    run = run_plan(words, samples=2, warmup=1)
    # b comes after two steps of 30 ms each.
    assert all(seconds >= 0.06 for seconds in run.makespan_samples_s)
    assert [flow.verified for flow in run.flows] == [True, True]


def test_a_later_start_counts_in_the_makespan_and_not_in_the_flow() -> None:
    words = {"flows": {"a": {"from": "host0", "to": ["gpu0"], "size": MIB, "start": 0.05}}}
    run = run_plan(words, samples=1)
    assert run.makespan_samples_s[0] >= 0.05
    assert run.flows[0].steady_s < 0.05


def test_both_directions_of_several_gpus_go_at_once(tmp_path: Path) -> None:
    words = {
        "flows": {
            "in0": {"from": "disk0", "to": ["gpu0"], "size": 5 * MIB + 1, "cache": "warm"},
            "in1": {"from": "host0", "to": ["gpu1"], "size": 3 * MIB + 7},
            "out0": {"from": "gpu0", "to": ["host0"], "size": 4 * MIB, "memory": "pinned"},
            "save1": {
                "from": "gpu1",
                "to": ["disk0"],
                "size": 6 * MIB + 3,
                "sink": str(tmp_path / "checkpoint.bin"),
                "workers": 4,
                "chunk": 256 << 10,
            },
        }
    }
    run = run_plan(words, samples=2, warmup=0)
    assert [flow.verified for flow in run.flows] == [True] * 4
    assert run.flows[3].schedule.hops[0].workers == 4
    assert (tmp_path / "checkpoint.bin").stat().st_size == 6 * MIB + 3


def test_independent_flows_overlap() -> None:
    words: dict[str, Any] = {
        "flows": {},
        "compute": {f"step{k}": {"gpu": f"gpu{k}", "time": 0.1} for k in (0, 1)},
    }
    words["flows"]["a"] = {"from": "host0", "to": ["gpu0"], "size": 1024}
    run = run_plan(words, samples=1)
    assert 0.1 <= run.makespan_samples_s[0] < 0.19


def test_the_shares_of_a_split_flow_are_different_bytes(tmp_path: Path) -> None:
    source = noise_file(tmp_path / "model.bin", 2 * MIB + 1, offset=100)
    words: dict[str, Any] = {
        "from": "disk0",
        "to": ["gpu0", "gpu1"],
        "copy": "shard",
        "cache": "warm",
        "files": [source.model_dump()],
    }
    run = run_plan({"flows": {"w": words}}, samples=1)
    # 2 MiB + 1 byte over two: the first share has the odd byte. Each is held to its own range.
    assert [flow.size_bytes for flow in run.flows] == [MIB + 1, MIB]
    assert [flow.verified for flow in run.flows] == [True, True]


def test_the_first_run_is_kept_apart_from_the_samples() -> None:
    run = run_way("load", 4 * MIB, one_gpu(), shape=(MIB, 2, 2), samples=3, warmup=2)
    flow = run.flows[0]
    assert (len(flow.samples_s), run.samples, run.warmup) == (3, 3, 2)
    names = [step.name for step in flow.setup]
    assert names[:2] == ["start the workers", "allocate gpu0"]
    assert names[2:] == ["touch the ring", "register the ring", "open the lanes", READY]
    # ring = 2 workers * 2 slots * 1 MiB
    assert [step.size_bytes for step in flow.setup[2:4]] == [4 * MIB, 4 * MIB]
    assert flow.first_s >= sum(step.duration_s for step in flow.setup)
    assert flow.duration_s == flow.first_s
    assert flow.pinned_bytes == 4 * MIB
    assert run.makespan_s == pytest.approx(flow.first_s, rel=0.01)


def test_repeats_pay_the_setup_once() -> None:
    run = run_way("load", 2 * MIB, one_gpu(), shape=(MIB, 1, 2), samples=1, warmup=0, repeat=5)
    flow = run.flows[0]
    assert flow.duration_s == pytest.approx(flow.first_s + 4 * flow.steady_s)
    # Busy is of one repeat, the mean of the sample's five: all lie inside of its duration.
    assert all(5 * hop.busy_s <= flow.duration_s + 1e-9 for hop in flow.hops)


def test_registering_for_one_load_includes_giving_back() -> None:
    flow = run_way("registered in", 4 * MIB, one_gpu()).flows[0]
    names = [step.name for step in flow.setup]
    assert names[-4:-1] == ["register the buffer", "open the lanes", READY]
    assert names[-1] == "unregister the buffer"
    assert flow.pinned_bytes == 4 * MIB


def test_a_kept_scratch_file_is_used_again(scratch: Path) -> None:
    notes: list[str] = []

    class Listener:
        def start(self, flow: str, total_bytes: int, predicted_s: float) -> None: ...
        def advance(self, flow: str, done_bytes: int) -> None: ...
        def finish(self, flow: str, seconds: float) -> None: ...
        def note(self, text: str) -> None:
            notes.append(text)

    run_way("load", MIB, one_gpu(), options={"keep_scratch": True}, progress=Listener())
    (kept,) = scratch.iterdir()
    before = kept.stat().st_mtime_ns
    assert run_way("load", MIB, one_gpu()).flows[0].verified is True
    assert kept.stat().st_mtime_ns == before
    assert any("verifying f" in note for note in notes)
    kept.unlink()


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[str, int]] = []
    ended: list[float] = []

    class Listener:
        def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
            seen.append((flow, total_bytes))
            assert predicted_s > 0

        def advance(self, flow: str, done_bytes: int) -> None:
            assert 0 <= done_bytes <= 2 * MIB
            seen.append((flow, done_bytes))

        def finish(self, flow: str, seconds: float) -> None:
            assert flow == "f"
            ended.append(seconds)

        def note(self, text: str) -> None: ...

    run_way("load", MIB, one_gpu(), samples=2, repeat=2, progress=Listener())
    assert seen[0] == ("f", 2 * MIB)
    assert seen[-1] == ("f", 2 * MIB)  # the last look is after the last byte
    assert len(ended) == 2


def test_classes_and_rates_are_kept_and_so_not_warned_of() -> None:
    flow = {"from": "host0", "to": ["gpu0"], "size": MIB}
    words = {"flows": {"a": flow, "b": flow | {"priority": 1, "budget": {"rate": 1e9}}}}
    warnings = " ".join(run_plan(words, samples=1).warnings)
    assert "priorities" not in warnings
    assert "rate" not in warnings


@pytest.mark.parametrize(("samples", "warmup"), [(0, 1), (1, -1)])
def test_nonsense_counts_are_refused(samples: int, warmup: int) -> None:
    with pytest.raises(InputError, match="samples"):
        run_way("load", MIB, one_gpu(), samples=samples, warmup=warmup)


@pytest.mark.parametrize("state", ["warm", "partly"])
def test_a_source_that_does_not_stay_cached_is_told(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a computer does whose memory the file and the rest do not fit into together.
    monkeypatch.setattr("planner.engine.pagecache.enforce", lambda _files, _wanted: state)
    run = run_way("load", 64 << 10, one_gpu(), cache="warm")
    told = "the source does not stay in the page cache"
    assert any(told in warning for warning in run.warnings) == (state == "partly")
    assert run.flows[0].verified is True
