from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.machine import system
from planner.machine.discover import Discovery, discover
from planner.machine.discover_gpus import read_gpus

GiB = 2**30
FILES = {
    "proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-3,8\n",
    "proc/self/cgroup": "0::/job/step\n",
    "proc/self/limits": "Max locked memory         8388608    unlimited    bytes\n",
    "proc/meminfo": "MemTotal:       33554432 kB\nMemFree:  1 kB\n",
    "proc/sys/kernel/osrelease": "6.8.0-test\n",
    "proc/cpuinfo": "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon X\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/node/node0/cpulist": "0-7\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  16777216 kB\n",
    "sys/devices/system/node/node1/cpulist": "8-15\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "48K\n",
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
    "sys/fs/cgroup/memory.max": "max\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    for cpu, sharers in ((0, "0-3"), (1, "0-3"), (2, "0-3"), (3, "0-3"), (8, "8-15")):
        index = f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        write(
            tmp_path,
            {
                f"{index}/size": "307200K\n",
                f"{index}/level": "3\n",
                f"{index}/type": "Unified\n",
                f"{index}/shared_cpu_list": f"{sharers}\n",
            },
        )
    write(
        tmp_path,
        {
            "proc/self/mounts": "rootfs / ext4 rw 0 0\nbroken\n"
            f"/dev/a {tmp_path} overlay rw 0 0\n"
            f"/dev/b {str(tmp_path).replace('-', chr(92) + '055')} xfs rw 0 0\n"
            f"/dev/c {tmp_path}/other ext4 rw 0 0\n"
        },
    )
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def absent() -> Any:
    raise ImportError("no module")


class FakeError(Exception):
    """The library's own error."""


class FakeLibrary:
    """Two GPUs, the second of which knows nothing of its PCIe link."""

    NVMLError = FakeError

    def __init__(self, *, count: int = 2, driver: str | None = "580.1") -> None:
        self.count = count
        self.driver = driver
        self.open = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        if self.driver is None:
            raise FakeError("Driver Not Loaded")
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open = False

    def __getattr__(self, name: str) -> Any:
        if name == "nvmlDeviceGetPciInfo":
            return lambda handle: SimpleNamespace(busId=f"00000000:{handle}A:00.0".encode())
        if "Pcie" in name:
            return self._pcie
        return {
            "nvmlSystemGetDriverVersion": (self.driver or "").encode,
            "nvmlDeviceGetCount": lambda: self.count,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda _: "NVIDIA H200",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=141 * 10**9),
        }[name]

    def _pcie(self, handle: int) -> int:
        if handle == 1:
            raise FakeError("Not Supported")
        return 5


def found(root: Path, **changes: Any) -> Discovery:
    return discover(root, root=root, **{"nvml": absent, **changes})


def test_a_computer_is_described(root: Path) -> None:
    here = found(root)
    assert (here.cores, here.quota, here.kernel) == (5, None, "6.8.0-test")
    assert here.cpu == "Xeon X (family 6, model 207)"
    assert here.cache == system.Cache(300 * 2**20, 2)  # CPUs 0 to 3 share one, CPU 8 has another
    assert here.numa == (
        system.NumaNode(0, (0, 1, 2, 3), 16 * GiB),
        system.NumaNode(1, (8,), None),
    )
    assert (here.memory_bytes, here.memory_limit_bytes) == (32 * GiB, None)
    assert (here.locked_limit_bytes, here.huge_pages) == (8 * 2**20, "madvise")
    assert here.gpus == ()
    assert "cannot be imported" in (here.no_gpu or "")


def test_the_last_mount_on_the_longest_path_holds_the_file(root: Path) -> None:
    disk = system.file_system(root, root / "not" / "there" / "yet")
    assert disk is not None
    assert (disk.kind, disk.device, disk.mount) == ("xfs", "/dev/b", str(root))
    assert disk.free_bytes is not None
    assert disk.total_bytes is not None
    assert 0 < disk.free_bytes <= disk.total_bytes
    other = system.file_system(root, Path("/"))
    assert other is not None
    assert (other.kind, other.mount) == ("ext4", "/")


@pytest.mark.parametrize(
    ("files", "quota", "cores"),
    [
        ({"sys/fs/cgroup/job/step/cpu.max": "max 100000"}, None, 5),
        ({"sys/fs/cgroup/job/step/cpu.max": "250000 100000"}, 2.5, 2),
        ({"sys/fs/cgroup/job/step/cpu.max": "50000 100000"}, 0.5, 1),
        ({"sys/fs/cgroup/job/step/cpu.max": "900000 100000"}, 9.0, 5),
        # A group around this one may be tighter.
        (
            {
                "sys/fs/cgroup/job/step/cpu.max": "400000 100000",
                "sys/fs/cgroup/job/cpu.max": "300000 100000",
            },
            3.0,
            3,
        ),
        # Inside a container the path of the group may not exist: the top is the group.
        ({"sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0, 2),
        # Version 1, both spellings of the mount.
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            4.0,
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
            5,
        ),
    ],
)
def test_cores_are_the_allowed_ones_cut_to_the_quota(
    root: Path, files: dict[str, str], quota: float | None, cores: int
) -> None:
    write(root, files)
    here = found(root)
    assert (here.quota, here.cores) == (quota, cores)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"sys/fs/cgroup/job/step/memory.max": str(4 * GiB)}, 4 * GiB),
        (
            {
                "sys/fs/cgroup/job/step/memory.max": "max",
                "sys/fs/cgroup/job/memory.max": str(8 * GiB),
            },
            8 * GiB,
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/a\n0::/\n",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(2 * GiB),
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            2 * GiB,
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            None,
        ),
    ],
)
def test_the_tightest_memory_limit_counts(
    root: Path, files: dict[str, str], limit: int | None
) -> None:
    write(root, files)
    here = found(root)
    assert here.memory_limit_bytes == limit
    assert here.usable_memory_bytes == (32 * GiB if limit is None else limit)


