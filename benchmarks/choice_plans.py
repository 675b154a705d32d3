"""Twenty plans of one size, each with a choice to make: routes, strategies, budgets, repeats.

Those that read a file read one that they share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from planner.engine.pagecache import warm
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, folder_of
from planner.machine.schema import Disk, Machine
from planner.plan.schema import FileSource, Plan

MIB = 1 << 20
DISK_SHARE = 0.25
"""Of the size, where each run waits for the disk: it is as slow for all ways, and the machine's
time is dear."""


def plans(size: int) -> dict[str, Mapping[str, Any]]:
    """The flow of each plan, by the plan's name."""
    into = {"from": "host0", "to": "gpu0", "size": size}
    out = {"from": "gpu0", "to": "host0", "size": size}
    file = {"from": "disk0", "to": "gpu0", "cache": "warm", "size": size}
    few = {"budget": {"cores": 2}}
    pinned = {"memory": "pinned"}
    slow = int(size * DISK_SHARE)
    use = {"fraction": 0.25, "pattern": "strided"}
    return {
        "file": file,
        "file, 4 times": {**file, "repeat": 4},
        "file, 2 cores": {**file, **few},
        "file, 5 cores": {**file, "budget": {"cores": 5}},
        "file, 32 MiB pinned": {**file, "budget": {"pinned": 32 * MIB}},
        "file in 100,003 pieces": {**file, "pieces": {"count": 100_003}},
        "file to host": {**file, "to": "host0"},
        "file, cold": {**file, "cache": "cold", "size": slow},
        "memory": into,
        "memory, 4 times": {**into, "repeat": 4},
        "memory, 2 cores": {**into, **few},
        "memory, 32 MiB pinned": {**into, "budget": {"pinned": 32 * MIB}, "repeat": 3},
        "pinned memory": {**into, **pinned},
        "mapped memory, a quarter touched": {**into, "memory": "mapped", "use": use},
        "managed memory": {**into, "memory": "managed"},
        "out": out,
        "out, 4 times": {**out, "repeat": 4},
        "out, 2 cores": {**out, **few},
        "out to pinned": {**out, **pinned},
        "out to file": {**out, "to": "disk0", "size": slow},
    }


def plan_of(name: str, words: Mapping[str, Any], source: FileSource) -> Plan:
    """The plan; what comes from a disk reads the shared file from its start."""
    flow = dict(words)
    if flow["from"].startswith("disk"):
        flow["files"] = (source.model_copy(update={"size_bytes": flow["size"]}),)
    return Plan.model_validate({"name": name, "flows": {"move": flow}})


@contextlib.contextmanager
def shared_file(machine: Machine, size: int) -> Iterator[FileSource]:
    """The file of all disk plans, in the page cache; removed on every way out."""
    disk = next(node for node in machine.nodes.values() if isinstance(node, Disk))
    scratch = Scratch(folder_of(disk.path), "choice", size, Pattern(3))
    with contextlib.closing(scratch):
        source = scratch.write(sync=True)
        warm([source])
        yield source
