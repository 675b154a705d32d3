"""The threads of one flow: started once, kept between samples, each with its own lanes.

Whoever calls `run` is worker 0: a movement by one worker then pays no hand-over between threads,
which would take longer (some 50 us) than a small copy itself.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Final

from planner.engine.waits import Stop, Stopped, patiently
from planner.errors import UnavailableError

JOIN_S: Final = 30.0
"""Seconds to wait for a thread at the end: a stuck driver call must not hang the process."""

Job = Callable[[int], None]
"""What each worker does; the argument is its number."""


class Team:
    """`size` workers that do the same job together, as often as asked: the caller and threads."""

    def __init__(self, size: int, stop: Stop, name: str) -> None:
        self.size = size
        self._stop = stop
        self._queues: list[SimpleQueue[Job | None]] = [SimpleQueue() for _ in range(size - 1)]
        self._left = 0
        self._guard = Lock()
        self._done = Event()
        self._threads: list[Thread] = []
        for k in range(1, size):
            thread = Thread(target=self._serve, args=(k,), name=f"{name} worker {k}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # a limit of the user, the container, or of addresses
                self.close()
                raise UnavailableError(
                    f"{name}: the system starts {k - 1} of {size - 1} threads and no more",
                    hint="take fewer workers, or raise the limit (ulimit -u, pids of the cgroup)",
                ) from error
            self._threads.append(thread)

    def _serve(self, number: int) -> None:
        queue = self._queues[number - 1]
        while True:
            job = queue.get()
            if job is None:
                return
            self._do(job, number)
            del job  # what the job holds may be given back before the next one comes
            with self._guard:
                self._left -= 1
                if self._left == 0:
                    self._done.set()

    def _do(self, job: Job, number: int) -> BaseException | None:
        """Do the job; an error stops the run and is kept there for the thread that waits."""
        try:
            job(number)
        except Stopped:
            return None
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self._stop.fail(error)
            return error
        return None

    def run(self, job: Job, workers: int | None = None) -> None:
        """Let every worker, or the first `workers`, do it; returns when all have, however it went.

        Raises `KeyboardInterrupt` if that came while the caller was at it.
        """
        self._done.clear()
        asked = self._queues if workers is None else self._queues[: max(0, workers - 1)]
        self._left = len(asked)
        for queue in asked:
            queue.put(job)
        error = self._do(job, 0)
        if asked:
            try:
                self._done.wait()
            except KeyboardInterrupt:
                self._stop.ask()
                patiently(self._done.wait)
                raise
        if isinstance(error, KeyboardInterrupt):
            raise error

    def close(self) -> None:
        """End the threads."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join(JOIN_S)
