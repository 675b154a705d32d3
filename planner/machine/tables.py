"""Copy capacity: how fast W workers together fill (or drain) a ring of R bytes.

The rate depends on the whole ring, not on the chunk: while the ring stays in the last-level cache
the CPU finds the lines that it stores to. The table is measured without a GPU; `beside_dma` says
what is left of it while a copy engine works on the same ring.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from planner.quantities import Bytes, BytesPerSecond, Seconds

EACH: Final = {"beside_dma": "factor", "beside_several": "factor", "lead": "time"}
"""What a table has one of for each number of workers, where it has them at all."""
BRIEF: Final = 0.7
"""Share of a turn that chunks of 256 KiB take where nobody has measured it: 0.6 to 0.8 beside DMA
(six calibrations of H200 machines, measured 2026-11-30 and 2026-12-01)."""


class CopyTable(BaseModel):
    """Bytes/s of all workers together, `rates[i][j]` for `workers[i]` and `rings[j]`.

    A cell is `None` where it was not measured or was flawed; it then takes the value of the next
    larger ring. `per_chunk` is the interpreter's own time for one chunk, `per_piece` that for one
    more piece where scattered pieces are gathered into a chunk, `beside_dma[i]` the
    factor for `workers[i]` while DMA runs (1 where it was not measured): of one engine, which is
    itself slower beside many workers. `beside_several[i]` is the same where several GPUs read the
    rings of that many, so that it is the copies' own. `turn` is what a chunk
    holds the locks of interpreter and driver there, hand-over from worker to worker included: no
    chunk takes it where workers meet seldom, and all take it in turn where they crowd. `brief` is
    the share of it that chunks of 256 KiB and less take: who copies for longer than some 50 us lets
    others fall asleep at the lock, and each has to be woken.
    `one_slot` is the share of their pace that is left where the copies by a ring of one slot a
    worker and the engine are equally fast: nothing hides the jitter of one from the other then.
    `late` is what such a slot stands idle in each round, where another thread has to see that the
    engine is through with it and to wake who fills it: two slots a worker hide that.
    `lead[i]` is what a run by `workers[i]` beside DMA takes longer than at its pace: until all of
    them are at it, and while ring, code and tables come back into their caches.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    workers: tuple[int, ...] = Field(min_length=1)
    rings: tuple[Bytes, ...] = Field(min_length=1)
    rates: tuple[tuple[BytesPerSecond | None, ...], ...]
    per_chunk: Seconds = 0.0
    per_piece: Seconds = 0.0
    turn: Seconds = 0.0
    brief: float = Field(default=BRIEF, gt=0, le=1)
    beside_dma: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    beside_several: tuple[Annotated[float, Field(gt=0)], ...] | None = None
    one_slot: float = Field(default=1.0, gt=0, le=1)
    late: Seconds = 0.0
    lead: tuple[Seconds, ...] | None = None
    spread: float | None = Field(default=None, ge=0)
    source: str | None = None

    @model_validator(mode="after")
    def _one_each(self) -> CopyTable:
        wanted = len(self.workers)
        faults = [
            f"{name} has {len(given)} entries where workers has {wanted}: give one {what} for each"
            for name, what in EACH.items()
            if (given := getattr(self, name)) is not None and len(given) != wanted
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @model_validator(mode="after")
    def _rectangular(self) -> CopyTable:
        for axis in (self.workers, self.rings):
            if any(b <= a for a, b in pairwise(axis)) or axis[0] <= 0:
                raise ValueError("workers and rings grow and are above 0")
        if len(self.rates) != len(self.workers):
            raise ValueError("rates has one row for each entry of workers")
        for row in self.rates:
            if len(row) != len(self.rings):
                raise ValueError("each row of rates has one cell for each entry of rings")
            if all(cell is None for cell in row):
                raise ValueError("each row of rates has at least one measured cell")
            if any(cell is not None and cell <= 0 for cell in row):
                raise ValueError("a rate is above 0")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; what was derived from the old ones is not copied along."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_filled", None)
        return copied

    @cached_property
    def _filled(self) -> tuple[tuple[float, ...], ...]:
        """Every cell with a number: an empty one takes the next larger ring's, else the last."""
        rows = []
        for row in self.rates:
            known = [i for i, cell in enumerate(row) if cell is not None]
            filled = []
            for i in range(len(row)):
                at = next((k for k in known if k >= i), known[-1])
                filled.append(float(row[at] or 0.0))
            rows.append(tuple(filled))
        return tuple(rows)

    def rate(self, workers: int, ring: int, *, beside_dma: bool = False) -> float:
        """Bytes/s of `workers` together on a ring of `ring` bytes.

        Bilinear in the logarithms of both axes; outside the table the nearest edge holds, so the
        model never promises more than was seen.
        """
        i, u = place(self.workers, workers)
        j, v = place(self.rings, ring)
        table = self._filled
        low = table[i][j] * (1 - v) + table[i][min(j + 1, len(self.rings) - 1)] * v
        k = min(i + 1, len(self.workers) - 1)
        high = table[k][j] * (1 - v) + table[k][min(j + 1, len(self.rings) - 1)] * v
        value = low * (1 - u) + high * u
        if beside_dma and self.beside_dma is not None:
            value *= between(self.beside_dma, i, u)
        return value

    def several(self, workers: int) -> float:
        """By what factor `workers` copy faster for several GPUs than for one."""
        if self.beside_dma is None or self.beside_several is None:
            return 1.0
        i, u = place(self.workers, workers)
        return between(self.beside_several, i, u) / between(self.beside_dma, i, u)

    def fastest(self, ring: int | None, *, beside_dma: bool) -> float:
        """Bytes/s that no number of workers exceeds on a ring of `ring` bytes, `None` any ring."""
        if beside_dma or ring is None:
            most = max(max(row) for row in self._filled)
            return most * max(self.beside_dma or (1.0,), default=1.0)
        # Between two entries of `workers` the rate lies between theirs.
        return max(self.rate(workers, ring) for workers in self.workers)

    def lead_of(self, workers: int) -> float | None:
        """Seconds of `lead` for a number of workers, `None` where none was measured.

        Linear in the workers: they are woken one after another.
        """
        return None if self.lead is None else on_line(self.workers, self.lead, workers)

    def slower(self, factor: float) -> CopyTable:
        """The same table with every rate divided by `factor`."""
        rates = tuple(tuple(None if c is None else c / factor for c in row) for row in self.rates)
        names = ("per_chunk", "per_piece", "turn", "late")
        times: dict[str, Any] = {name: getattr(self, name) * factor for name in names}
        if self.lead is not None:
            times["lead"] = tuple(seconds * factor for seconds in self.lead)
        return self.model_copy(update={"rates": rates, **times})


