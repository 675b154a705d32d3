"""What one flow asks of the model, stripped of how it was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from planner.machine.schema import Disk, Hbm, Machine, Ram, Remote
from planner.model.strategies import Kind, Use
from planner.plan.schema import Flow


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

    @property
    def names(self) -> frozenset[str]:
        """Every strategy that the plan names."""
        one = {self.strategy} if self.strategy is not None else set[str]()
        return frozenset({*one, *self.by_hop.values()})


@dataclass(frozen=True, slots=True)
class Need:
    """Move `size` bytes from `start` to `end`, `repeat` times.

    `first` and `last` are the kinds of memory at the two ends. `cached` is the share of the source
    file in the page cache; `hot` says that the host buffer was just written. `pinned_budget` and
    `cores` cap what the flow may take. `pieces` are the separate pieces of the bytes as (size, how
    many), empty for one; those of a file lie in one range. `use` says how a GPU uses what it gets,
    `fsync` that a disk must have it. `turns` is how many turns at the locks of the process a chunk
    takes: more than one where copies to further GPUs follow it. `rate` is the most that it may
    move, bytes/s; `None` where nothing is said.
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
    pieces: tuple[tuple[int, int], ...] = ()
    use: Use | None = None
    fsync: bool = False
    turns: float = 1.0
    rate: float | None = None


class Details(TypedDict):
    """The fields of a `Need` that a flow alone settles, whatever the machine."""

    pieces: tuple[tuple[int, int], ...]
    use: Use | None
    fsync: bool


def details(flow: Flow) -> Details:
    """Pieces, use and durability as the flow states them: `Need(…, **details(flow))`."""
    use = None
    if flow.use is not None:
        use = Use(flow.use.fraction, flow.use.reads, flow.use.pattern)
    return {"pieces": _pieces(flow), "use": use, "fsync": flow.fsync}


def _pieces(flow: Flow) -> tuple[tuple[int, int], ...]:
    """The pieces by size, the biggest first; equal ones where only their count is known."""
    if flow.pieces is None or flow.pieces.count < 2:
        return ()
    sizes = Counter(flow.pieces.sizes)
    if not sizes:
        count = flow.pieces.count
        each, rest = divmod(flow.size or sum(f.size_bytes for f in flow.files), count)
        sizes = Counter({each: count - rest, each + 1: rest})
    return tuple(sorted(((s, n) for s, n in sizes.items() if s and n), reverse=True))


def end_kind(machine: Machine, node: str, memory: str) -> Kind | None:
    """The kind of memory at an end of a flow, `None` where bytes only pass through.

    `memory` is what the user's host buffer is (`pageable`, `pinned`, `mapped`, `managed`); it
    matters in RAM only.
    """
    place = machine.nodes[node]
    if isinstance(place, Disk):
        return "file"
    if isinstance(place, Hbm):
        return "device"
    if isinstance(place, Remote):
        return "remote"
    if isinstance(place, Ram):
        kinds: dict[str, Kind] = {"pinned": "pinned", "mapped": "mapped", "managed": "managed"}
        return kinds.get(memory, "pageable")
    return None
