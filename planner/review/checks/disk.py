"""Disks: where scratch files go, and whether GPUs can read files directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.machine.observation import Observation, Scratch, Storage
from planner.machine.system import FileSystem
from planner.results.doctor import Finding
from planner.review.checks.base import about_of, found, measured, need, require_gpus
from planner.units import format_rate, format_size

IN_MEMORY: Final = ("tmpfs", "ramfs")
OVER_NETWORK: Final = (
    *("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "fuse.sshfs"),
    *("fuse.gcsfuse", "fuse.s3fs", "fuse.juicefs"),
)
LAYERED: Final = ("overlay", "overlayfs", "aufs", "fuse-overlayfs")
LEAST: Final = 1 << 30
"""Bytes that a run of any size wants to spare."""
WANTED: Final = 10 << 30
"""Bytes that `planner calibrate --full` and larger runs want: 8 GiB of scratch file, and some."""
SLOW: Final = 0.5e9
"""Bytes/s below which a disk is slower than any NVMe, and than most network storage for GPUs."""


def scratch(seen: Observation) -> Iterator[Finding]:
    """The folder of scratch files: there, writable, with room, on a disk that can be judged."""
    place: Scratch = need(seen, "scratch")
    if not place.exists or not place.writable:
        what = "cannot be written" if place.exists else "does not exist"
        yield found(
            "problem",
            place.folder,
            f"the folder of scratch files {what}",
            why="flows from a disk without a file, and calibrations, need one",
            mend="set TMPDIR to a folder on the disk that matters",
        )
        return
    system = about_of(seen).filesystem
    if system is not None:
        yield from _system(place.folder, system)
    machine = measured(seen)
    for name, link in machine.links.items() if machine is not None else ():
        reads = link.forward
        if link.kind == "storage" and reads is not None and reads.rate < SLOW:
            yield found(
                "warning",
                name,
                f"cold reads of the disk reach {format_rate(reads.rate)}",
                why=f"10 GB that are not cached take {10e9 / reads.rate:.0f} s, whatever the GPU",
                mend="keep weights on local NVMe, several disks, or in the page cache",
            )


def _system(folder: str, system: FileSystem) -> Iterator[Finding]:
    """What its file system means for measurements."""
    if system.kind in IN_MEMORY:
        yield found(
            "warning",
            folder,
            f"scratch files lie in memory ({system.kind})",
            why="their pages cannot be dropped from the cache, direct reads are refused (before "
            "Linux 6.6) or no reads at all, and they take memory: nothing says how the disk is",
            mend="TMPDIR=/path/on/the/disk planner calibrate, or --scratch DIR",
        )
    elif system.kind in OVER_NETWORK:
        yield found(
            "note",
            folder,
            f"scratch files lie on a network or shared file system ({system.kind})",
            why="it is measured with whatever others do there; a server's cache makes cold warm",
            mend="TMPDIR or --scratch for a local disk, where that is what is meant",
        )
    elif system.kind in LAYERED:
        yield found(
            "note",
            folder,
            f"scratch files lie on a container's layer ({system.kind})",
            why="its own residency is hidden, and writing a file of a lower layer copies it first",
            mend="mount a volume, and name it with TMPDIR or --scratch",
        )
    free = system.free_bytes
    if free is not None and free < WANTED and system.kind not in IN_MEMORY:
        yield found(
            "problem" if free < LEAST else "note",
            folder,
            f"{format_size(free)} are free on {system.mount}",
            why="a full calibration wants a scratch file of 8 GiB; runs are refused where theirs "
            "does not fit",
            mend="make room, or take another disk with TMPDIR",
        )


def gds(seen: Observation) -> Iterator[Finding]:
    """Whether GPUDirect Storage is there; without it the strategy gds is waived."""
    storage: Storage = need(seen, "storage")
    require_gpus(seen)
    if storage.module and storage.kvikio:
        return
    missing = (
        "the kernel has no GPUDirect Storage driver (module nvidia-fs)"
        if not storage.module
        else "KvikIO is not installed"
    )
    yield found(
        "note",
        "GPUDirect Storage",
        f"{missing}: the strategy gds is waived",
        why="files reach the GPU through a ring in host memory, which is often as fast",
        mend="install nvidia-fs (package nvidia-gds) on the host"
        if not storage.module
        else "pip install 'planner[gds12]' or [gds13]",
    )
