"""From what was measured to a machine: names of places and links, curves, tables, provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from planner.engine.calibration import ahead, cold_curves, duplex, in_place, setup, tables
from planner.engine.calibration.between import between
from planner.engine.calibration.combined import PLAIN
from planner.engine.calibration.copies import curve_of, queued_rate
from planner.engine.calibration.crowd import lead_of, turn_of
from planner.engine.calibration.degraded import link_warning
from planner.engine.calibration.lone import rested
from planner.engine.calibration.ports import ports_of
from planner.engine.calibration.rounds import Cell, disturbed
from planner.engine.calibration.sentinel import MEMORY
from planner.engine.calibration.statistics import typical
from planner.machine.curve import Curve
from planner.machine.discover import Discovery
from planner.machine.discover_gpus import Gpu
from planner.machine.discover_pairs import GpuPair
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
)
from planner.machine.tables import CopyTable

SOURCE: Final = "calibration"
EMULATED_BYTES: Final = 64 << 30
"""Capacity of an emulated GPU where the host's memory is unknown."""


@dataclass
class Found:
    """Everything that a calibration measured, as it comes.

    `gpus` are the devices by their numbers, those of `about` and `pairs` too. `pairs` is what the
    driver says lies between two of them. `steadiness` are the spreads of the sentinels over the
    whole time, by their names.
    """

    name: str
    about: Discovery
    gpus: list[int]
    emulated: bool
    pairs: Sequence[GpuPair] = ()
    by: str = "planner calibrate"
    when: str = ""
    host: str = ""
    note: str | None = None
    steadiness: Mapping[str, float] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    axes: Mapping[CopyName, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)

    def cell(self, *key: object) -> Cell | None:
        """The cell of a key, `None` where it was not sampled."""
        return next((c for c in self.cells if c.key == key and c.taken), None)

    def device(self, gpu: int) -> Gpu | None:
        """What the driver says of a GPU."""
        return next((g for g in self.about.gpus if g.index == gpu), None)

    def value(self, *key: object) -> float | None:
        """The median of a cell."""
        cell = self.cell(*key)
        return None if cell is None else cell.summary().median


def machine_of(found: Found, folder: Path) -> Machine:
    """The machine, with the copies as they are without DMA beside them."""
    about = found.about
    nodes: dict[str, Any] = {
        "disk0": _disk(about, folder),
        "host0": _host(found),
    }
    for k, gpu in enumerate(found.gpus):
        nodes[f"gpu{k}"] = _gpu(found, gpu)
    links = {name: link for name in link_names(found) if (link := link_of(found, name))}
    ports, shared = ports_of(found, links)
    for name, port in shared.items():
        if name in links:
            links[name] = links[name].model_copy(update={"ports": (port, None)})
    return Machine(
        name=found.name,
        description="this computer, measured by `planner calibrate`",
        emulated=found.emulated,
        hardware=_hardware(found),
        sources={SOURCE: provenance(found, found.cells)},
        nodes=nodes,
        links=links,
        ports=ports,
        warnings=warnings_of(links),
    )


def warnings_of(links: Mapping[str, Link]) -> tuple[str, ...]:
    """What is wrong with the links, for people to read."""
    found = (link_warning(name, link) for name, link in links.items())
    return tuple(text for text in found if text is not None)


def link_names(found: Found) -> list[str]:
    """The links that a calibration of these GPUs has."""
    count = len(found.gpus)
    pairs = count * (count - 1) // 2
    return ["storage0", *(f"pcie{k}" for k in range(count)), *(f"nvlink{k}" for k in range(pairs))]


def link_of(found: Found, name: str) -> Link | None:
    """One link from the cells, `None` where nothing of it was measured."""
    if name == "storage0":
        return _storage(found)
    if name.startswith("pcie"):
        k = int(name.removeprefix("pcie"))
        return _pcie(found, k, found.gpus[k])
    i, j = list(combinations(range(len(found.gpus)), 2))[int(name.removeprefix("nvlink"))]
    return between(found, i, j)


