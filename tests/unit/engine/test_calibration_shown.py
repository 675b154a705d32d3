"""CUDA's devices among the driver's GPUs: by their addresses, whatever is hidden or reordered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.engine.backends import cuda_look
from planner.engine.calibration import shown as places
from planner.engine.calibration.shown import devices, seen_again, shown
from planner.machine.discover import Discovery, discover
from planner.machine.discover_details import GpuDetails, read_details
from planner.machine.discover_gpus import Gpus
from tests.helpers import seen
from tests.helpers.nvml import FakeNvml

BUSES = ("00000000:0A:00.0", "00000000:0B:00.0", "00000000:0C:00.0")


def about(*buses: str) -> Discovery:
    """As many GPUs as addresses, numbered in that order."""
    gpus = tuple(seen.gpu(k, bus=bus.lower()) for k, bus in enumerate(buses))
    return replace(discover(Path("/nowhere")), gpus=gpus)


def test_devices_are_matched_by_their_address() -> None:
    # The second and third of three, the other way round: CUDA_VISIBLE_DEVICES=2,1.
    pairs = read_details(
        lambda: FakeNvml(buses=BUSES, ends=[[1] * 4, [0] * 4 + [2] * 6, [1] * 6])
    ).pairs
    found, joined = shown(about(*BUSES), pairs, ["0000:0C:00.0", "0000:0B:00.0"])
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(0, "GPU-2"), (1, "GPU-1")]
    # Six NVLinks between those two, whichever comes first; nothing of the hidden one.
    assert [(p.first, p.second, p.nvlinks) for p in joined] == [(0, 1, 6)]


def test_a_device_that_the_driver_does_not_describe_is_left_out() -> None:
    found, joined = shown(about(*BUSES[:1]), (), ["0000:0B:00.0", "0000:0A:00.0"])
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == [(1, "GPU-0")]
    assert joined == ()


def test_without_addresses_the_numbers_are_the_drivers() -> None:
    whole, pairs = about(*BUSES), read_details(lambda: FakeNvml(buses=BUSES)).pairs
    assert shown(whole, pairs, []) == (whole, pairs)


def test_without_cuda_the_devices_are_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pairs = about(*BUSES), read_details(lambda: FakeNvml(buses=BUSES)).pairs
    monkeypatch.setattr(places, "discover", lambda _folder: whole)
    monkeypatch.setattr(places, "read_details", lambda: GpuDetails(pairs=pairs))
    monkeypatch.setattr(cuda_look, "addresses", lambda: ())
    assert devices(Path("/")) == (whole, pairs, [0, 1, 2])
    monkeypatch.setattr(cuda_look, "addresses", lambda: ("0000:0C:00.0", "0000:0A:00.0"))
    found, _, numbers = devices(Path("/"))
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-2", "GPU-0"]
    assert numbers == [0, 1]


def test_a_link_that_wakes_up_is_told_of_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # CUDA's device 0 is the driver's GPU 2; both are at work, and it is 0 that is asked for.
    found, _ = shown(about(*BUSES), (), ["0000:0C:00.0", "0000:0B:00.0"])
    awake = tuple(replace(gpu, generation=5) for gpu in about(*BUSES).gpus)
    monkeypatch.setattr(places, "read_gpus", lambda _root: Gpus(awake))
    again = seen_again(found, 0)
    assert [(gpu.index, gpu.uuid, gpu.generation) for gpu in again.gpus] == [
        (0, "GPU-2", 5),
        (1, "GPU-1", 1),
    ]
