"""Two pipelines at once: what runs, and what it says of the copies beside several engines."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from time import monotonic

import pytest

from planner.engine.awake import Waker
from planner.engine.backends.host import HostBackend
from planner.engine.calibration import pairs
from planner.engine.calibration.coupling import Joint, table_of, with_table
from planner.engine.calibration.device import DeviceBench, Memory
from planner.engine.calibration.joint import Stock, joints
from planner.engine.calibration.several import beside_several
from planner.engine.transfer import Moved, Transfer
from planner.machine.schema import CopyName, Machine
from planner.machine.tables import CopyTable
from planner.model.estimate import estimate
from planner.model.strategies import Shape
from planner.plan.schema import Plan
from tests.helpers.machines import linked_gpus

MIB = 1 << 20
SIZE = 4096 * MIB
WORKERS = (1, 2, 4, 8, 16)


def _machine(uplink: float | None = None) -> Machine:
    """4 GB/s a worker, of which one engine leaves half from eight workers on."""
    tree = linked_gpus(2).model_dump(mode="json", by_alias=True)
    for link in ("pcie0", "pcie1"):
        tree["links"][link]["forward"]["rate"] = 50e9
        for curve in tree["links"][link]["forward"]["curves"].values():
            curve["rate"] = 50e9
        if uplink is not None:
            tree["links"][link]["ports"] = ["uplink", None]
    if uplink is not None:
        tree["ports"] = {"uplink": {"forward": uplink}}
    tree["nodes"]["host0"]["cores"] = 32
    machine = Machine.model_validate(tree)
    table = CopyTable(
        workers=WORKERS,
        rings=(64 * MIB,),
        rates=tuple((4e9 * count,) for count in WORKERS),
        beside_dma=(1.0, 1.0, 1.0, 0.9, 0.5),
        turn=20e-6,
    )
    return with_table(machine, "memory", table)


def _measured(machine: Machine, workers: int, several: tuple[float, ...]) -> Joint:
    """What the model has of two such flows where the copies are like that: a pair's run."""
    table = table_of(machine, "memory").model_copy(update={"beside_several": several})
    shape = {"chunk": 4 * MIB, "depth": 2, "workers": workers}
    flows = {
        f"f{k}": {
            "from": "host0",
            "to": f"gpu{k}",
            "route": ["host0", f"gpu{k}"],
            "size": SIZE,
            "memory": "pageable",
            "strategy": "staged",
            **shape,
        }
        for k in (0, 1)
    }
    plan = Plan.model_validate({"name": "pair", "flows": flows})
    answer = estimate(plan, with_table(machine, "memory", table))
    seconds = max(flow.steady_s for flow in answer.flows)
    return Joint("memory", Shape(4 * MIB, 2, workers), 2 * SIZE, seconds)


@pytest.mark.parametrize("share", [0.6, 0.7, 0.85])
def test_the_share_is_found_at_which_the_model_takes_as_long(share: float) -> None:
    machine = _machine()
    pair = _measured(machine, 8, (1.0, 1.0, 1.0, 0.9, share))
    found = table_of(beside_several(machine, [pair]), "memory").beside_several
    # Sixteen workers in all ran; fewer have what one engine leaves them.
    assert found == pytest.approx((1.0, 1.0, 1.0, 0.9, share), rel=0.01)


def test_each_number_of_workers_has_its_own_share() -> None:
    machine = _machine()
    pairs_of = [_measured(machine, workers, (1.0, 1.0, 1.0, 0.95, 0.7)) for workers in (4, 8)]
    found = table_of(beside_several(machine, pairs_of), "memory").beside_several
    assert found == pytest.approx((1.0, 1.0, 1.0, 0.95, 0.7), rel=0.01)


def test_a_pair_that_the_uplink_holds_back_proves_what_it_reached() -> None:
    # 64 GB/s x 1.1 of copies behind an uplink of 40: 0.625 of the table's 64 are proved.
    machine = _machine(uplink=40e9)
    pair = _measured(machine, 8, (1.0, 1.0, 1.0, 0.9, 1.1))
    found = table_of(beside_several(machine, [pair]), "memory").beside_several
    assert found is not None
    assert found[-1] == pytest.approx(40 / 64, rel=0.02)