def on_line(axis: Sequence[int], values: Sequence[float], at: float) -> float:
    """The value at `at` on straight lines between those on the axis, the nearest one outside.

    >>> on_line([2, 4], [1.0, 2.0], 3), on_line([2, 4], [1.0, 2.0], 1)
    (1.5, 1.0)
    """
    i = bisect_right(axis, at) - 1
    if i < 0:
        return values[0]
    if i + 1 >= len(axis):
        return values[-1]
    share = (at - axis[i]) / (axis[i + 1] - axis[i])
    return values[i] + (values[i + 1] - values[i]) * share


def place(axis: Sequence[int], value: float) -> tuple[int, float]:
    """Index of the cell below `value` and how far it lies to the next, in logarithms."""
    if value <= axis[0]:
        return 0, 0.0
    if value >= axis[-1]:
        return len(axis) - 1, 0.0
    i = bisect_right(axis, value) - 1
    return i, math.log(value / axis[i]) / math.log(axis[i + 1] / axis[i])


def between(row: Sequence[float], i: int, share: float) -> float:
    """The value so far from entry `i` to the next, where `place` has found it; the last one holds.

    >>> between([1.0, 2.0], 0, 0.5), between([1.0, 2.0], 1, 0.0)
    (1.5, 2.0)
    """
    return row[i] * (1 - share) + row[min(i + 1, len(row) - 1)] * share
