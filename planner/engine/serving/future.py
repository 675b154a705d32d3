"""The answer of a call that goes on: a future of `concurrent.futures` that streams can wait for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

from planner.engine.serving.report import LoadReport


class TransferFuture(Future[LoadReport]):
    """A transfer that goes on: `result()`, `done()`, `cancel()`, `add_done_callback()` as always.

    `result()` gives the `LoadReport`, or raises what the transfer failed with. `cancel()` works
    until the transfer's turn has come.
    """

    def __init__(self) -> None:
        super().__init__()
        self._issued = Event()
        self._hand_over: Callable[[Any], None] | None = None
        self._moved: Callable[[], int] = lambda: 0

    def wait(self, stream: Any = None, timeout: float | None = None) -> None:
        """Let a CUDA stream wait for the bytes; without one, wait here.

        Parameters
        ----------
        stream
            An integer handle, a `cupy.cuda.Stream` or a `torch.cuda.Stream`. The call returns once
            the last copy stands in its queue: what is put into the stream from then on runs after
            all bytes have arrived. At once where the source is pinned or on a GPU; bytes that the
            host itself must read or copy first are waited for.
        timeout
            Seconds.

        Raises
        ------
        TimeoutError
            If it took longer.
        PlannerError
            What the transfer failed with.

        """
        if stream is None:
            self.result(timeout)
            return
        self.add_done_callback(lambda _future: self._issued.set())
        if not self._issued.wait(timeout):
            raise TimeoutError("the transfer's last copy was not queued in time")
        hand_over = self._hand_over
        if self.done() or hand_over is None:
            self.result()
            return
        hand_over(stream)

    def moved(self) -> int:
        """Bytes that have left their source so far."""
        return self._moved()
