"""The shape that the calibration of this computer asks for, planned once for each class of sizes.

Planning loads the model's libraries and takes a third of a second; a read of the answer from the
last time takes none. So answers are kept beside the calibrations, for as long as those stay; those
of usual sizes are planned by the calibration itself.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from planner.engine.folder import cache_folder
from planner.engine.serving.shape import Shape

if TYPE_CHECKING:
    from planner.machine.schema import Machine

Source = Literal["warm", "cold", "memory"]
USUAL: Final = (28, 30, 32, 34, 36)
"""Powers of two of the sizes that a calibration plans for: 256 MiB to 64 GiB."""
NEAR: Final = 1
"""A kept answer serves sizes up to twice as large or small: the shapes are the same, or nearly."""
LOADS: Final = 4
"""Loads that a shape is planned for: the pool that the first one pays for is kept for others."""
_STRATEGIES: Final = frozenset({"buffered", "direct", "pinned", "staged"})
"""What the pool does: reads or copies into a ring, and a copy engine out of it."""


def size_class(size: int) -> int:
    """The power of two that a size belongs to.

    >>> size_class(1), size_class(4096), size_class(4097)
    (0, 12, 13)
    """
    return max(size - 1, 0).bit_length()


def shape_on(machine: Machine, gpu: int, size: int, source: Source) -> Shape | None:
    """The shape that the model chooses on `machine`; `None` where it knows no way through a ring.

    Parameters
    ----------
    machine
        Calibrated, or any that the caller vouches for.
    gpu
        The driver's index.
    size
        Bytes.
    source
        A file in the page cache, one that is not, or plain memory.

    """
    from planner.errors import PlannerError
    from planner.machine.schema import Hbm
    from planner.model.estimate import estimate
    from planner.plan.schema import Plan

    gpus = [n for n, node in machine.nodes.items() if isinstance(node, Hbm) and node.device == gpu]
    if not gpus:
        return None
    flow: dict[str, Any] = {"from": "host0", "to": gpus[:1], "size": size, "memory": "pageable"}
    flow["repeat"] = LOADS
    if source != "memory":
        flow |= {"from": "disk0", "cache": source}
    try:
        plan = Plan.model_validate({"flows": {"f": flow}})
        found = estimate(plan, machine, only=_STRATEGIES, single_ways=True).flows[0]
    except (PlannerError, ValueError):
        return None
    hops = found.schedule.hops
    if hops[-1].strategy not in ("pinned", "staged"):
        return None
    first = hops[0]
    return Shape(
        first.workers,
        first.depth,
        first.chunk_bytes,
        "calibration",
        size,
        max(0.0, found.first_s - found.steady_s),
        found.steady_s,
    )


class Planner:
    """Shapes by class of sizes, from memory, from the kept answers, or planned now."""

    def __init__(self, backend: str, machine: Machine | None) -> None:
        self._backend, self._machine = backend, machine
        self._known: dict[str, Shape | None] = {}

    def shape(self, gpu: int, size: int, source: Source) -> Shape | None:
        """The shape for `size` bytes; `None` where nothing was calibrated."""
        power = size_class(size)
        name = _name(source, gpu, power)
        if name not in self._known:
            self._known[name] = self._find(name, gpu, 1 << power, source)
        return self._known[name]

    def _find(self, name: str, gpu: int, size: int, source: Source) -> Shape | None:
        if self._machine is not None:
            return shape_on(self._machine, gpu, size, source)
        mark = _mark(self._backend)
        if not mark:
            return None
        path = cache_folder() / f"shapes-{self._backend}.json"
        kept = _read(path, mark)
        near = _nearest(kept, name)
        if near is not None:
            return _shape_of(kept[near])
        from planner.engine.here import kept as calibrated

        machine = calibrated(self._backend)
        found = shape_on(machine, gpu, size, source) if machine is not None else None
        if found is not None:
            _write(path, mark, {**kept, name: _fields(found)})
        return found


def plan_usual(backend: str, machine: Machine) -> None:
    """Plan for loads of usual sizes to the first GPU, and keep the answers for all programs."""
    from planner.machine.schema import Hbm

    gpus = [node.device for node in machine.nodes.values() if isinstance(node, Hbm)]
    mark = _mark(backend)
    if not gpus or not mark:
        return
    found: dict[str, Any] = {}
    sources: tuple[Source, ...] = ("warm", "cold", "memory")
    for source in sources:
        for power in USUAL:
            shape = shape_on(machine, min(gpus), 1 << power, source)
            if shape is not None:
                found[_name(source, min(gpus), power)] = _fields(shape)
    if found:
        _write(cache_folder() / f"shapes-{backend}.json", mark, found)


def _name(source: Source, gpu: int, power: int) -> str:
    return f"{source} to {gpu} 2^{power}"


def _nearest(kept: Mapping[str, Any], name: str) -> str | None:
    """The kept answer of the same kind whose size is nearest, none that is too far."""
    kind, _, power = name.rpartition("^")
    found = [
        (abs(int(size) - int(power)), int(size), known)
        for known in kept
        for other, _, size in (known.rpartition("^"),)
        if other == kind and size.isdecimal()
    ]
    far, _, near = min(found, default=(NEAR + 1, 0, None))
    return near if far <= NEAR else None


def _mark(backend: str) -> list[str]:
    """What the kept answers depend on, told by files alone; empty where nothing was calibrated."""
    try:
        files = sorted(cache_folder().glob(f"here-*-{backend}-*.json"))
        found = [f"{file.name} {file.stat().st_mtime_ns}" for file in files]
        cards = sorted(p.name for p in Path("/proc/driver/nvidia/gpus").glob("*"))
    except OSError:
        return []
    about = os.uname()
    cores = len(os.sched_getaffinity(0))
    return [*found, f"{about.nodename} {about.release} {cores}", *cards] if found else []


def _read(path: Path, mark: list[str]) -> dict[str, Any]:
    """The kept answers; none where they are of another calibration or damaged."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return dict(body["shapes"]) if body["mark"] == mark else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(path: Path, mark: list[str], shapes: dict[str, Any]) -> None:
    """Keep the answers, whole or not at all; a folder that cannot be written is no error."""
    part = path.with_suffix(f".{os.getpid()}.part")
    with contextlib.suppress(OSError):
        try:
            part.write_text(json.dumps({"mark": mark, "shapes": shapes}), encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _fields(shape: Shape) -> list[Any]:
    """The fields of a shape that are kept."""
    parts = (shape.workers, shape.depth, shape.chunk_bytes)
    return [*parts, shape.size_bytes, shape.setup_s, shape.steady_s]


def _shape_of(fields: Any) -> Shape | None:
    """The shape of kept fields; `None` where they are damaged."""
    try:
        workers, depth, chunk, size, setup, steady = fields
        shape = Shape(int(workers), int(depth), int(chunk), "calibration", int(size))
        if min(shape.workers, shape.depth, shape.chunk_bytes) < 1:
            return None
        return Shape(
            shape.workers,
            shape.depth,
            shape.chunk_bytes,
            "calibration",
            shape.size_bytes,
            float(setup),
            float(steady),
        )
    except (TypeError, ValueError):
        return None
