"""The plans that predictions are held against: what a calibration has not visited.

Sizes are drawn once, log-uniform and odd, so that none lies on a grid; shapes are ones that no
joint run of a calibration uses. The draw is seeded: every run has the same matrix.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
SEED = 20261129
WARM_BYTES = 2_100_000_007
"""Of the file that stays in the page cache: the largest flow out of it."""
COLD_BYTES = 260_000_003
"""Of the file that is dropped before each sample: at 1.5 GB/s, a guest's disk, 0.17 s a read."""

Words = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A plan of the matrix.

    `file` says which of the two shared files the flows read (`warm`, `cold`). `quiet` cases disturb
    no others; the rest (cold reads, writes) are measured after them. `split` allows several ways
    at once, `whole` judges the makespan as well: a flow and its compute block in step.
    """

    name: str
    family: str
    flows: Mapping[str, Words]
    compute: Mapping[str, Words] = field(default_factory=dict)
    file: str = ""
    quiet: bool = True
    split: bool = False
    whole: bool = False

    @property
    def gpus(self) -> frozenset[str]:
        """The GPUs at the ends of its flows, or pinned on their routes."""
        found: set[str] = set()
        for words in self.flows.values():
            for end in (words["from"], words["to"], words.get("route", ())):
                found.update([end] if isinstance(end, str) else end)
        return frozenset(name for name in found if name.startswith("gpu"))


class _Draw:
    """Sizes off the grid."""

    def __init__(self, scale: float) -> None:
        self._random = random.Random(SEED)  # noqa: S311 - a seeded draw is the point
        self._scale = scale

    def sizes(self, count: int, low: float, high: float) -> list[int]:
        """`count` odd sizes, one in each of as many equal parts of log(low) … log(high)."""
        step = (math.log(high) - math.log(low)) / count
        marks = [math.log(low) + step * (k + self._random.random()) for k in range(count)]
        return [max(4097, int(math.exp(mark) * self._scale)) | 1 for mark in marks]


def cases(gpus: int, scale: float = 1.0, cores: int = 16) -> list[Case]:
    """The matrix for a machine with so many GPUs and cores; sizes times `scale`."""
    draw = _Draw(scale)
    found = [*_into_gpu(draw), *_out_of_gpu(draw), *_shapes(draw, cores), *_files(draw, cores)]
    found += [*_cold(draw), *_saves(draw), *_inside(draw), *_together(draw), *_compute(draw)]
    if gpus > 1:
        found += [*_peers(draw), *_two_links(draw), *_fans(draw)]
    return found


def _one(family: str, number: int, words: Words, **more: Any) -> Case:
    return Case(f"{family} {number}", family, {"move": words}, **more)


def _each(family: str, sizes: list[int], words: Words, **more: Any) -> Iterator[Case]:
    for number, size in enumerate(sizes, 1):
        yield _one(family, number, {**words, "size": size}, **more)


def _into_gpu(draw: _Draw) -> Iterator[Case]:
    """Host memory to GPU by every strategy."""
    into = {"from": "host0", "to": "gpu0"}
    yield from _each("h2d pinned", draw.sizes(12, 20e3, 1.9e9), {**into, "memory": "pinned"})
    for name in ("staged", "registered", "write_combined", "managed", "prefetch", "managed_host"):
        low, count = (6e6, 9) if name == "staged" else (2e6, 4)
        sizes = draw.sizes(count, low, 1.2e9 if name == "staged" else 6e8)
        yield from _each(f"h2d {name}", sizes, {**into, "strategy": name})
    yield from _each("h2d pageable cold", draw.sizes(5, 9e5, 5e8), {**into, "strategy": "pageable"})
    hot = {**into, "strategy": "pageable", "source": "hot"}
    yield from _each("h2d pageable hot", draw.sizes(3, 3e5, 7e6), hot)
    mapped = {**into, "memory": "mapped", "strategy": "zero_copy"}
    yield from _each("h2d zero_copy", draw.sizes(5, 1e5, 9e8), mapped)
    for number, (fraction, pattern) in enumerate([(0.5, "strided"), (0.1, "random")], 1):
        use = {"fraction": fraction, "pattern": pattern}
        size = draw.sizes(1, 1e8, 5e8)[0]
        yield _one("h2d zero_copy part", number, {**mapped, "size": size, "use": use})
        managed = {**into, "memory": "managed", "strategy": "managed"}
        yield _one("h2d managed part", number, {**managed, "size": size, "use": use})


def _out_of_gpu(draw: _Draw) -> Iterator[Case]:
    """GPU to host memory by every strategy."""
    out = {"from": "gpu0", "to": "host0"}
    yield from _each("d2h pinned", draw.sizes(9, 20e3, 1.5e9), {**out, "memory": "pinned"})
    yield from _each("d2h pageable", draw.sizes(5, 9e5, 6e8), {**out, "strategy": "pageable"})
    yield from _each("d2h staged", draw.sizes(6, 6e6, 9e8), {**out, "strategy": "staged"})
    yield from _each("d2h registered", draw.sizes(3, 2e6, 6e8), {**out, "strategy": "registered"})
    mapped = {**out, "memory": "mapped", "strategy": "zero_copy"}
    yield from _each("d2h zero_copy", draw.sizes(4, 1e5, 6e8), mapped)
    managed = {**out, "memory": "managed", "strategy": "prefetch"}
    yield from _each("d2h prefetch", draw.sizes(3, 2e6, 4e8), managed)


def _shapes(draw: _Draw, cores: int) -> Iterator[Case]:
    """Rings that no calibration uses, into and out of the GPU, and cut pinned copies."""
    grid = [(3, 5, 2), (5, 3, 2), (6, 10, 2), (7, 6, 1), (9, 2, 2), (11, 7, 2), (13, 3, 1)]
    grid += [(3, 20, 3), (10, 12, 2), (15, 5, 2)]
    for number, (workers, mebi, depth) in enumerate(grid, 1):
        shape = {"workers": min(workers, cores), "chunk": mebi * MIB, "depth": depth}
        size = draw.sizes(1, 4e8, 1.1e9)[0]
        words = {"from": "host0", "to": "gpu0", "strategy": "staged", "size": size, **shape}
        yield _one("h2d staged shape", number, words)
        if number % 2:
            back = {"from": "gpu0", "to": "host0", "strategy": "staged", "size": size, **shape}
            yield _one("d2h staged shape", number, back)
    for number, mebi in enumerate([1, 3, 7, 21], 1):
        words = {"from": "host0", "to": "gpu0", "memory": "pinned", "chunk": mebi * MIB, "depth": 2}
        yield _one("h2d pinned cut", number, {**words, "size": draw.sizes(1, 3e8, 9e8)[0]})


def _files(draw: _Draw, cores: int) -> Iterator[Case]:
    """A cached file: chosen, by shapes, mapped, in pieces, and with few cores."""
    into: dict[str, Any] = {"from": "disk0", "to": "gpu0", "cache": "warm"}
    warm: dict[str, Any] = {"file": "warm"}
    yield from _each("file warm", draw.sizes(7, 5e6, 2e9), into, **warm)
    grid = [(3, 5, 2), (5, 6, 2), (7, 3, 2), (9, 7, 1), (11, 3, 2), (14, 5, 2), (6, 14, 2)]
    for number, (workers, mebi, depth) in enumerate(grid, 1):
        shape = {"workers": min(workers, cores), "chunk": mebi * MIB, "depth": depth}
        hops = {"disk0 -> host0": "buffered", "host0 -> gpu0": "pinned"}
        words = {**into, **shape, "strategy": hops, "size": draw.sizes(1, 5e8, 1.5e9)[0]}
        yield _one("file warm shape", number, words, **warm)
    for name in ("registered", "registered_chunks", "zero_copy", "pageable", "staged"):
        hops = {"disk0 -> host0": "mmap", "host0 -> gpu0": name}
        sizes = draw.sizes(3, 2e7, 7e8)
        yield from _each(f"file mapped {name}", sizes, {**into, "strategy": hops}, **warm)
    for number, count in enumerate([37, 1_009, 20_011, 100_003], 1):
        size = draw.sizes(1, 4e8, 1.2e9)[0]
        words = {**into, "size": size, "pieces": {"count": count}}
        yield _one("file pieces", number, words, **warm)
    for number, few in enumerate([1, 2, 5], 1):
        words = {**into, "size": draw.sizes(1, 4e8, 1e9)[0], "budget": {"cores": few}}
        yield _one("file few cores", number, words, **warm)
    yield from _each("file to host", draw.sizes(4, 8e6, 7e8), {**into, "to": "host0"}, **warm)
    part = {**into, "cache": 0.5, "size": draw.sizes(1, 1e8, 2e8)[0]}
    yield _one("file partly", 1, part, file="cold", quiet=False)


def _cold(draw: _Draw) -> Iterator[Case]:
    """A file that is on the disk only."""
    cold: dict[str, Any] = {"from": "disk0", "to": "gpu0", "cache": "cold"}
    rest: dict[str, Any] = {"file": "cold", "quiet": False}
    yield from _each("file cold", draw.sizes(4, 2e7, 2.5e8), cold, **rest)
    for name in ("buffered", "direct"):
        hops = {"disk0 -> host0": name, "host0 -> gpu0": "pinned"}
        sizes = draw.sizes(2, 5e7, 2.5e8)
        yield from _each(f"file cold {name}", sizes, {**cold, "strategy": hops}, **rest)
    yield from _each("file cold to host", draw.sizes(2, 3e7, 2e8), {**cold, "to": "host0"}, **rest)
    gds = {**cold, "strategy": "gds"}
    yield from _each("file gds", draw.sizes(1, 1e8, 2e8), gds, **rest)


def _saves(draw: _Draw) -> Iterator[Case]:
    """Into a file."""
    save = {"from": "gpu0", "to": "disk0"}
    yield from _each("d2h to file", draw.sizes(4, 1e7, 3e8), save, quiet=False)
    waits = {**save, "fsync": True}
    for name in ("buffered", "direct"):
        hops = {"host0 -> disk0": name}
        yield from _each(
            f"d2h to disk {name}", draw.sizes(2, 5e7, 3e8), {**waits, "strategy": hops}, quiet=False
        )
    keep = {"from": "host0", "to": "disk0"}
    yield from _each("host to file", draw.sizes(2, 1e7, 3e8), keep, quiet=False)


def _inside(draw: _Draw) -> Iterator[Case]:
    """Within one GPU's memory."""
    inside = {"from": "gpu0", "to": "gpu0"}
    yield from _each("local", draw.sizes(3, 1e6, 9e8), inside)