def test_a_pair_at_its_own_pace_proves_what_it_reached() -> None:
    # Eight workers alone bring 0.9 of 32 GB/s, so two of them no more than 57.6 of the 64.
    machine = _machine()
    pair = _measured(machine, 8, (1.0, 1.0, 1.0, 0.9, 1.1))
    found = table_of(beside_several(machine, [pair]), "memory").beside_several
    assert found is not None
    assert found[-1] == pytest.approx(0.9, rel=0.02)


def test_two_flows_come_out_as_the_pair_did() -> None:
    machine = _machine()
    pair = _measured(machine, 8, (1.0, 1.0, 1.0, 0.9, 0.77))
    found = beside_several(machine, [pair])
    again = _measured(found, 8, table_of(found, "memory").beside_several or ())
    assert again.seconds == pytest.approx(pair.seconds, rel=0.01)


@contextmanager
def _ready(folder: Path, copy: CopyName) -> Iterator[tuple[pairs.Pairs, list[Memory]]]:
    """Pairs of pipelines on two emulated GPUs, and the GPUs' memory."""
    backend = HostBackend()
    bench = DeviceBench(backend)
    file = folder / "cached"
    file.write_bytes(os.urandom(32 * MIB))
    try:
        host, through = bench.pageable(32 * MIB), bench.pinned(32 * MIB)
        devices = [bench.device(k, 32 * MIB) for k in (0, 1)]
        one, other = (Stock(file, host, device, folder, 32 * MIB, through) for device in devices)
        both = pairs.halves(one, other, "gpu1")
        assert [(s.size, s.offset, s.node) for s in both] == [
            (16 * MIB, 0, "gpu0"),
            (16 * MIB, 16 * MIB, "gpu1"),
        ]
        ready = pairs.Pairs(backend, linked_gpus(2), copy, both)
        try:
            yield ready, devices
        finally:
            ready.close()
    finally:
        bench.close()
        backend.close()


@pytest.mark.parametrize("copy", pairs.COPIES)
def test_two_pipelines_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy: CopyName
) -> None:
    met, real = Barrier(2), Transfer.run

    def run(transfer: Transfer) -> Moved:
        met.wait(30)  # one behind the other would never meet
        return real(transfer)

    monkeypatch.setattr(Transfer, "run", run)
    with _ready(tmp_path, copy) as (ready, _):
        found = ready.cells([1, 2], MIB)
        # One worker each of the two that the table has a row for; four chunks of 1 MiB each.
        assert [cell.key for cell in found] == [("pair", copy, MIB, 2, 1, 8 * MIB)]
        assert found[0].take() > 0
        (joint,) = joints(found, pairs.PAIR)
        assert (joint.copy, joint.shape, joint.size) == (copy, Shape(MIB, 2, 1), 8 * MIB)
        assert joints(found) == []


def test_the_two_of_a_file_read_a_half_each(tmp_path: Path) -> None:
    with _ready(tmp_path, "file") as (ready, devices):
        ready.cells([1, 2], MIB)
        file = (tmp_path / "cached").read_bytes()
        for device, start in zip(devices, (0, 16 * MIB), strict=True):
            there = ctypes.string_at(device.address, 4 * MIB)
            assert there == file[start : start + 4 * MIB]


@pytest.mark.parametrize("failing", [0, 1])
def test_what_keeps_one_from_beginning_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    before = threading.active_count()
    with _ready(tmp_path, "memory") as (ready, _):
        cell = ready.cells([1, 2], MIB)[0]
        real = HostBackend.attach

        def attach(backend: HostBackend, gpu: int) -> None:
            # Only at the start: the threads of the pipelines are attached already.
            if gpu == failing:
                raise RuntimeError(f"gpu{gpu} is lost")
            real(backend, gpu)

        monkeypatch.setattr(HostBackend, "attach", attach)
        monkeypatch.setattr(Waker, "__call__", lambda *_args: None)
        begun = monotonic()
        with pytest.raises(RuntimeError, match=f"gpu{failing} is lost"):
            cell.take()
        assert monotonic() - begun < 10
    assert threading.active_count() == before
