"""Flows over two links, and copies from GPU to GPU, on real GPUs; skipped with fewer than two."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import active_count
from typing import Literal

import pytest

from planner.engine.execute import execute
from tests.helpers.machines import MIB, linked_gpus, two_gpus
from tests.helpers.schedules import KIB
from tests.helpers.splits import SPLITS, fan_out, run_split

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

CHUNK = 256 * KIB
SLACK = 4 * MIB
"""What the driver may keep for itself (its pages are 2 MiB) after everything was given back."""


def _free(gpu: int) -> int:
    cupy.cuda.runtime.setDevice(gpu)
    return int(cupy.cuda.runtime.memGetInfo()[0])


@pytest.fixture(scope="module")
def devices() -> int:
    """How many GPUs there are; skips where there are not two that reach each other."""
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        pytest.skip(f"the driver shows no device: {error}")
    if count < 2 or not runtime.deviceCanAccessPeer(0, 1):
        pytest.skip("two GPUs with peer access are needed")
    for gpu in range(count):
        runtime.setDevice(gpu)
        runtime.deviceSynchronize()  # makes the context, whose memory is not the tests' matter
    return count


@pytest.fixture(autouse=True)
def _nothing_stays(devices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    free, threads = [_free(gpu) for gpu in range(devices)], active_count()
    yield
    assert active_count() == threads
    assert list(folder.iterdir()) == []
    left = [before - _free(gpu) for gpu, before in enumerate(free)]
    assert max(left) <= SLACK, f"bytes still allocated by device: {left}"


@pytest.mark.parametrize("size", [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 61 * CHUNK + 17])
@pytest.mark.parametrize(
    "shapes",
    [((CHUNK, 2, 2), (CHUNK, 2, 2)), ((2 * CHUNK, 1, 3), (3 * CHUNK, 2, 2))],
    ids=["equal", "unequal"],
)
@pytest.mark.parametrize("name", SPLITS)
def test_every_byte_arrives_over_either_link(
    name: str, size: int, shapes: tuple[tuple[int, int, int], tuple[int, int, int]]
) -> None:
    run = run_split(name, size, two_gpus(), shapes, backend="cuda", options={"samples": 2})
    flow = run.flows[0]
    assert flow.verified is True
    assert not run.environment.emulated
    assert sum(part.share for part in flow.parts) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, CHUNK + 1, 61 * CHUNK + 17])
@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_every_copy_has_every_byte(fan: Literal["tree", "chain"], size: int, devices: int) -> None:
    gpus = min(devices, 4)
    machine = linked_gpus(gpus)
    plan, prediction = fan_out(machine, size, gpus, fan, chunk=CHUNK)
    run = execute(plan, machine, estimate=prediction, backend="cuda", samples=2, warmup=0)
    assert [flow.verified for flow in run.flows] == [True] * gpus


def test_two_links_carry_more_than_one() -> None:
    """4 GiB of pinned memory; both ways take a share, or the detour would be no use at all."""
    shape = (32 * MIB, 2, 2)
    run = run_split(
        "pinned",
        4096 * MIB,
        two_gpus(),
        (shape, shape),
        backend="cuda",
        options={"samples": 3, "warmup": 1, "verify": False},
    )
    # Links of equal speed share evenly; a quarter each leaves room for one that is shared.
    assert min(part.share for part in run.flows[0].parts) > 0.25