def _together(draw: _Draw) -> Iterator[Case]:
    """Two flows at once: opposite directions, and the same one."""
    pinned = {"memory": "pinned"}
    into = {"from": "host0", "to": "gpu0"}
    out = {"from": "gpu0", "to": "host0"}
    for number in range(1, 6):
        low, high = draw.sizes(2, 5e7, 9e8)
        both = {"in": {**into, **pinned, "size": low}, "out": {**out, **pinned, "size": high}}
        yield Case(f"duplex pinned {number}", "duplex pinned", both)
    for number in range(1, 3):
        size, other = draw.sizes(2, 2e8, 9e8)
        both = {
            "in": {**into, "strategy": "staged", "size": size},
            "out": {**out, **pinned, "size": other},
        }
        yield Case(f"duplex staged {number}", "duplex staged", both)
    for number in range(1, 4):
        size, other = draw.sizes(2, 6e7, 8e8)
        both = {"one": {**into, **pinned, "size": size}, "two": {**into, **pinned, "size": other}}
        yield Case(f"one link {number}", "one link", both)
    for number in range(1, 3):
        size, other = draw.sizes(2, 2e8, 9e8)
        file = {"from": "disk0", "to": "gpu0", "cache": "warm", "size": size}
        both = {"file": file, "memory": {**into, "strategy": "staged", "size": other}}
        yield Case(f"two rings {number}", "two rings", both, file="warm")