def test_a_guest_that_grows_keeps_the_largest_memory_that_was_seen(root: Path) -> None:
    assert found(root, largest_memory=255 * GiB).memory_bytes == 255 * GiB
    assert found(root, largest_memory=GiB).memory_bytes == 32 * GiB


def test_where_nothing_can_be_read_everything_is_unknown(tmp_path: Path) -> None:
    here = found(tmp_path)
    assert here.cores == 1
    assert here.numa == (system.NumaNode(0, (), None),)
    unknown = (
        here.cpu,
        here.cache,
        here.memory_bytes,
        here.usable_memory_bytes,
        here.locked_limit_bytes,
        here.huge_pages,
        here.kernel,
        here.filesystem,
    )
    assert unknown == (None,) * 8


def test_gpus_are_described_as_far_as_the_driver_knows(root: Path) -> None:
    write(root, {"sys/bus/pci/devices/0000:0a:00.0/numa_node": "1\n"})
    library = FakeLibrary()
    here = found(root, nvml=lambda: library)
    assert (here.driver, here.no_gpu, library.open) == ("580.1", None, False)
    first, second = here.gpus
    assert (first.name, first.uuid, first.memory_bytes) == ("NVIDIA H200", "GPU-0", 141 * 10**9)
    assert (first.bus, first.numa) == ("00000000:0a:00.0", 1)
    assert (first.generation, first.width, first.max_generation, first.max_width) == (5, 5, 5, 5)
    assert (second.generation, second.max_width, second.numa) == (None, None, None)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"driver": None}, "driver does not answer: Driver Not Loaded"),
        ({"count": 0}, "shows no GPU"),
    ],
)
def test_no_gpu_has_a_reason(root: Path, what: dict[str, Any], reason: str) -> None:
    gpus = read_gpus(root, lambda: FakeLibrary(**what))
    assert gpus.gpus == ()
    assert reason in (gpus.reason or "")


def test_a_gpu_without_an_address_has_no_numa_node(root: Path) -> None:
    library = FakeLibrary(count=1)

    def unknown(_: int) -> None:
        raise FakeError("Not Supported")

    library.nvmlDeviceGetPciInfo = unknown  # type: ignore[attr-defined]
    (gpu,) = read_gpus(root, lambda: library).gpus
    assert (gpu.bus, gpu.numa) == (None, None)


def test_a_file_system_that_does_not_tell_its_space_is_still_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.statvfs", fail)
    disk = system.file_system(root, root)
    assert disk == system.FileSystem(str(root), "xfs", "/dev/b", None, None)


def test_a_driver_that_fails_on_the_way_is_a_reason_and_is_closed(root: Path) -> None:
    library = FakeLibrary()

    def fail() -> int:
        raise FakeError("GPU is lost")

    library.nvmlDeviceGetCount = fail  # type: ignore[attr-defined]
    gpus = read_gpus(root, lambda: library)
    assert "GPU is lost" in (gpus.reason or "")
    assert not library.open


def test_the_fingerprint_follows_what_a_calibration_depends_on(root: Path) -> None:
    here = found(root, nvml=FakeLibrary)
    assert here.fingerprint() == found(root, nvml=FakeLibrary).fingerprint()
    assert len(here.fingerprint()) == 16
    changed = [
        replace(here, gpus=here.gpus[:1]),
        replace(here, driver="581"),
        replace(here, kernel="6.9"),
        replace(here, cpu="other"),
        replace(here, cores=4),
        replace(here, memory_limit_bytes=GiB),
        replace(here, locked_limit_bytes=None),
        replace(here, huge_pages="never"),
        replace(here, filesystem=None),
    ]
    prints = {one.fingerprint() for one in (here, *changed)}
    assert len(prints) == len(changed) + 1
    # Which GPUs CUDA shows, and in which order, where somebody says so.
    assert here.fingerprint([None, None]) == here.fingerprint()
    some = {here.fingerprint(shown) for shown in (["0", None], ["1", None], [None, "PCI_BUS_ID"])}
    assert len(some - prints) == 3


def test_the_fingerprint_ignores_what_changes_by_itself(root: Path) -> None:
    here = found(root, nvml=FakeLibrary)
    disk = here.filesystem
    assert disk is not None
    idle = replace(here.gpus[0], generation=1, width=4)
    moved = replace(
        here,
        gpus=(idle, here.gpus[1]),
        memory_bytes=64 * GiB,
        filesystem=replace(disk, free_bytes=1),
    )
    assert moved.fingerprint() == here.fingerprint()


@pytest.mark.parametrize(
    ("text", "cpus"), [("", ()), ("3", (3,)), ("0-2,7", (0, 1, 2, 7)), ("5,1-2", (1, 2, 5))]
)
def test_cpu_lists_are_read_like_the_kernel_writes_them(text: str, cpus: tuple[int, ...]) -> None:
    assert system.cpu_list(text) == cpus


def test_this_computer_can_be_asked() -> None:
    here = discover(Path.cwd())
    assert here.cores >= 1
    assert bool(here.gpus) == (here.no_gpu is None)
