"""Schedules of flows over several ways at once, and of copies that are passed on, by hand."""

from __future__ import annotations

from typing import Any, Literal

from planner.engine.execute import execute
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from planner.results import Estimate, FlowSchedule, Hop, Run, SplitPart
from tests.helpers.schedules import LINKS

SPLITS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pinned": ("pinned", ("host0 pinned gpu0", "host0 pinned gpu1 + gpu1 peer gpu0")),
    "pageable": ("pageable", ("host0 staged gpu0", "host0 staged gpu1 + gpu1 peer gpu0")),
    "by the driver": ("pageable", ("host0 pageable gpu0", "host0 pageable gpu1 + gpu1 peer gpu0")),
    "beside registered": (
        "pageable",
        ("host0 registered gpu0", "host0 staged gpu1 + gpu1 peer gpu0"),
    ),
    "file": (
        "disk",
        (
            "disk0 buffered host0 + host0 pinned gpu0",
            "disk0 buffered host0 + host0 pinned gpu1 + gpu1 peer gpu0",
        ),
    ),
    "file direct beside buffered": (
        "disk",
        (
            "disk0 direct host0 + host0 pinned gpu0",
            "disk0 buffered host0 + host0 pinned gpu1 + gpu1 peer gpu0",
        ),
    ),
    "out": ("out", ("gpu0 pinned host0", "gpu0 peer gpu1 + gpu1 pinned host0")),
}
"""The memory of the user, and the hops of each way; `+` couples a hop with the next."""

Shape = tuple[int, int, int]


def hops(text: str, shape: Shape) -> tuple[Hop, ...]:
    """The hops of one way, all with one shape."""
    chunk, depth, workers = shape
    words = [part.split() for part in text.split(" + ")]
    return tuple(
        Hop(
            link=LINKS[start, end],
            start=start,
            end=end,
            strategy=strategy,
            chunk_bytes=chunk,
            depth=depth,
            workers=workers,
            coupled=k < len(words) - 1,
        )
        for k, (start, strategy, end) in enumerate(words)
    )


def split_plan(name: str, size: int, **more: Any) -> Plan:
    """A plan with one flow `f` between the ends of the split."""
    memory, ways = SPLITS[name]
    words: dict[str, Any] = {"from": ways[0].split()[0], "to": [ways[0].split()[-1]], "size": size}
    if memory == "disk":
        words["cache"] = "warm"
    else:
        words["memory"] = "pageable" if memory == "pageable" else "pinned"
    return Plan.model_validate({"flows": {"f": words | more}})


def split_schedule(name: str, size: int, shapes: tuple[Shape, Shape]) -> FlowSchedule:
    """Both ways, with half of the bytes predicted for each, one at least."""
    memory, ways = SPLITS[name]
    halves = (size - size // 2, max(1, size // 2))
    parts = tuple(
        SplitPart(share_bytes=share, hops=hops(way, shape))
        for way, shape, share in zip(ways, shapes, halves, strict=True)
    )
    cache: Literal["warm", "none"] = "warm" if memory == "disk" else "none"
    return FlowSchedule(flow="f", size_bytes=size, hops=parts[0].hops, cache=cache, parts=parts)


def run_split(
    name: str,
    size: int,
    machine: Machine,
    shapes: tuple[Shape, Shape],
    *,
    backend: Any = "host",
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Run:
    """Run one of `SPLITS`; `more` goes into the flow."""
    plan = split_plan(name, size, **more)
    made = split_schedule(name, size, shapes)
    prediction = estimate(plan, machine, schedules={"f": made})
    given = {"samples": 1, "warmup": 0} | (options or {})
    return execute(plan, machine, estimate=prediction, backend=backend, **given)


def fan_out(
    machine: Machine,
    size: int,
    gpus: int,
    fan: Literal["tree", "chain"],
    *,
    chunk: int,
    **more: Any,
) -> tuple[Plan, Estimate]:
    """The same bytes of a file for several GPUs: read once, to the first, and passed on."""
    names = [f"gpu{k}" for k in range(gpus)]
    words: dict[str, Any] = {
        "from": "disk0",
        "to": names,
        "copy": "replicate",
        "size": size,
        "cache": "warm",
    }
    plan = Plan.model_validate({"flows": {"w": words | more}})
    first = hops("disk0 buffered host0 + host0 pinned gpu0", (chunk, 2, 2))
    made = {"w[gpu0]": FlowSchedule(flow="w[gpu0]", size_bytes=size, hops=first, cache="warm")}
    latest: dict[int, str] = {}
    for k in range(1, gpus):
        parent = k - 1 if fan == "chain" else k - (1 << (k.bit_length() - 1))
        low, high = sorted((parent, k))
        hop = Hop(
            link=f"nvlink{low}{high}",
            start=f"gpu{parent}",
            end=f"gpu{k}",
            strategy="peer",
            chunk_bytes=chunk if fan == "chain" else max(size, 1),
            depth=2 if fan == "chain" else 1,
        )
        name = f"w[gpu{k}]"
        made[name] = FlowSchedule(
            flow=name,
            size_bytes=size,
            hops=(hop,),
            cache="warm",
            copy_of=f"w[gpu{parent}]",
            fan=fan,
            behind=latest.get(parent) if fan == "tree" else None,
        )
        latest[parent] = name
    return plan, estimate(plan, machine, schedules=made)
