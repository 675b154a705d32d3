"""Bars that move on a terminal; the only place that draws with rich.

There is no thread that refreshes: it would take the interpreter from the workers that copy. The
bars are drawn when the engine reports, which is at most four times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress as Bars, TaskID, TextColumn, TimeRemainingColumn

from planner.cli.console import Console
from planner.cli.progress import Sample

LEAST_BETWEEN_S = 0.1
"""Seconds between two drawings of a bar that counts."""


class LiveProgress:
    """One row a flow: sample, bar, bytes, rate, and the time against the prediction."""

    def __init__(self, bars: Bars, clock: Callable[[], float] = time.perf_counter) -> None:
        self._bars = bars
        self._clock = clock
        self._rows: dict[str, TaskID] = {}
        self._samples: dict[str, Sample] = {}
        self._runs: dict[str, int] = {}

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
        """A new sample: its bar starts over."""
        self._runs[flow] = self._runs.get(flow, 0) + 1
        self._samples[flow] = Sample(total_bytes, predicted_s, self._clock())
        if flow not in self._rows:
            self._rows[flow] = self._bars.add_task(
                flow, total=max(1, total_bytes), run="", amount="", rate="", against=""
            )
        self._draw(flow)

    def advance(self, flow: str, done_bytes: int) -> None:
        """Move the bar."""
        if flow in self._samples:
            self._samples[flow].done_bytes = done_bytes
            self._draw(flow)

    def finish(self, flow: str, seconds: float) -> None:
        """Fill the bar; the time is the engine's own."""
        sample = self._samples.get(flow)
        if sample is not None:
            sample.done_bytes = sample.total_bytes
            sample.began = self._clock() - seconds
            self._draw(flow)

    def note(self, text: str) -> None:
        """A line above the bars."""
        self._bars.console.print(text, style="dim", markup=False, highlight=False)

    def _draw(self, flow: str) -> None:
        sample, now = self._samples[flow], self._clock()
        self._bars.update(
            self._rows[flow],
            completed=sample.done_bytes if sample.total_bytes else 1,
            run=f"run {self._runs[flow]}",
            amount=sample.amount(),
            rate=sample.rate(now),
            against=sample.against_prediction(now),
        )
        self._bars.refresh()


@contextmanager
def live_progress(console: Console) -> Iterator[LiveProgress]:
    """Bars on the console's stderr, gone when the work is over."""
    style = console.error_style
    terminal = Terminal(
        file=console.stderr, no_color=not style.color, width=style.width, force_terminal=True
    )
    run, *after = (
        TextColumn(f"{{task.fields[{name}]}}", markup=False)
        for name in ("run", "amount", "rate", "against")
    )
    with Bars(
        TextColumn("{task.description}", markup=False),
        run,
        BarColumn(bar_width=20),
        *after,
        console=terminal,
        auto_refresh=False,
        transient=True,
    ) as bars:
        yield LiveProgress(bars)


@contextmanager
def counting_bar(console: Console, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that counts `unit`, with the time that is left; gone when the work is over."""
    style = console.error_style
    terminal = Terminal(
        file=console.stderr, no_color=not style.color, width=style.width, force_terminal=True
    )
    with Bars(
        TextColumn("{task.completed}/{task.total}"),
        TextColumn(unit),
        BarColumn(bar_width=30),
        TimeRemainingColumn(),
        console=terminal,
        auto_refresh=False,
        transient=True,
    ) as bars:
        row = bars.add_task("", total=None)
        drawn = [0.0]

        def told(done: int, planned: int) -> None:
            bars.update(row, completed=done, total=planned)
            now = time.perf_counter()
            if now - drawn[0] >= LEAST_BETWEEN_S or done == planned:
                drawn[0] = now
                bars.refresh()

        yield told
