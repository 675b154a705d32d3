"""Calls stand in a queue here: one thread does them in turn, each with the whole pool."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final

from planner.engine.backends.base import Backend
from planner.engine.serving.bank import REFUSALS
from planner.engine.serving.ends import End, FileEnd, SinkEnd, close_all
from planner.engine.serving.future import TransferFuture
from planner.engine.serving.job import Job
from planner.engine.serving.mapped import UnmappableError
from planner.engine.serving.pump import Pump
from planner.engine.serving.report import LoadReport
from planner.engine.serving.shape import Shape
from planner.errors import ExecutionError, PlannerError, UnavailableError

JOIN_S: Final = 30.0
"""Seconds without a byte after which the end is not waited for: a stuck driver call must not hang
the process."""


@dataclass
class Call:
    """What one call asks for: its jobs in turn, and the ends to close when they are done."""

    size: int
    shape: Shape
    jobs: Sequence[Job]
    ends: list[End]
    notes: tuple[str, ...] = ()
    instead: Callable[[], Job] | None = None
    """What to do where the one job's files cannot be registered."""
    future: TransferFuture = field(default_factory=TransferFuture)
    asked: float = field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        if self.jobs:
            self.jobs[-1].issued = self.future._issued  # noqa: SLF001 - its own kind


class Desk:
    """The queue, and the thread behind it, which starts with the first call."""

    def __init__(self, opener: Callable[[int], Backend]) -> None:
        self.pump = Pump(opener)
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._guard = Lock()
        self._closed = False
        self._now: Call | None = None
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the backend is there: a call now pays no cold start."""
        return self.pump.bank is not None

    def submit(self, call: Call) -> TransferFuture:
        """Put a call into the queue."""
        if os.getpid() != self._process:  # before the lock, which the parent may have held
            close_all(call.ends)
            raise ExecutionError(
                "the loader is of the process that this one was forked from, as are its threads",
                hint="make a new planner.Loader after the fork",
            )
        with self._guard:
            if self._closed:
                close_all(call.ends)
                raise ExecutionError("the loader was closed", hint="make a new planner.Loader")
            if self._thread is None:
                self._thread = self._started(call)
            if call.jobs:
                last, future = call.jobs[-1], call.future
                future._hand_over = lambda stream: self._hand_over(last, future, stream)  # noqa: SLF001
            self._queue.put(call)
        return call.future

    def _started(self, call: Call) -> Thread:
        """The thread behind the queue; a call that it is not had for is closed."""
        thread = Thread(target=self._serve, name="planner desk", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # a limit of the user, or of the container
            close_all(call.ends)
            raise UnavailableError(
                f"the system starts no thread: {error}",
                hint="raise the limit (ulimit -u, pids of the cgroup)",
            ) from error
        return thread

    def call_off(self, call: Call) -> None:
        """Stop a call: whatever of it is in flight ends, the rest is not done."""
        call.future.cancel()
        for job in call.jobs:
            job.stop.ask()

    def _serve(self) -> None:
        while (call := self._queue.get()) is not None:
            self._do(call)
            self.pump.clear_up()  # the caller has its answer
            del call  # what it holds may be given back before the next one comes
        with contextlib.suppress(*REFUSALS):  # the calls before have told what it is
            self.pump.close()

    def _do(self, call: Call) -> None:
        """Do one call and settle its future, whatever becomes of it."""
        future = call.future
        if not future.set_running_or_notify_cancel():
            close_all(call.ends)
            return
        try:
            report = self._run(call)
        except BaseException as error:  # noqa: BLE001 - the future raises it
            traceback.clear_frames(error.__traceback__)  # they hold memory while the error lives
            close_all(call.ends)
            future.set_exception(_meant(error))
        else:
            future.set_result(report)
        finally:
            size, call.jobs = call.size, ()
            call.ends.clear()
            future._hand_over = None  # noqa: SLF001 - its own kind
            future._moved = lambda: size  # noqa: SLF001

    def _run(self, call: Call) -> LoadReport:
        pump, future = self.pump, call.future
        setup: dict[str, float] = {}
        buffered = direct = before = 0
        spent = 0.0
        fresh = pump.pinned_bytes == 0
        for job in call.jobs:
            done = before
            future._moved = lambda done=done: done + pump.progress()  # type: ignore[misc] # noqa: SLF001
            pump.setup = {}
            job = self._done(call, job)  # noqa: PLW2901 - another one may have been needed
            setup |= pump.setup
            through, around = pump.counted()
            buffered, direct = buffered + through, direct + around
            spent += job.ended - max(job.began, job.opened)
            before += pump.progress()
        notes = [end.note for end in call.ends if isinstance(end, FileEnd) and end.note]
        for end in call.ends:
            if isinstance(end, SinkEnd):
                end.publish()
        close_all(call.ends)
        steady = call.shape.predicted_s(call.size)
        bank = pump.bank
        return LoadReport(
            size_bytes=call.size,
            seconds=perf_counter() - call.asked,
            transfer_s=spent,
            schedule=call.shape,
            setup_s=setup,
            predicted_s=steady,
            setup_predicted_s=call.shape.setup_s if fresh else 0.0 if steady is not None else None,
            buffered_bytes=buffered,
            direct_bytes=direct,
            pinned_bytes=pump.pinned_bytes,
            emulated=bank is not None and bank.backend.emulated,
            notes=(*call.notes, *notes),
        )

    def _done(self, call: Call, job: Job) -> Job:
        """Do a job, or the one that stands in where its files cannot be registered."""
        try:
            self.pump.run(job)
        except UnmappableError as error:
            if call.instead is None or job.stop.error is not error:
                raise
            call.notes = (*call.notes, f"through a ring: {error.message}")
            job = call.instead()
            call.jobs, call.shape = [job], job.shape
            self.pump.run(job)
        return job

    def _hand_over(self, job: Job, future: TransferFuture, stream: Any) -> None:
        """Let another library's stream wait for what a job has queued."""
        bank = self.pump.bank
        if bank is None or bank.backend.emulated:
            future.result()
            return
        from planner.engine.backends.cuda_foreign import hand_over, stream_pointer

        pointer = stream_pointer(stream)
        with self.pump.lending:
            hand_over(self.pump.lanes(job), pointer)

    def leave(self) -> None:
        """Like `close`, without waiting: for a finaliser, which may run in any thread."""
        self._closed = True
        self._queue.put(None)

    def close(self) -> None:
        """Do what is in the queue, then give the pool back; asked again, wait for that again.

        Raises
        ------
        ExecutionError
            If nothing has moved for `JOIN_S` seconds: what was asked for will not be done.

        """
        if os.getpid() != self._process:  # what it holds is the parent's
            return
        with self._guard:
            self._closed, thread = True, self._thread
        if thread is None:
            return
        self._queue.put(None)  # once would do: nobody takes the next one
        seen = -1
        while True:
            thread.join(JOIN_S)
            if not thread.is_alive():
                return
            moved = self.pump.progress()
            if moved == seen:
                raise ExecutionError(
                    f"the loader's last transfers have stood still for {JOIN_S:.0f} s",
                    hint="a disk or the driver does not answer; planner doctor looks at both",
                )
            seen = moved


def _meant(error: BaseException) -> BaseException:
    """The error for the caller: one of ours, or the interpreter's own."""
    if isinstance(error, PlannerError) or not isinstance(error, (OSError, RuntimeError)):
        return error
    found = ExecutionError(f"the transfer failed: {error}")
    found.__cause__ = error
    return found
