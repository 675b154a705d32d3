"""Schedules written by hand, so that a test runs exactly the strategy and shape that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from planner.engine.execute import execute
from planner.engine.progress import Progress
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import FileSource, Plan
from planner.results import Estimate, FlowSchedule, Hop, Run

KIB = 1 << 10
LINKS = {
    ("disk0", "host0"): "storage0",
    ("host0", "disk0"): "storage0",
    ("host0", "gpu0"): "pcie0",
    ("gpu0", "host0"): "pcie0",
    ("host0", "gpu1"): "pcie1",
    ("gpu1", "host0"): "pcie1",
    ("gpu0", "gpu1"): "nvlink0",
    ("gpu1", "gpu0"): "nvlink0",
    ("gpu0", "gpu0"): "",
    ("disk0", "gpu0"): "gds0",
    ("gpu0", "disk0"): "gds0",
}
"""The link between two nodes of `tests.helpers.machines.every_way`."""

WAYS: dict[str, tuple[str, ...]] = {
    "read": ("disk0 buffered host0",),
    "read direct": ("disk0 direct host0",),
    "write": ("host0 buffered disk0",),
    "write direct": ("host0 direct disk0",),
    "pageable in": ("host0 pageable gpu0",),
    "pageable out": ("gpu0 pageable host0",),
    "staged in": ("host0 staged gpu0",),
    "staged out": ("gpu0 staged host0",),
    "registered in": ("host0 registered gpu0",),
    "registered out": ("gpu0 registered host0",),
    "pinned in": ("host0 pinned gpu0",),
    "pinned out": ("gpu0 pinned host0",),
    "load": ("disk0 buffered host0 +", "host0 pinned gpu0"),
    "load direct": ("disk0 direct host0 +", "host0 pinned gpu0"),
    "load mapped": ("disk0 mmap host0", "host0 registered gpu0"),
    "load mapped staged": ("disk0 mmap host0 +", "host0 staged gpu0"),
    "load mapped pageable": ("disk0 mmap host0 +", "host0 pageable gpu0"),
    "read mapped": ("disk0 mmap host0",),
    "load stored": ("disk0 buffered host0", "host0 pinned gpu0"),
    "load stored direct": ("disk0 direct host0", "host0 pageable gpu0"),
    "save": ("gpu0 pinned host0 +", "host0 buffered disk0"),
    "save direct": ("gpu0 pinned host0 +", "host0 direct disk0"),
    "save stored direct": ("gpu0 pinned host0", "host0 direct disk0"),
    "save stored": ("gpu0 pinned host0", "host0 buffered disk0"),
    "peer": ("gpu0 peer gpu1",),
    "relay": ("gpu0 host_staged host0 +", "host0 host_staged gpu1"),
    "local": ("gpu0 local gpu0",),
    "combined in": ("host0 write_combined gpu0",),
    "load combined": ("disk0 buffered host0 +", "host0 write_combined gpu0"),
    "zero-copy in": ("host0 zero_copy gpu0",),
    "zero-copy pinned in": ("host0 zero_copy gpu0",),
    "zero-copy out": ("gpu0 zero_copy host0",),
    "load mapped zero-copy": ("disk0 mmap host0", "host0 zero_copy gpu0"),
    "load stored zero-copy": ("disk0 buffered host0", "host0 zero_copy gpu0"),
    "faults in": ("host0 managed gpu0",),
    "managed faults in": ("host0 managed gpu0",),
    "load stored faults": ("disk0 buffered host0", "host0 managed gpu0"),
    "prefetch in": ("host0 prefetch gpu0",),
    "managed prefetch in": ("host0 prefetch gpu0",),
    "managed prefetch out": ("gpu0 prefetch host0",),
    "load stored prefetch": ("disk0 buffered host0", "host0 prefetch gpu0"),
    "on host in": ("host0 managed_host gpu0",),
    "managed on host in": ("host0 managed_host gpu0",),
    "chunks in": ("host0 registered_chunks gpu0",),
    "load chunks": ("disk0 mmap host0 +", "host0 registered_chunks gpu0"),
    "load gds": ("disk0 gds gpu0",),
    "save gds": ("gpu0 gds disk0",),
}
"""Every way that the engine goes, hop by hop; `+` couples a hop with the next."""
SCATTERED: tuple[str, ...] = (
    "pinned in",
    "pinned out",
    "registered in",
    "registered out",
    "staged in",
    "staged out",
    "pageable in",
    "pageable out",
    "combined in",
    "write",
    "save",
    "peer",
    "relay",
)
"""Those whose source may lie in pieces."""
PIECES = [1, 700, 0, 4096, 65_537, 3, 300_001, *[64] * 200, (2 << 20) + 5, *range(1, 90)]
"""Pieces smaller and larger than a chunk, odd ones, and an empty one."""
SINGLE = frozenset(
    {"pageable", "peer", "local", "mmap", "zero_copy", "managed", "prefetch", "managed_host"}
)
"""Strategies of one call for all bytes."""


def schedule(
    way: str, size: int, *, chunk: int = 4 * KIB, depth: int = 2, workers: int = 2
) -> FlowSchedule:
    """The schedule of a flow `f` that goes one of `WAYS`."""
    hops = []
    for text in WAYS[way]:
        start, strategy, end, *plus = text.split()
        single = strategy in SINGLE and not plus
        hops.append(
            Hop(
                link=LINKS[start, end],
                start=start,
                end=end,
                strategy=strategy,
                chunk_bytes=max(size, 1) if single else chunk,
                depth=1 if single else depth,
                workers=1 if single else workers,
                coupled=bool(plus),
            )
        )
    cache: Literal["warm", "none"] = "warm" if way.startswith(("read", "load")) else "none"
    return FlowSchedule(flow="f", size_bytes=size, hops=tuple(hops), cache=cache)


def memory_of(way: str) -> str:
    """What the user's buffer is."""
    if "pinned" in way:
        return "pinned"
    if way == "zero-copy out":
        return "mapped"
    return "managed" if way.startswith("managed") else "pageable"