def provenance(found: Found, cells: Sequence[Cell]) -> Provenance:
    """Where the numbers of some cells come from."""
    seen = [cell.summary() for cell in cells if cell.taken]
    samples = sorted(one.samples for one in seen)
    return Provenance(
        kind="measured",
        where=f"{found.host or 'this computer'}, {found.about.cpu or 'unknown processor'}",
        when=found.when,
        by=found.by,
        samples=max(1, samples[len(samples) // 2]) if samples else None,
        # Hurried calibrations have one sample of each: then what was looked at repeatedly tells.
        spread=typical(one.spread for one in seen) or typical(found.steadiness.values()),
        disturbed=disturbed(cells),
        note=found.note,
    )


def _hardware(found: Found) -> dict[str, str]:
    about = found.about
    real = not found.emulated
    facts: dict[str, object] = {
        "cpu": about.cpu,
        "cores": about.cores,
        "kernel": about.kernel,
        "virtualization": about.virtualization,
        "filesystem": about.filesystem.kind if about.filesystem else None,
        "huge_pages": about.huge_pages,
        "driver": about.driver if real else None,
        "gpu": ", ".join(gpu.name for gpu in about.gpus) if real else None,
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
    for copy, axes in _axes(found):
        own = [c for c in found.cells if isinstance(c.key, tuple) and c.key[0] == copy]
        overhead = found.value("overhead", PLAIN.get(copy, copy)) or 0.0
        piece = found.value("piece", copy) or 0.0
        table = tables.table(copy, own, axes, overhead, piece)
        if table is not None:
            rates[copy] = _as_unsteady(table, found.steadiness.get(MEMORY))
    turn = turn_of(found.cells)
    combined = found.value("combined", "read")
    copies = curve_of(f"h2d{found.gpus[0]}", found.cells)
    return Ram(
        kind="ram",
        capacity=about.memory_bytes or about.usable_memory_bytes or 1,
        limit=about.usable_memory_bytes,
        cores=about.cores,
        cache=about.cache.size_bytes if about.cache else None,
        copy_rates=rates,
        setup=setup.setup_of(found.cells),
        issue=found.value("issue", found.gpus[0]) or 0.0,
        turn=turn,
        lead=lead_of(found.cells, rates.get("file"), turn),
        register_ahead=ahead.begun("register_ahead", found.cells, copies),
        register_helped=ahead.begun("register_helped", found.cells, copies),
        register_memory=ahead.begun("register_memory", found.cells, copies),
        managed_touch=curve_of("managed_touch", found.cells),
        managed_fill=curve_of("managed_fill", found.cells),
        managed_map=curve_of("managed_map", found.cells),
        write_combined=None if combined is None else combined < in_place.COMBINED,
    )


def _as_unsteady(table: CopyTable, over_time: float | None) -> CopyTable:
    """The table with the spread of a thread's copies over the whole time, where that is more.

    A cell is sampled within some seconds. On a shared host copying is a tenth faster or slower a
    minute later, which none of its cells shows.
    """
    if over_time is None or over_time <= (table.spread or 0.0):
        return table
    return table.model_copy(update={"spread": over_time})


def _axes(found: Found) -> Iterator[tuple[CopyName, tuple[Sequence[int], Sequence[int]]]]:
    """The axes of all tables: those into write-combined memory have those of the ordinary ones."""
    yield from found.axes.items()
    for copy, plain in PLAIN.items():
        if plain in found.axes:
            yield copy, found.axes[plain]


def _storage(found: Found) -> Link | None:
    reading, writing = cold_curves.forward(found.cells), cold_curves.backward(found.cells)
    if reading is None and writing is None:
        return None
    return Link(kind="storage", ends=("disk0", "host0"), forward=reading, backward=writing)


def _gpu(found: Found, gpu: int) -> Hbm:
    real = None if found.emulated else found.device(gpu)
    local = rested(f"local{gpu}", found.cells)
    capacity = real.memory_bytes if real else found.about.usable_memory_bytes or EMULATED_BYTES
    touched = _scattered(found, gpu)
    # What is not known is left at its default.
    more: dict[str, Any] = {} if touched is None else {"sector": touched[1]}
    return Hbm(
        **more,
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
        context=found.value("context", gpu) or 0.0,
        allocate=setup.allocation(found.cells, gpu, real=not found.emulated),
    )


def _pcie(found: Found, k: int, gpu: int) -> Link | None:
    real = None if found.emulated else found.device(gpu)
    inward, outward = (_direction(found, gpu, way) for way in ("h2d", "d2h"))
    if inward is None and outward is None:
        return None
    return Link(
        kind="pcie",
        ends=("host0", f"gpu{k}"),
        forward=inward,
        backward=outward,
        generation=real.generation if real else None,
        width=real.width if real else None,
        max_generation=real.max_generation if real else None,
        max_width=real.max_width if real else None,
    )


def _direction(found: Found, gpu: int, way: str) -> Direction | None:
    wanted: Mapping[CurveName, str] = {
        "pinned": f"{way}{gpu}",
        "pageable": f"{way}_pageable{gpu}",
        "pageable_hot": f"{way}_pageable{gpu}_hot",
        "zero_copy": f"{way}{gpu}_zero_copy",
        "managed_fault": f"{way}{gpu}_managed_fault",
        "managed_scattered": f"{way}{gpu}_managed_scattered",
        "managed_prefetch": f"{way}{gpu}_managed_prefetch",
    }
    curves = {n: curve for n, key in wanted.items() if (curve := rested(key, found.cells))}
    if "pinned" not in curves:
        return None
    if "pageable_hot" in curves:
        curves["pageable_hot"] = _as_at_the_end(curves["pageable_hot"])
    rate = queued_rate(f"{way}{gpu}", found.cells) or curves["pinned"].rate
    touched = _scattered(found, gpu) if way == "h2d" else None
    return Direction(
        rate=max(rate, curves["pinned"].rate),
        curves=curves,
        against=_against(found, gpu, way),
        requests=None if touched is None else touched[0],
    )


def _as_at_the_end(curve: Curve) -> Curve:
    """The curve with the rate of its last copy: of a cache that ends the best says nothing."""
    last = curve.points[-1]
    return curve.model_copy(update={"rate": last.size_bytes / last.seconds})


def _scattered(found: Found, gpu: int) -> tuple[float, int] | None:
    """Requests per second of a GPU's reads in place, and the bytes of its sectors."""
    curve = curve_of(f"h2d{gpu}_zero_copy", found.cells)
    return None if curve is None else in_place.scattered(found.cells, gpu, curve)


def _against(found: Found, gpu: int, way: str) -> float:
    """What this direction loses while the other is at work: it is charged for that itself."""
    own = found.value("duplex", gpu, way, 0)
    if own is None:
        return 0.0
    seen = []
    for cell in found.cells:
        key = cell.key
        if isinstance(key, tuple) and key[:3] == ("duplex", gpu, way) and key[3] and cell.taken:
            other = cell.second()
            if other is not None:
                seen.append((cell.summary().median, other))
    return duplex.interference(own, seen)
