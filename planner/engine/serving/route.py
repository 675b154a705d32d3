"""Which way each pair of a transfer goes, and the jobs that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.engine.backends.base import Engine
from planner.engine.serving.ends import FileEnd, MemoryEnd
from planner.engine.serving.job import Job, Way
from planner.engine.serving.parts import Chunk, Chunks, Part, joined
from planner.engine.serving.shape import Shape
from planner.errors import InputError

Pinned = Callable[[MemoryEnd], bool]
"""Whether copy engines reach some memory of the host."""


def way_of(part: Part, pinned: Pinned) -> tuple[Way, Engine | None]:
    """How a part gets from its source to its target."""
    source, target = part.source, part.target
    if isinstance(target, FileEnd):
        raise InputError("a file that is read cannot be written")
    here, there = source.gpu, target.gpu
    if here is None and there is None:
        return "host", None
    if here is None and there is not None:
        direct = isinstance(source, MemoryEnd) and pinned(source)
        return ("copy" if direct else "in"), Engine("h2d", there)
    if here is not None and there is None:
        direct = isinstance(target, MemoryEnd) and pinned(target)
        return ("copy" if direct else "out"), Engine("d2h", here)
    if here == there:
        return "copy", Engine("local", here or 0)
    return "copy", Engine("peer", here or 0, there)


def jobs_for(
    parts: Sequence[Part], shape: Shape, pinned: Pinned, budget: int, behind: Sequence[object] = ()
) -> list[Job]:
    """The jobs of all parts: those that go the same way together, in order of their first part."""
    groups: dict[tuple[Way, Engine | None], list[Part]] = {}
    for part in parts:
        if part.size:
            groups.setdefault(way_of(part, pinned), []).append(part)
    jobs = []
    for (way, engine), group in groups.items():
        size = sum(part.size for part in group)
        if way == "copy":
            # Copy engines take whole pieces; all of them stand in the queue at once, so that a
            # stream that waits for them holds up nobody else.
            whole: list[Chunk] = [tuple(joined(group))]
            own = Shape(1, 1, size, "given")
            jobs.append(Job(way, whole, own, engine, behind=tuple(behind)))
            continue
        fitted = shape.cut_to(size)
        chunks = Chunks(group, fitted.chunk_bytes)
        jobs.append(Job(way, chunks, fitted, engine, behind=tuple(behind), budget=budget))
    return jobs
