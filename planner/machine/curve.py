"""How long one copy takes, by its size.

A curve is a handful of measured points (bytes, seconds). Between points the time is interpolated
linearly in the size, which is exact for t = latency + size / rate and, unlike interpolation of the
logarithms, does not read high at the knee. Below the first point the latency holds, above the last
one the asymptotic rate does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from planner.machine.reads import ReadTable
from planner.machine.rising import rising
from planner.quantities import Bytes, BytesPerSecond, Seconds


class Point(BaseModel):
    """One measured copy: `size_bytes` took `seconds`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    size_bytes: Bytes
    seconds: Seconds

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        """In a machine file a point is a pair, too: `[4KiB, 5.6us]`."""
        named = handler(core)
        body = handler.resolve_ref_schema(named)
        written = dict(body)
        pair = [written["properties"][key] for key in ("size_bytes", "seconds")]
        body.clear()
        body |= {
            "anyOf": [
                {"type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2},
                written,
            ]
        }
        return named


def _point(value: Any) -> Any:
    """A row `[4KiB, 5.6us]` of a machine file is a point."""
    if isinstance(value, (list, tuple)):
        if len(value) != 2:
            raise ValueError("a point is a pair: [size, time], like [4KiB, 5.6us]")
        return {"size_bytes": value[0], "seconds": value[1]}
    return value


def _rising(points: tuple[Point, ...]) -> tuple[tuple[int, float], ...]:
    """Sizes with times that never fall: that a bigger copy is faster is noise."""
    times = rising(point.seconds for point in points)
    return tuple((point.size_bytes, time) for point, time in zip(points, times, strict=True))


def _between(
    rows: tuple[tuple[int, float], ...], size: float, nothing: float, rate: float
) -> float:
    """Seconds at `size`: linear between rows, from `nothing` below them, at `rate` above."""
    first_size, first = rows[0]
    if size <= first_size:
        # From a copy of nothing up to the first measured point.
        base = min(nothing, first)
        return base + (first - base) * size / first_size
    last_size, last = rows[-1]
    if size >= last_size:
        return last + (size - last_size) / rate
    at = bisect_left(rows, (size, 0.0))
    (s0, t0), (s1, t1) = rows[at - 1], rows[at]
    return t0 + (t1 - t0) * (size - s0) / (s1 - s0)


class Curve(BaseModel):
    """Seconds of one copy by its size, alone and in a queue.

    `points` may be empty: then `latency` and `rate` alone say everything (t = latency + size/rate).
    `gap` is what a queued copy costs the engine beside its bytes (LogGP's g); it is shared by all
    flows, while `latency` delays only a copy that finds the engine idle. `idle` is what a run of
    such copies takes longer after a pause: caller, engine and link wake up, once; a run that
    follows another one does not pay it. `overhead` is what every run takes beside its copies: the
    caller's work before the first one and behind the last. `queued` are
    measured points of copies behind one another, where there are any: a lone copy of some MiB may
    wake a link that a queue keeps awake, so the two differ by more than the gap. `readers` is what
    several readers of a disk reach together. `spread` is the relative half interquartile range of
    the times, `None` where none was kept; `lone_spread` that of what a copy of next to no bytes
    takes (`latency`, `overhead`, `idle`), where it was kept by itself: some microseconds of code
    and of waking up vary more than the bytes of large copies.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    points: tuple[Annotated[Point, BeforeValidator(_point)], ...] = ()
    latency: Seconds = Field(ge=0)
    gap: Seconds | None = Field(default=None, ge=0)
    idle: Seconds = Field(default=0.0, ge=0)
    overhead: Seconds = Field(default=0.0, ge=0)
    queued: tuple[Annotated[Point, BeforeValidator(_point)], ...] = ()
    rate: BytesPerSecond = Field(gt=0)
    readers: ReadTable | None = None
    spread: float | None = Field(default=None, ge=0)
    lone_spread: float | None = Field(default=None, ge=0)
    source: str | None = None

    @model_validator(mode="after")
    def _sorted_and_positive(self) -> Curve:
        for points in (self.points, self.queued):
            sizes = [p.size_bytes for p in points]
            if any(b <= a for a, b in pairwise(sizes)):
                raise ValueError("the points of a curve grow in size")
            if any(p.seconds <= 0 or p.size_bytes <= 0 for p in points):
                raise ValueError("a point has a size and a time above 0")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; what was derived from the old ones is not copied along."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_monotone", None)
        copied.__dict__.pop("_monotone_queued", None)
        return copied

    @cached_property
    def _monotone(self) -> tuple[tuple[int, float], ...]:
        """The points with times that never fall."""
        return _rising(self.points)

    @cached_property
    def _monotone_queued(self) -> tuple[tuple[int, float], ...]:
        return _rising(self.queued)

    def seconds(self, size: float) -> float:
        """Seconds of one copy of `size` bytes that finds the engine idle."""
        rows = self._monotone
        if not rows:
            return self.latency + size / self.rate
        return _between(rows, size, self.latency, self.rate)

    @property
    def queued_gap(self) -> float:
        """Seconds of engine time that a queued copy costs beside its bytes, at most the latency."""
        return self.latency if self.gap is None else min(self.gap, self.latency)

    def service(self, size: float) -> float:
        """Seconds that a copy of `size` holds the engine when copies are queued behind each other.

        As measured, where it was; else the lone copy without the part of its latency that overlaps
        with its neighbours: t(size) - (latency - gap), and never less than the gap.
        """
        if self.queued:
            return _between(self._monotone_queued, size, self.queued_gap, self.rate)
        return max(self.queued_gap, self.seconds(size) - (self.latency - self.queued_gap))

    def at_rate(self, rate: float) -> Curve:
        """The same curve on a wire of another `rate`: each time changes by its bytes' share."""
        change = 1.0 / rate - 1.0 / self.rate

        def moved(points: tuple[Point, ...]) -> tuple[Point, ...]:
            return tuple(
                Point(
                    size_bytes=p.size_bytes,
                    seconds=max(p.seconds + p.size_bytes * change, p.size_bytes / rate),
                )
                for p in points
            )

        update = {
            "points": moved(self.points),
            "queued": moved(self.queued),
            "readers": None if self.readers is None else self.readers.at_rate(change, rate),
            "rate": rate,
        }
        return self.model_copy(update=update)

    def slower(self, factor: float, lone: float | None = None) -> Curve:
        """The same curve with every time multiplied by `factor`.

        What a lone copy takes beside its bytes is multiplied by `lone` where that is given.
        """
        beside = factor if lone is None else lone
        # A latency above the smallest point counts as that point, as in `seconds`.
        begun = min([self.latency, *(p.seconds for p in self.points[:1])])

        def slowed(points: tuple[Point, ...], aside: float = 0.0) -> tuple[Point, ...]:
            return tuple(
                Point(
                    size_bytes=p.size_bytes,
                    seconds=p.seconds * factor + min(aside, p.seconds) * (beside - factor),
                )
                for p in points
            )

        gap = None if self.gap is None else self.gap * factor
        update = {
            "points": slowed(self.points, begun),
            "queued": slowed(self.queued),
            "latency": self.latency * beside,
            "gap": gap,
            "idle": self.idle * beside,
            "overhead": self.overhead * beside,
            "readers": None if self.readers is None else self.readers.slower(factor),
            "rate": self.rate / factor,
        }
        return self.model_copy(update=update)
