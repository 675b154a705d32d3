"""How fast several readers together get a cold file, by how many they are and what each asks for.

A disk answers well only when enough bytes are under way, and some answer worse when there are too
many; neither shows in the time of one request. So the rates of whole pools of readers are measured,
each with one request under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from planner.machine.tables import place
from planner.quantities import Bytes, BytesPerSecond


class ReadTable(BaseModel):
    """Bytes/s of all readers together, `rates[i][j]` for `workers[i]` that ask for `requests[j]`.

    A cell is `None` where it was not measured; it then takes the value of the nearest smaller
    request, else of the nearest larger one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    workers: tuple[int, ...] = Field(min_length=1)
    requests: tuple[Bytes, ...] = Field(min_length=1)
    rates: tuple[tuple[BytesPerSecond | None, ...], ...]
    into_memory: float = Field(default=1.0, gt=0, le=1)
    """Share of the rates that is reached where the bytes go into memory that is in no cache; the
    rates are those of readers that go round in two slots each."""

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        for axis in (self.workers, self.requests):
            if any(b <= a for a, b in pairwise(axis)) or axis[0] <= 0:
                raise ValueError("workers and requests grow and are above 0")
        if len(self.rates) != len(self.workers):
            raise ValueError("rates has one row for each entry of workers")
        for row in self.rates:
            if len(row) != len(self.requests):
                raise ValueError("each row of rates has one cell for each entry of requests")
            if all(cell is None for cell in row):
                raise ValueError("each row of rates has at least one measured cell")
            if any(cell is not None and cell <= 0 for cell in row):
                raise ValueError("a rate is above 0")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; what was derived from the old ones is not copied along."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_filled", None)
        copied.__dict__.pop("fastest", None)
        return copied

    @cached_property
    def _filled(self) -> tuple[tuple[float, ...], ...]:
        """Every cell with a number."""
        rows = []
        for row in self.rates:
            known = [j for j, cell in enumerate(row) if cell is not None]
            nearest = (max((k for k in known if k <= j), default=known[0]) for j in range(len(row)))
            rows.append(tuple(float(row[j] or 0.0) for j in nearest))
        return tuple(rows)

    def rate(self, workers: int, request: float) -> float:
        """Bytes/s of so many readers whose requests have `request` bytes.

        Bilinear in the logarithms of both axes. Beyond the largest entries these hold; a request
        below the smallest takes as long as that, and fewer readers get their share of the fewest.
        """
        i, u = place(self.workers, workers)
        j, v = place(self.requests, request)
        k, n = min(i + 1, len(self.workers) - 1), min(j + 1, len(self.requests) - 1)
        low = self._filled[i][j] * (1 - v) + self._filled[i][n] * v
        high = self._filled[k][j] * (1 - v) + self._filled[k][n] * v
        less = min(1.0, request / self.requests[0]) * min(1.0, workers / self.workers[0])
        return (low * (1 - u) + high * u) * less

    @cached_property
    def fastest(self) -> float:
        """Bytes/s of the best readers."""
        return max(max(row) for row in self._filled)

    def reach(self, workers: int, request: float) -> float:
        """Bytes/s that the disk has for all who read, when these readers are some of them.

        More readers may make up for what these leave, so it is the most that was measured with at
        least as many bytes under way.
        """
        under_way = workers * request
        more = (
            rate
            for count, row in zip(self.workers, self._filled, strict=True)
            for size, rate in zip(self.requests, row, strict=True)
            if count * size >= under_way
        )
        return max(self.rate(workers, request), *more, 0.0)

    def at_rate(self, change: float, most: float) -> ReadTable:
        """The same on another wire: a byte takes `change` seconds more, no rate exceeds `most`."""

        def moved(rate: float | None) -> float | None:
            return None if rate is None else 1 / max(1 / rate + change, 1 / most)

        return self.model_copy(
            update={"rates": tuple(tuple(map(moved, row)) for row in self.rates)}
        )

    def slower(self, factor: float) -> ReadTable:
        """The same table with every rate divided by `factor`."""
        rates = tuple(tuple(None if c is None else c / factor for c in row) for row in self.rates)
        return self.model_copy(update={"rates": rates})
