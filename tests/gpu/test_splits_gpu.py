"""Flows over two links, and copies from GPU to GPU, on real GPUs; skipped with fewer than two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from typing import Literal

import pytest

from planner.engine.backends.cuda import CudaBackend
from planner.engine.execute import execute
from tests.helpers.devices import PEERS, holds
from tests.helpers.machines import MIB, linked_gpus, two_gpus
from tests.helpers.schedules import KIB
from tests.helpers.splits import SPLITS, fan_out, run_split

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

CHUNK = 256 * KIB


@pytest.fixture(scope="module")
def backend(devices: int) -> Iterator[CudaBackend]:
    """One for all tests, on GPUs that are open to each other; skips where there are no two such.

    Opening and closing peer access maps and unmaps all memory of both devices. A run closes what it
    has opened, so another backend opens it here; that runs open and close it themselves is tested
    with the other ways of the engine.
    """
    runtime = cupy.cuda.runtime
    if devices < 2 or not runtime.deviceCanAccessPeer(0, 1):
        pytest.skip("two GPUs with peer access are needed")
    with closing(CudaBackend()) as opener, closing(CudaBackend()) as found:
        for gpu, peer in combinations(range(min(devices, PEERS)), 2):
            if opener.lacks("peer", ("hbm", "hbm"), [gpu, peer]) is None:
                opener.open_peer(gpu, peer)
        yield found


@pytest.fixture(autouse=True)
def _nothing_is_held(backend: CudaBackend) -> Iterator[None]:
    yield
    assert holds(backend) == {}


@pytest.mark.parametrize("size", [1, 4095, CHUNK - 1, CHUNK, CHUNK + 1, 61 * CHUNK + 17])
@pytest.mark.parametrize(
    "shapes",
    [((CHUNK, 2, 2), (CHUNK, 2, 2)), ((2 * CHUNK, 1, 3), (3 * CHUNK, 2, 2))],
    ids=["equal", "unequal"],
)
@pytest.mark.parametrize("name", SPLITS)
def test_every_byte_arrives_over_either_link(
    name: str,
    size: int,
    shapes: tuple[tuple[int, int, int], tuple[int, int, int]],
    backend: CudaBackend,
) -> None:
    run = run_split(name, size, two_gpus(), shapes, backend=backend, options={"samples": 2})
    flow = run.flows[0]
    assert flow.verified is True
    assert not run.environment.emulated
    assert sum(part.share for part in flow.parts) == pytest.approx(1)


@pytest.mark.parametrize("size", [1, CHUNK + 1, 61 * CHUNK + 17])
@pytest.mark.parametrize("fan", ["tree", "chain"])
def test_every_copy_has_every_byte(
    fan: Literal["tree", "chain"], size: int, devices: int, backend: CudaBackend
) -> None:
    gpus = min(devices, PEERS)
    machine = linked_gpus(gpus)
    plan, prediction = fan_out(machine, size, gpus, fan, chunk=CHUNK)
    run = execute(plan, machine, estimate=prediction, backend=backend, samples=2, warmup=0)
    assert [flow.verified for flow in run.flows] == [True] * gpus


def test_two_links_carry_more_than_one(backend: CudaBackend) -> None:
    """64 chunks of pinned memory; both ways take a share, or the detour would be no use at all."""
    shape = (32 * MIB, 2, 2)
    run = run_split(
        "pinned",
        64 * 32 * MIB,
        two_gpus(),
        (shape, shape),
        backend=backend,
        options={"samples": 3, "warmup": 1, "verify": False},
    )
    # Links of equal speed share evenly; a quarter each leaves room for one that is shared.
    assert min(part.share for part in run.flows[0].parts) > 0.25
