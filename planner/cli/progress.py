"""Progress on stderr: bars on a terminal, else one line a flow at its start and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.cli.console import Console

if TYPE_CHECKING:
    from planner.engine.progress import Progress

LEAST_SHARE: Final = 0.02
"""Before 2 % of the bytes are done the first chunks decide, and a forecast would jump about."""


@contextmanager
def progress_on(console: Console) -> Iterator[Progress | None]:
    """A progress that shows on `console`, or `None` where none is wanted.

    Bars that move are drawn on a terminal only and never under CI: they would flood a log.
    """
    if not console.progress:
        yield None
    elif console.live:
        from planner.cli.live import live_progress

        with live_progress(console) as progress:
            yield progress
    else:
        lines = LineProgress(console)
        yield lines
        lines.close()


@dataclass(slots=True)
class Sample:
    """One sample of a flow under way, and how it does against its prediction."""

    total_bytes: int
    predicted_s: float
    began: float
    done_bytes: int = 0

    def amount(self) -> str:
        """`9.3 / 14 GB`."""
        from planner.units import format_size

        return f"{format_size(self.done_bytes)} / {format_size(self.total_bytes)}"

    def rate(self, now: float) -> str:
        """Bytes/s since it began."""
        from planner.units import format_rate

        return format_rate(self.done_bytes / (now - self.began)) if now > self.began else ""

    def against_prediction(self, now: float) -> str:
        """`1.450 s of 2.060 s predicted +6 %`: by how much it will miss if it goes on so."""
        from planner.units import format_time

        passed = now - self.began
        words = f"{format_time(passed)} of {format_time(self.predicted_s)} predicted"
        share = self.done_bytes / self.total_bytes if self.total_bytes else 0.0
        if share < LEAST_SHARE or self.predicted_s <= 0:
            return words
        return f"{words} {passed / share / self.predicted_s - 1:+.0%}"


@dataclass(slots=True)
class _Tally:
    """What a flow has done so far: its runs, and their seconds."""

    runs: list[float] = field(default_factory=list)


class LineProgress:
    """One line a flow when it first starts, one when all is over; notes as they come."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.perf_counter) -> None:
        self._console = console
        self._clock = clock
        self._flows: dict[str, _Tally] = {}

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
        """Say so the first time."""
        from planner.units import format_size, format_time

        if flow in self._flows:
            return
        self._flows[flow] = _Tally()
        size, predicted = format_size(total_bytes), format_time(predicted_s)
        self._console.note(f"{flow}: {size}, {predicted} predicted")

    def advance(self, flow: str, done_bytes: int) -> None:
        """Say nothing: a log has no use for it."""

    def finish(self, flow: str, seconds: float) -> None:
        """Remember it for the line at the end."""
        self._flows.setdefault(flow, _Tally()).runs.append(seconds)

    def note(self, text: str) -> None:
        """Say it."""
        self._console.note(text)

    def close(self) -> None:
        """One line a flow: how often it ran, and how long that took."""
        from planner.units import format_time

        for flow, tally in self._flows.items():
            if tally.runs:
                low, high = format_time(min(tally.runs)), format_time(max(tally.runs))
                runs = "1 run" if len(tally.runs) == 1 else f"{len(tally.runs)} runs"
                times = low if low == high else f"{low} – {high}"
                self._console.note(f"{flow}: done, {runs} of {times}")
