"""What the driver tells of GPUs beside which there are, and what sysfs tells of adapters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.machine import system_now
from planner.machine.discover_details import read_details
from planner.machine.discover_nics import Adapter, read_adapters
from planner.machine.nominal import nominal_rate
from tests.helpers.nvml import FakeNvml


def details(**changes: Any) -> Any:
    library = FakeNvml(**changes)
    found = read_details(lambda: library)
    assert not library.is_open
    return found


@pytest.mark.parametrize(
    ("ends", "by_nvlink", "links"),
    [
        # Two bridged GPUs: every link of the first leads to the second.
        ([[1] * 4, [0] * 4], 0, 4),
        # Through switches all links reach everybody, as many as the GPU with fewer has.
        ([["switch"] * 18, ["switch"] * 17], 0, 17),
        # A guest does not see the ends; the driver says that NVLink joins the two.
        ([[None] * 18, [None] * 18], 0, 18),
        ([[None] * 18, [None] * 18], 5, 0),
        # It may name an address that is no GPU's: a switch.
        ([["00000000:05:00.0"] * 18, [None] * 18], 0, 18),
        # Where it says nothing nobody knows.
        ([[None] * 18, [None] * 18], None, None),
        # Links that lead elsewhere do not join these two.
        ([[], []], 5, 0),
        (None, None, None),
    ],
)
def test_nvlinks_between_two_gpus_are_counted(
    ends: Any, by_nvlink: int | None, links: int | None
) -> None:
    found = details(ends=ends, by_nvlink=by_nvlink, answers={"nvmlDeviceGetArchitecture": 9})
    (pair,) = found.pairs
    assert pair.nvlinks == links
    assert pair.generation == (None if ends is None else 4)  # Hopper


@pytest.mark.parametrize(
    ("status", "peer", "told"),
    [(0, True, None), (3, False, "different root"), (4, False, "switched off"), (6, None, None)],
)
def test_peer_access_is_on_off_or_unknown(status: int, peer: bool | None, told: str | None) -> None:
    (pair,) = details(peer=status, level=20).pairs
    assert (pair.peer, pair.same_root) == (peer, True)
    assert (told or "") in (pair.refused or "")
    assert (pair.refused is None) == (told is None)


def test_health_is_what_the_driver_supports() -> None:
    found = details(
        answers={
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=100, used=40, free=60),
            "nvmlDeviceGetComputeRunningProcesses": {0: [1, 2]},
            "nvmlDeviceGetRemappedRows": {0: (5, 2, 1, 0)},
            # A power cap (4) is no illness, heat (0x20) is.
            "nvmlDeviceGetCurrentClocksThrottleReasons": {0: 0x24, 1: 0x04},
            "nvmlDeviceGetTotalEccErrors": {0: 3},
        }
    ).health
    one, other = found
    assert (one.memory_bytes, one.used_bytes, one.processes) == (100, 40, 2)
    assert (one.remapped, one.pending, one.failed, one.uncorrected) == (2, True, False, 3)
    assert (one.slowed, other.slowed) == (("too hot (software)",), ())
    assert (other.remapped, other.pending, other.processes, other.replays) == (None,) * 4


def test_a_missing_library_and_a_missing_driver_are_reasons() -> None:
    def absent() -> Any:
        raise ImportError("no module")

    assert "cannot be imported" in (read_details(absent).reason or "")
    assert "does not answer" in (details(loaded=False).reason or "")


def test_adapters_are_devices_with_the_rate_of_their_wire(tmp_path: Path) -> None:
    net = tmp_path / "sys/class/net"
    for name, speed, state in (
        ("eth0", "400000", "up"),
        ("eth1", "-1", "up"),
        ("off", "1", "down"),
    ):
        (net / name / "device").mkdir(parents=True)
        (net / name / "speed").write_text(speed)
        (net / name / "operstate").write_text(state)
    (net / "lo").mkdir()
    (net / "eth0/device/numa_node").write_text("1\n")
    (tmp_path / "sys/class/infiniband/mlx5_0/device/net/eth0").mkdir(parents=True)
    # 400 Gb/s are 50 GB/s.
    assert read_adapters(tmp_path) == (Adapter("eth0", 50e9, "mlx5_0", 1), Adapter("eth1"))
    assert read_adapters(tmp_path / "none") == ()


def test_the_nominal_rate_is_lanes_times_transfers_less_the_code() -> None:
    # 32 GT/s on 16 lanes, one bit each, 128 of 130 are data: 32e9 * 16 / 8 * 128 / 130.
    assert nominal_rate("pcie", 5, 16) == pytest.approx(63.015e9, rel=1e-4)
    # 5 GT/s with ten bits a byte.
    assert nominal_rate("pcie", 2, 8) == pytest.approx(4e9)
    assert nominal_rate("storage", 5, 16) is None
    assert nominal_rate("nvlink", 99, 1) is None


def test_the_moment_is_read_from_proc_and_sys(tmp_path: Path) -> None:
    for name, text in {
        "proc/meminfo": "SwapTotal:  2048 kB\nSwapFree:  1024 kB\n",
        "proc/pressure/memory": "some avg10=0.00 avg60=12.50 avg300=1.00 total=5\nfull avg60=1\n",
        "sys/devices/system/cpu/online": "0-3\n",
        "proc/self/status": "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t1\n",
        "sys/kernel/iommu_groups/0/x": "",
        "sys/bus/pci/devices/a/class": "0x030200\n",
        "sys/bus/pci/devices/a/vendor": "0x10de\n",
        "sys/bus/pci/devices/b/class": "0x030000\n",  # another maker's
        "sys/bus/pci/devices/b/vendor": "0x1002\n",
        "sys/bus/pci/devices/c/class": "0x068000\n",  # a switch of NVIDIA's
        "sys/bus/pci/devices/c/vendor": "0x10de\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert system_now.swap(tmp_path) == (2 << 20, 1 << 20)
    assert system_now.memory_pressure(tmp_path) == 0.125
    assert (system_now.online_cpus(tmp_path), system_now.permitted_cpus(tmp_path)) == (4, 2)
    assert (system_now.memory_nodes(tmp_path), system_now.iommu_groups(tmp_path)) == ((1,), 1)
    assert system_now.nvidia_cards(tmp_path) == 1
    nothing = tmp_path / "none"
    assert system_now.nvidia_cards(nothing) == 0
    assert system_now.swap(nothing) is None
    assert system_now.memory_pressure(nothing) is None
    assert system_now.online_cpus(nothing) is None
    assert system_now.permitted_cpus(nothing) is None
    assert system_now.memory_nodes(nothing) is None
    assert system_now.iommu_groups(nothing) == 0
