"""Waiting that can be called off: one `Stop` for a run, which every worker looks at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock
from types import TracebackType
from typing import Final

from planner.errors import ExecutionError, PlannerError

SWITCH_S: Final = 1e-4
"""Seconds after which the interpreter lets another thread go on. The default of 5 ms lets one busy
thread hold up all workers: 24 GB/s became 1.8 at 4 MiB chunks, 8 to 10 with this value (measured
2026-11-29 on a 2-core guest)."""
TICK_S: Final = 0.05
"""Longest time in which a blocked thread does not look at the stop: a twentieth of a second is
below what a person who presses Ctrl-C notices, and costs nothing."""


class Stopped(Exception):  # noqa: N818 - not an error: it unwinds a worker that was told to stop
    """The run was called off, by an error elsewhere or by the caller."""


class Stop:
    """Whether to stop, and the first error that was the reason.

    `asked` is a plain attribute because workers read it at every operation.
    """

    def __init__(self) -> None:
        self.asked = False
        self.error: BaseException | None = None
        self._lock = Lock()

    def ask(self) -> None:
        """Let every worker stop at its next operation."""
        self.asked = True

    def fail(self, error: BaseException) -> None:
        """Stop because of `error`; only the first one is kept."""
        with self._lock:
            if self.error is None and not self.asked:
                self.error = error
            self.asked = True

    def leaving(self, error: BaseException, told: BaseException) -> Stopped:
        """What to raise because of `error`: all others are told now, unless they know already."""
        if not isinstance(error, Stopped):
            self.fail(told)
        return Stopped()

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Stop because of whatever is raised inside, which goes on as `Stopped`."""
        try:
            yield
        except BaseException as error:
            raise self.leaving(error, error) from error

    def check(self) -> None:
        """Raise `Stopped` if the run was called off."""
        if self.asked:
            raise Stopped

    def wait(self, event: Event) -> None:
        """Wait for the event; raises `Stopped` if the run is called off meanwhile."""
        while not event.wait(TICK_S):
            self.check()
        self.check()

    def sleep_until(self, instant: float) -> None:
        """Sleep until `time.perf_counter()` is `instant`; raises `Stopped` if called off."""
        while True:
            self.check()
            left = instant - time.perf_counter()
            if left <= 0:
                return
            time.sleep(min(left, TICK_S))


def patiently(wait: Callable[[], object]) -> None:
    """Wait to the end, however often somebody presses Ctrl-C: memory is in use until then."""
    while True:
        try:
            wait()
        except KeyboardInterrupt:
            continue
        return


class OneAtATime:
    """A lock whose wait can be called off; entering raises `Stopped` then."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._lock = Lock()

    def __enter__(self) -> None:
        """Wait for one's turn."""
        while not self._lock.acquire(timeout=TICK_S):
            self._stop.check()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the next one in."""
        self._lock.release()


def raise_error(stop: Stop, flow: str) -> None:
    """Raise what made the run stop, if anything did."""
    error = stop.error
    if error is None:
        stop.check()
    elif isinstance(error, PlannerError):
        raise error
    elif isinstance(error, Exception):
        # Some errors say nothing but what they are, like that memory is used up.
        reason = str(error) or type(error).__name__
        raise ExecutionError(f"flow {flow} failed: {reason}") from error
    else:
        raise error
