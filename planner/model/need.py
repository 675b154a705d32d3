"""What one flow asks of the model, stripped of how it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.strategies import Kind


@dataclass(frozen=True, slots=True)
class Pins:
    """What the plan has settled already; `None` leaves the choice to the model.

    `strategy` is one name for the whole flow, or names by hop (`"disk0 -> host0"`).
    """

    route: tuple[str, ...] = ()
    strategy: str | None = None
    by_hop: Mapping[str, str] = field(default_factory=dict)
    chunk: int | None = None
    depth: int | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Move `size` bytes from `start` to `end`, `repeat` times.

    `first` and `last` are the kinds of memory at the two ends. `cached` is the share of the source
    file in the page cache; `hot` says that the host buffer was just written. `pinned_budget` and
    `cores` cap what the flow may take.
    """

    name: str
    start: str
    end: str
    size: int
    first: Kind
    last: Kind
    pinned_budget: int
    cores: int
    repeat: int = 1
    cached: float = 1.0
    hot: bool = False
    pins: Pins = Pins()


def end_kind(machine: Machine, node: str, memory: str) -> Kind | None:
    """The kind of memory at an end of a flow, `None` where bytes cannot rest.

    `memory` is what the user's host buffer is (`pageable`, `pinned`); it matters in RAM only.
    """
    place = machine.nodes[node]
    if isinstance(place, Disk):
        return "file"
    if isinstance(place, Hbm):
        return "device"
    if isinstance(place, Ram):
        return "pinned" if memory == "pinned" else "pageable"
    return None
