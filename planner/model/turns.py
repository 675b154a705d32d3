"""Filling a ring with equal chunks, followed by turns instead of by events.

Where every chunk takes a worker p and the engine S seconds, the W workers keep their order: chunk
k belongs to worker k mod W. It is taken once that worker has issued its chunk before, k - W, and
its slot is back, in which chunk k - W * depth was on the way:

    taken(k) = max(issued(k - W), arrived(k - W * depth))
    issued(k) = taken(k) + p
    served(k) = max(served(k - 1), issued(k)) + S
    arrived(k) = served(k) + lag

All of these grow with k, so nobody overtakes; and whoever waits for a slot comes strictly later
than the one before, so two who want a chunk at the same instant have both just issued, in order.
None depends on how many chunks follow: a line that was followed for one size answers for every
smaller one, and goes on for a larger one. Sums are taken in the order of `tight.fill`, whose answer
this is to the last bit.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from planner.model.stage import Trace

KEPT: Final = 1 << 18
"""Chunks of lines that are remembered, all lines together: some 35 MB of floats."""


class Turns:
    """One line: its services, and what it has been followed for so far.

    `copy` and `serve` are the seconds of a full chunk, both above 0, and `lag` those until it
    counts as arrived.
    """

    __slots__ = (
        "copy",
        "copying",
        "issued",
        "lag",
        "serve",
        "served",
        "serving",
        "slots",
        "workers",
    )

    def __init__(self, copy: float, serve: float, lag: float, workers: int, depth: int) -> None:
        self.copy, self.serve, self.lag = copy, serve, lag
        self.workers, self.slots = workers, workers * depth
        self.issued: list[float] = []
        self.served: list[float] = []
        self.copying: list[float] = []
        """Seconds in which any worker has copied, up to the chunk."""
        self.serving: list[float] = []
        """Seconds in which the engine has served, up to the chunk."""

    def trace(self, full: int, last: tuple[float, float] | None) -> Trace:
        """What `full` chunks take, and one more of `last` = (copy, serve) seconds behind them.

        At least one chunk.
        """
        self._follow(full)
        if last is not None:
            return self._with(full, *last)
        end, first = self.served[full - 1] + self.lag, self.served[0] + self.lag
        return Trace(end, (self.copying[full - 1], self.serving[full - 1]), first)

    def _follow(self, full: int) -> None:
        """Follow the line up to `full` chunks."""
        issued, served, copying, serving = self.issued, self.served, self.copying, self.serving
        copy, serve, lag, workers, slots = self.copy, self.serve, self.lag, self.workers, self.slots
        begin = len(issued)
        copied, free, copy_s, serve_s = 0.0, 0.0, 0.0, 0.0
        if begin:
            copied, free, copy_s, serve_s = issued[-1], served[-1], copying[-1], serving[-1]
        for k in range(begin, full):
            now = issued[k - workers] if k >= workers else 0.0
            if k >= slots:
                slot = served[k - slots] + lag
                now = slot if slot > now else now  # noqa: FURB136 - a call costs more
            done = now + copy
            if done > copied:
                copy_s += done - (copied if copied > now else now)  # noqa: FURB136
                copied = done
            start = free if free > done else done  # noqa: FURB136
            free = start + serve
            serve_s += free - start
            issued.append(done)
            served.append(free)
            copying.append(copy_s)
            serving.append(serve_s)

    def _with(self, full: int, copy: float, serve: float) -> Trace:
        """The line with another chunk behind `full` ones; a short one overtakes some at the end."""
        now = self.issued[full - self.workers] if full >= self.workers else 0.0
        if full >= self.slots:
            now = max(now, self.served[full - self.slots] + self.lag)
        done = now + copy
        copied = self.issued[full - 1] if full else 0.0
        copy_s = self.copying[full - 1] if full else 0.0
        if done > copied:
            copy_s += done - max(now, copied)
        ahead = bisect_right(self.issued, done, max(0, full - self.workers), full)
        free = self.served[ahead - 1] if ahead else 0.0
        serve_s = self.serving[ahead - 1] if ahead else 0.0
        first = self.served[0] if ahead else None
        waiting = [(done, serve), *((at, self.serve) for at in self.issued[ahead:full])]
        for at, seconds in waiting:
            start = max(free, at)
            free = start + seconds
            serve_s += free - start
            if first is None:
                first = free
        return Trace(free + self.lag, (copy_s, serve_s), (first or 0.0) + self.lag)


class _Lines(dict[tuple[float, float, float, int, int], Turns]):
    """Lines that were followed; all are forgotten where they have grown too long."""

    chunks = 0

    def trace(
        self,
        key: tuple[float, float, float, int, int],
        full: int,
        last: tuple[float, float] | None,
    ) -> Trace:
        """The answer of the line that `key` says all of."""
        line = self.get(key) or Turns(*key)
        before = len(line.issued) if key in self else -1  # a line by itself counts as a chunk
        found = line.trace(full, last)
        self[key] = line
        self.chunks += len(line.issued) - before
        if self.chunks > KEPT:
            self.clear()
            self.chunks = 0
        return found


_lines = _Lines()


def filled(
    service: tuple[float, float, float],
    workers: int,
    depth: int,
    full: int,
    last: tuple[float, float] | None,
) -> Trace:
    """What `tight.fill` answers for `full` equal chunks and a `last` one behind them.

    Parameters
    ----------
    service
        Seconds of a worker and of the engine for a full chunk, both above 0, and the engine's lag.
    workers, depth
        Workers and slots per worker.
    full, last
        How many full chunks there are, and the seconds of a worker and of the engine for one more,
        `None` where there is none. At least one chunk in all.

    """
    return _lines.trace((*service, workers, depth), full, last)
