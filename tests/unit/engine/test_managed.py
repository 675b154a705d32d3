"""Managed memory emulated: what moves, what stays, and how much of it there may be."""

from __future__ import annotations

import numpy as np
import pytest

from planner.engine.backends.host import HostBackend
from planner.engine.backends.host_managed import Managed
from planner.engine.backends.managed_limit import require_managed
from planner.engine.touch import Touch
from planner.errors import InfeasibleError
from planner.model.touched import BLOCK, REGION
from tests.helpers.machines import MIB, every_way
from tests.helpers.schedules import run_way


def _there(managed: Managed) -> list[int]:
    """The regions whose bytes lie on the GPU's side."""
    count = -(-managed.size // REGION)
    return [k for k in range(count) if managed.away.array[k * REGION] == 7]


def _filled(size: int) -> Managed:
    managed = Managed(size, lambda _address: None)
    managed.fill(7)
    return managed


def test_a_fault_brings_its_region_and_nothing_else() -> None:
    managed = _filled(2 * BLOCK)
    managed.faults(np.array([5, 3 * REGION, BLOCK + 9 * REGION]))
    # Blocks have 32 regions: 0 and 3 of the first, 9 of the second.
    assert _there(managed) == [0, 3, 41]
    managed.close()


def test_a_subtree_comes_whole_once_more_than_half_of_it_faulted() -> None:
    managed = _filled(BLOCK)
    managed.faults(np.array([0, 1, 2, 4]) * REGION)
    # Three of the four regions of the first subtree (75 %): the fourth comes too. Of the eight
    # around it four faulted, 50 %: not more than 51 %, so region 5 and beyond stay.
    assert _there(managed) == [0, 1, 2, 3, 4]
    managed.faults(np.arange(17) * REGION)
    assert _there(managed) == list(range(32))  # 17 of 32 are 53 %
    managed.close()


def test_what_moves_is_brought_back_with_what_was_written_there() -> None:
    managed = _filled(REGION + 17)
    managed.move(None, inward=True)
    managed.away.array[REGION + 16] = 9
    managed.move(None, inward=False)
    assert managed.array[REGION + 16] == 9
    assert managed.array[0] == 7
    managed.close()


def test_kernels_read_the_side_where_the_bytes_are() -> None:
    backend = HostBackend()
    try:
        managed = backend.managed(0, 3 * REGION)
        managed.fill(7)
        lane = backend.kernel_lane(0, 1)
        target = backend.allocate(0, 10)
        lane.touch(0, Touch(target.address, managed.address + 2 * REGION, 0, 10, 10), 3)
        lane.wait(0)
        assert _there(managed) == [2]
        managed.fill(8)  # what lies on the GPU is not what the host writes behind its back
        lane.touch(0, Touch(target.address, managed.address + 2 * REGION, 0, 10, 10))
        lane.wait(0)
        assert target.owner.array.tolist() == [7] * 10
        backend.keep_on_host(managed, 0)
        lane.touch(0, Touch(target.address, managed.address + 2 * REGION, 0, 10, 10))
        lane.wait(0)
        assert target.owner.array.tolist() == [8] * 10
        backend.release(target)
        managed.close()
    finally:
        backend.close()


def test_more_than_half_of_what_is_free_is_refused() -> None:
    require_managed(0, 50, 100)
    require_managed(0, 50, None)
    with pytest.raises(InfeasibleError, match=r"51 B of managed memory are more than half"):
        require_managed(0, 51, 100)


@pytest.mark.parametrize("way", ["faults in", "managed prefetch in", "managed prefetch out"])
def test_too_much_managed_memory_is_refused_before_anything_is_allocated(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(HostBackend, "free_memory", lambda _self, _gpu: MIB)
    monkeypatch.setattr(HostBackend, "allocate", lambda _self, _gpu, size: made.append(size))
    with pytest.raises(InfeasibleError, match="more than half of what gpu0 has free"):
        run_way(way, MIB // 2 + 1, every_way())
    assert made == []