def _compute(draw: _Draw) -> Iterator[Case]:
    """A kernel beside a copy, and repeats in step with one."""
    into = {"from": "host0", "to": "gpu0", "memory": "pinned"}
    for number, time in enumerate([0.004, 0.011, 0.023], 1):
        words = {**into, "size": draw.sizes(1, 2e8, 9e8)[0]}
        block = {"kernel": {"gpu": "gpu0", "time": time}}
        yield Case(f"beside a kernel {number}", "beside a kernel", {"move": words}, block)
    for number, time in enumerate([0.0013, 0.0029, 0.0047, 0.0083], 1):
        words = {**into, "size": draw.sizes(1, 8e7, 3e8)[0], "repeat": 7, "buffers": 2}
        block = {"kernel": {"gpu": "gpu0", "time": time, "after": ["move"], "repeat": 7}}
        yield Case(f"in step {number}", "in step", {"move": words}, block, whole=True)


def _peers(draw: _Draw) -> Iterator[Case]:
    """From GPU to GPU."""
    there, back = {"from": "gpu0", "to": "gpu1"}, {"from": "gpu1", "to": "gpu0"}
    yield from _each("peer", draw.sizes(7, 3e4, 1.9e9), {**there, "strategy": "peer"})
    yield from _each("peer back", draw.sizes(3, 1e6, 9e8), {**back, "strategy": "peer"})
    staged = draw.sizes(4, 5e6, 7e8)
    yield from _each("host_staged", staged, {**there, "strategy": "host_staged"})
    for number in range(1, 4):
        size, other = draw.sizes(2, 1e8, 1.5e9)
        both = {"there": {**there, "size": size}, "back": {**back, "size": other}}
        yield Case(f"duplex peer {number}", "duplex peer", both)


