"""From what was measured to a machine: names of places and links, curves, tables, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from planner.engine.calibration import disk, tables
from planner.engine.calibration.copies import curve_of, interference, queued_rate
from planner.engine.calibration.disk import Reads
from planner.engine.calibration.rounds import Cell, disturbed
from planner.engine.calibration.statistics import typical
from planner.machine.curve import Curve
from planner.machine.discover import Discovery
from planner.machine.discover_gpus import Gpu
from planner.machine.schema import (
    CopyName,
    CurveName,
    Direction,
    Disk,
    Hbm,
    Link,
    Machine,
    Provenance,
    Ram,
    Setup,
)
from planner.machine.tables import CopyTable

SOURCE: Final = "calibration"
EMULATED_BYTES: Final = 64 << 30
"""Capacity of an emulated GPU where the host's memory is unknown."""


@dataclass
class Found:
    """Everything that a calibration measured, as it comes."""

    name: str
    about: Discovery
    gpus: list[int]
    context: list[float]
    emulated: bool
    when: str = ""
    host: str = ""
    setup: Setup = field(default_factory=Setup)
    allocate: dict[int, Curve] = field(default_factory=dict)
    reads: dict[str, Reads | None] = field(default_factory=dict)
    write_rate: float = 0.0
    cells: list[Cell] = field(default_factory=list)
    axes: dict[CopyName, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    overhead: dict[CopyName, float] = field(default_factory=dict)
    duplex: dict[int, tuple[float, float]] = field(default_factory=dict)


def machine_of(found: Found, folder: Path) -> Machine:
    """The machine, with the copies as they are without DMA beside them."""
    about = found.about
    nodes: dict[str, Any] = {
        "disk0": _disk(about, folder),
        "host0": _host(found),
    }
    links: dict[str, Any] = {"storage0": _storage(found)}
    for k, gpu in enumerate(found.gpus):
        nodes[f"gpu{k}"] = _gpu(found, k, gpu)
        links[f"pcie{k}"] = _pcie(found, k, gpu)
    links |= _peers(found)
    return Machine(
        name=found.name,
        description="this computer, measured by `planner calibrate`",
        emulated=found.emulated,
        hardware=_hardware(found),
        sources={SOURCE: _provenance(found)},
        nodes=nodes,
        links=links,
    )


def _provenance(found: Found) -> Provenance:
    spreads = [cell.summary().spread for cell in found.cells]
    samples = sorted(cell.summary().samples for cell in found.cells)
    return Provenance(
        kind="measured",
        where=f"{found.host or 'this computer'}, {found.about.cpu or 'unknown processor'}",
        when=found.when,
        by="planner calibrate",
        samples=max(1, samples[len(samples) // 2]) if samples else None,
        spread=typical(spreads),
        disturbed=disturbed(found.cells),
    )


def _hardware(found: Found) -> dict[str, str]:
    about = found.about
    facts: dict[str, object] = {
        "cpu": about.cpu,
        "cores": about.cores,
        "kernel": about.kernel,
        "filesystem": about.filesystem.kind if about.filesystem else None,
        "huge_pages": about.huge_pages,
        "driver": about.driver if not found.emulated else None,
        "gpu": None if found.emulated else ", ".join(gpu.name for gpu in about.gpus),
        "date": found.when,
    }
    return {key: str(value) for key, value in facts.items() if value is not None}


def _disk(about: Discovery, folder: Path) -> Disk:
    system = about.filesystem
    return Disk(
        kind="disk",
        host="host0",
        path=str(folder),
        capacity=system.total_bytes if system else None,
        filesystem=system.kind if system else None,
    )


def _host(found: Found) -> Ram:
    about = found.about
    rates: dict[CopyName, CopyTable] = {}
    for copy, axes in found.axes.items():
        table = tables.table(copy, _of(found.cells, copy), axes, found.overhead[copy])
        if table is not None:
            rates[copy] = table
    return Ram(
        kind="ram",
        capacity=about.memory_bytes or about.usable_memory_bytes or 1,
        limit=about.usable_memory_bytes,
        cores=about.cores,
        cache=about.cache.size_bytes if about.cache else None,
        copy_rates=rates,
        setup=found.setup,
    )


def _of(cells: Sequence[Cell], copy: CopyName) -> list[Cell]:
    """The cells of one copy table."""
    return [c for c in cells if isinstance(c.key, tuple) and c.key[0] == copy]


def _storage(found: Found) -> Link:
    reading = disk.forward(found.reads.get("buffered"), found.reads.get("direct"))
    return Link(
        kind="storage",
        ends=("disk0", "host0"),
        forward=reading,
        backward=disk.backward([found.write_rate]),
    )


def _device(found: Found, gpu: int) -> Gpu | None:
    return next((g for g in found.about.gpus if g.index == gpu), None)


def _gpu(found: Found, k: int, gpu: int) -> Hbm:
    real = None if found.emulated else _device(found, gpu)
    local = curve_of(f"local{gpu}", _copies(found.cells))
    capacity = real.memory_bytes if real else found.about.usable_memory_bytes or EMULATED_BYTES
    return Hbm(
        kind="hbm",
        host="host0",
        device=gpu,
        capacity=capacity,
        model=real.name if real else "emulated in RAM",
        uuid=real.uuid if real else None,
        emulated=found.emulated,
        # A kernel that reads moves every byte once, a copy inside the memory twice.
        rate=2 * local.rate if local else None,
        local=local,
        context=found.context[k],
        allocate=found.allocate[gpu],
    )


def _copies(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of curves: their keys end in a size and say how the copy was made."""
    return [c for c in cells if isinstance(c.key, tuple) and c.key[1] in ("alone", "queued")]


def _pcie(found: Found, k: int, gpu: int) -> Link:
    real = None if found.emulated else _device(found, gpu)
    inward, outward = (_direction(found, gpu, way) for way in ("h2d", "d2h"))
    beside_in, beside_out = found.duplex[gpu]
    return Link(
        kind="pcie",
        ends=("host0", f"gpu{k}"),
        # What one direction loses while the other is at work is charged to the one that loses.
        forward=inward.model_copy(
            update={"against": interference(inward.rate, beside_in, beside_out)}
        ),
        backward=outward.model_copy(
            update={"against": interference(outward.rate, beside_out, beside_in)}
        ),
        generation=real.generation if real else None,
        width=real.width if real else None,
        max_generation=real.max_generation if real else None,
        max_width=real.max_width if real else None,
    )


def _direction(found: Found, gpu: int, way: str) -> Direction:
    cells = _copies(found.cells)
    wanted: Mapping[CurveName, str] = {
        "pinned": f"{way}{gpu}",
        "pageable": f"{way}_pageable{gpu}",
        "pageable_hot": f"{way}_pageable{gpu}_hot",
    }
    curves = {name: curve for name, key in wanted.items() if (curve := curve_of(key, cells))}
    rate = queued_rate(f"{way}{gpu}", cells) or curves["pinned"].rate
    return Direction(rate=max(rate, curves["pinned"].rate), curves=curves)


def _peers(found: Found) -> dict[str, Link]:
    """A link between each two GPUs that reach each other."""
    cells = _copies(found.cells)
    links: dict[str, Link] = {}
    for i, one in enumerate(found.gpus):
        for j in range(i + 1, len(found.gpus)):
            other = found.gpus[j]
            ways = [curve_of(f"peer{a}-{b}", cells) for a, b in ((one, other), (other, one))]
            forward, backward = (
                Direction(rate=c.rate, curves={"peer": c}) if c else None for c in ways
            )
            if forward is None and backward is None:
                continue
            links[f"nvlink{len(links)}"] = Link(
                kind="interconnect" if found.emulated else "nvlink",
                ends=(f"gpu{i}", f"gpu{j}"),
                forward=forward,
                backward=backward,
                peer_access=True,
            )
    return links
