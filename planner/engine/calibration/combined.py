"""Copies into a ring of write-combined memory: measured, or those into an ordinary one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from planner.engine.calibration import tables
from planner.engine.calibration.rounds import Cell
from planner.engine.memory import HostBuffer
from planner.machine.schema import CopyName, Machine, Ram

PLAIN: Final[Mapping[CopyName, CopyName]] = {"file_wc": "file", "memory_wc": "memory"}
"""The same copies into an ordinary ring."""


def table_cells(
    sides: Mapping[CopyName, tables.Side],
    ring: HostBuffer,
    axes: Mapping[CopyName, tuple[Sequence[int], Sequence[int]]],
    seconds: float,
) -> Iterator[Cell]:
    """The cells of both tables, each sample `seconds` long.

    Parameters
    ----------
    sides, axes
        What is copied from, and the axes, of the ordinary tables.
    ring
        Write-combined memory as large as the largest ring that is measured in it.
    seconds
        Of one sample.

    """
    for copy, plain in PLAIN.items():
        workers, rings = axes[plain]
        fitting = [size for size in rings if size <= ring.size]
        yield from tables.cells(copy, sides[plain], ring.view, (workers, fitting), seconds)


def with_plain(machine: Machine) -> Machine:
    """The machine with the ordinary tables where its write-combined memory is ordinary memory."""
    host = machine.nodes["host0"]
    if not isinstance(host, Ram) or host.write_combined is not False:
        return machine
    known = host.copy_rates
    more = {copy: known[plain] for copy, plain in PLAIN.items() if plain in known}
    host = host.model_copy(update={"copy_rates": {**more, **known}})
    return machine.model_copy(update={"nodes": {**machine.nodes, "host0": host}})


def real(machine: Callable[[], Machine]) -> bool:
    """Whether the host was found to have write-combined memory."""
    host = machine().nodes["host0"]
    return isinstance(host, Ram) and host.write_combined is True
