"""Workers near their GPU, on computers with several NUMA nodes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from planner.engine import lines
from planner.engine.backends.host import HostBackend
from planner.engine.numa import cores_near, nodes, run_on
from planner.engine.route import route_of
from planner.machine.system import NumaNode
from tests.helpers.machines import two_gpus
from tests.helpers.splits import hops

TWO = (NumaNode(0, (0, 1), None), NumaNode(1, (2, 3), None))


@pytest.mark.parametrize(
    ("wanted", "found", "cores"),
    [
        ([1], TWO, {2, 3}),
        ([None, 0], TWO, {0, 1}),
        ([None], TWO, None),
        ([], TWO, None),
        ([7], TWO, None),  # a node without cores for this process
        ([0], TWO[:1], None),  # one node: nothing to choose
    ],
)
def test_the_first_known_gpu_says_where(
    wanted: list[int | None], found: tuple[NumaNode, ...], cores: set[int] | None
) -> None:
    assert cores_near(wanted, found) == (None if cores is None else frozenset(cores))


def test_nodes_without_cores_for_this_process_do_not_count(tmp_path: Path) -> None:
    status = tmp_path / "proc/self/status"
    status.parent.mkdir(parents=True)
    status.write_text("Cpus_allowed_list:\t0-1\n")
    for index, cpus in enumerate(["0-1", "2-3"]):
        folder = tmp_path / f"sys/devices/system/node/node{index}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus)
    assert [node.index for node in nodes(tmp_path)] == [0]


def test_a_job_runs_on_its_cores_and_the_thread_comes_back() -> None:
    before = os.sched_getaffinity(0)
    one = frozenset([min(before)])
    seen: list[set[int]] = []

    def job() -> None:
        seen.append(os.sched_getaffinity(0))

    def both() -> None:
        run_on(one, job)
        job()

    thread = Thread(target=both)
    thread.start()
    thread.join()
    assert seen == [set(one), before]
    assert os.sched_getaffinity(0) == before  # other threads are not asked


def test_a_job_that_fails_gives_the_cores_back() -> None:
    before = os.sched_getaffinity(0)

    def fail() -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        run_on(frozenset([min(before)]), fail)
    assert os.sched_getaffinity(0) == before


def test_a_route_is_bound_to_the_cores_of_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = two_gpus()
    shape = (4096, 2, 2)
    around = route_of(machine, hops("host0 staged gpu1 + gpu1 peer gpu0", shape))
    backend = HostBackend()
    monkeypatch.setattr(HostBackend, "numa_node", lambda _self, gpu: gpu)
    monkeypatch.setattr(lines, "nodes", lambda: TWO)
    # The detour's workers copy to gpu1, so they run beside it.
    assert lines.near_gpu(backend, machine, around) == replace(around, cores=frozenset({2, 3}))
    monkeypatch.setattr(lines, "nodes", lambda: TWO[:1])
    assert lines.near_gpu(backend, machine, around) is around