def _two_links(draw: _Draw) -> Iterator[Case]:
    """Two links at once, for two GPUs and for one."""
    for memory in ("pinned", "pageable"):
        for number in range(1, 5):
            size, other = draw.sizes(2, 1e8, 9e8)
            into = {"from": "host0", "memory": memory}
            both = {"one": {**into, "to": "gpu0", "size": size}}
            both["two"] = {**into, "to": "gpu1", "size": other}
            yield Case(f"two gpus {memory} {number}", f"two gpus {memory}", both)
        words = {"from": "host0", "to": "gpu0", "memory": memory}
        yield from _each(f"split {memory}", draw.sizes(4, 1e8, 1.5e9), words, split=True)
    file = {"from": "disk0", "to": "gpu0", "cache": "warm"}
    yield from _each("split file", draw.sizes(3, 2e8, 1.8e9), file, file="warm", split=True)
    for number in range(1, 4):
        size, other = draw.sizes(2, 1e8, 9e8)
        both = {"in": {"from": "host0", "to": "gpu0", "memory": "pinned", "size": size}}
        both["out"] = {"from": "gpu1", "to": "host0", "memory": "pinned", "size": other}
        yield Case(f"crossed {number}", "crossed", both)


def _fans(draw: _Draw) -> Iterator[Case]:
    """The same bytes, or a share of them, for each of two GPUs."""
    every = {"from": "host0", "to": ["gpu0", "gpu1"], "memory": "pinned"}
    yield from _each("replicate", draw.sizes(3, 1e8, 9e8), every, split=True)
    yield from _each("shard", draw.sizes(3, 1e8, 9e8), {**every, "copy": "shard"}, split=True)