def plan_for(way: str, size: int, **more: Any) -> Plan:
    """A plan whose flow `f` goes from the first to the last node of the way."""
    hops = [text.split() for text in WAYS[way]]
    words: dict[str, Any] = {
        "from": hops[0][0],
        "to": [hops[-1][2]],
        "size": size,
        "cache": "warm",
        "memory": memory_of(way),
    }
    return Plan.model_validate({"flows": {"f": words | more}})


def predicted(plan: Plan, machine: Machine, *schedules: FlowSchedule) -> Estimate:
    """The estimate of the schedules on the machine."""
    return estimate(plan, machine, schedules={one.flow: one for one in schedules})


def run_way(
    way: str,
    size: int,
    machine: Machine,
    *,
    shape: tuple[int, int, int] = (4 * KIB, 2, 2),
    backend: Any = "host",
    samples: int = 1,
    warmup: int = 0,
    progress: Progress | None = None,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Run one of `WAYS`; `shape` is (chunk, depth, workers), `more` goes into the flow."""
    plan = plan_for(way, size, **more)
    chunk, depth, workers = shape
    made = schedule(way, size, chunk=chunk, depth=depth, workers=workers)
    return execute(
        plan,
        machine,
        estimate=predicted(plan, machine, made),
        backend=backend,
        samples=samples,
        warmup=warmup,
        progress=progress,
        **(options or {}),
    )


def noise_file(path: Path, size: int, *, offset: int = 0, seed: int = 7) -> FileSource:
    """A file of seeded noise with `size` wanted bytes from `offset` on."""
    data = np.random.Generator(np.random.SFC64(seed)).bytes(offset + size)
    path.write_bytes(data)
    return FileSource(path=str(path), offset=offset, size_bytes=size)
