"""Flows that live together have to fit together; what does not is refused with what would."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import ExitCode, InfeasibleError
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from tests.helpers.machines import GB, many_gpus, one_gpu, two_gpus
from tests.helpers.plans import down, load, plan_of, up
from tests.helpers.variants import changed


def refused(flows: dict[str, Any], machine: Machine) -> InfeasibleError:
    with pytest.raises(InfeasibleError) as told:
        estimate(plan_of(flows), machine)
    assert told.value.exit_code == ExitCode.INFEASIBLE
    return told.value


def peak(flows: dict[str, Any], machine: Machine, node: str) -> int:
    return {n.name: n.peak_bytes for n in estimate(plan_of(flows), machine).nodes}[node]


def test_two_flows_that_fit_alone_do_not_fit_together() -> None:
    # 20 + 15 GB in 32 GB: 3 too many, so a would fit with 17. The second still comes at the end.
    flows = {"a": load(size=20 * GB), "b": load(size=15 * GB, after="a")}
    told = refused(flows, one_gpu())
    assert "gpu0 holds 32 GB, the flows need 35 GB there together" in told.message
    assert told.message.endswith("a 20 GB, b 15 GB")
    assert told.hint == "with 17 GB there for a it would fit"
    flows["a"] = load(size=17 * GB)
    assert peak(flows, one_gpu(), "gpu0") == 32 * GB


def test_buffers_of_one_flow_count_too() -> None:
    step = {"step": {"gpu": "gpu0", "time": 0.01, "after": ["a"], "repeat": 4}}
    plan = plan_of({"a": up(size=12 * GB, repeat=4, buffers=3)}, compute=step)
    with pytest.raises(InfeasibleError, match="gpu0 holds 32 GB, the flows need 36 GB"):
        estimate(plan, one_gpu())


def test_host_memory_is_bounded_by_its_limit() -> None:
    machine = one_gpu(limit=10 * GB)
    told = refused({"a": down(size=6 * GB), "b": down(size=5 * GB)}, machine)
    assert "host0 holds 10 GB" in told.message
    # Many small ones: none is as large as what is too much.
    many = {f"f{i}": down(size=GB) for i in range(12)}
    told = refused(many, machine)
    assert told.message.endswith("f0 1 GB, f1 1 GB, f10 1 GB, f11 1 GB, 8 more")
    assert told.hint == "2 GB less would fit"


def test_copies_of_the_same_bytes_have_one_source() -> None:
    # 40 GB of the host's 64 to both GPUs would be 80 if each copy had a source of its own.
    machine = changed(two_gpus(), {"nodes.gpu0.capacity": 64 * GB, "nodes.gpu1.capacity": 64 * GB})
    assert peak({"a": up(size=40 * GB, to=["gpu0", "gpu1"])}, machine, "host0") == 40 * GB


def test_what_a_flow_passes_on_is_there_once() -> None:
    # Into the host and on from there: the same 40 GB. Without `after` they are others.
    first = {"from": "disk0", "to": "host0", "size": 40 * GB, "cache": "warm", "memory": "pinned"}
    machine = changed(one_gpu(), {"nodes.gpu0.capacity": 64 * GB})
    flows = {"in": first, "on": up(size=40 * GB, after="in")}
    assert peak(flows, machine, "host0") == 40 * GB
    told = refused({"in": first, "on": up(size=40 * GB)}, machine)
    assert "host0 holds 64 GB, the flows need 80 GB there together" in told.message


def test_files_on_one_disk_have_to_fit_together() -> None:
    machine = changed(one_gpu(), {"nodes.disk0.capacity": 10 * GB})
    save = {"from": "host0", "to": "disk0", "size": 6 * GB}
    told = refused({"a": save, "b": {**save, "after": "a"}}, machine)
    assert told.message == (
        "disk0 holds 10 GB, the flows need 12 GB there together: a 6 GB, b 6 GB"
    )
    assert told.hint == "with 4 GB there for b it would fit"
    assert estimate(plan_of({"a": save}), machine).makespan_s > 0


def test_members_of_a_class_fill_what_they_share() -> None:
    # Each of 4 hosts keeps 8 x 9 GB of its 64 GB in one class, and each GPU only its own.
    flow = {
        "from": "node{node}.gpu{gpu}",
        "to": "node{node}.host0",
        "size": 9 * GB,
        "for_each": {"node": "0..3", "gpu": "0..7"},
    }
    told = refused({"a": flow}, many_gpus(4, 8))
    assert "node{node}.host0 holds 64 GB, the flows need 72 GB there together" in told.message


def test_a_buffer_that_is_pinned_where_it_lies_counts_once() -> None:
    # 4 GB of the user's, registered as a whole: 4 GB are there, and 4 GB are pinned.
    flows = {"a": up(size=4 * GB, memory="pageable", strategy="registered")}
    (host,) = [n for n in estimate(plan_of(flows), one_gpu()).nodes if n.name == "host0"]
    assert (host.peak_bytes, host.pinned_bytes) == (4 * GB, 4 * GB)


def test_ways_that_need_less_are_taken_where_memory_is_short() -> None:
    # Alone each would keep a buffer of all bytes pinned; the ring is as good as that here.
    flows = {"a": load(size=15 * GB), "b": load(size=15 * GB, to="gpu1")}
    predicted = estimate(plan_of(flows), two_gpus(None))
    nodes = {n.name: n for n in predicted.nodes}
    assert nodes["host0"].peak_bytes < 2 * GB
