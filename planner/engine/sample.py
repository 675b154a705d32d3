"""One sample of a whole plan: flows and compute blocks start when what they wait for has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter
from typing import Final

from planner.engine.flow import FlowSample
from planner.engine.progress import POLL_S
from planner.engine.waits import Stop, Stopped
from planner.errors import ExecutionError, PlannerError

SWITCH_S: Final = 1e-4
"""Seconds after which the interpreter lets another thread go on. The default of 5 ms lets one busy
thread hold up all workers: 24 GB/s became 1.8 at 4 MiB chunks, 8 to 10 with this value (measured
2026-11-29 on a 2-core guest)."""


@dataclass(frozen=True, slots=True)
class Task:
    """A flow or a compute block: what it waits for, and what it does."""

    name: str
    after: tuple[str, ...]
    start: float
    work: Callable[[], FlowSample | None]


@dataclass(frozen=True, slots=True)
class PlanSample:
    """What one sample of the plan took, and each flow's part."""

    makespan_s: float
    flows: Mapping[str, FlowSample]


def run_once(
    tasks: Sequence[Task], stop: Stop, poll: Callable[[], None] = lambda: None
) -> PlanSample:
    """Run all tasks, each in a thread of its own; `poll` is called at most every `POLL_S`.

    Parameters
    ----------
    tasks
        Flows and compute blocks; several tasks may share a name (the copies of one flow).
    stop
        Asked when something fails or the caller is interrupted.
    poll
        Called by this thread while it waits.

    Raises
    ------
    PlannerError
        The first error of any task.
    KeyboardInterrupt
        After all threads have ended.

    """
    ended = {id(task): Event() for task in tasks}
    found: dict[str, FlowSample] = {}
    begun = perf_counter()

    def run(task: Task) -> None:
        try:
            for other in tasks:
                if other.name in task.after:
                    stop.wait(ended[id(other)])
            stop.sleep_until(begun + task.start)
            sample = task.work()
            if sample is not None:
                found[task.name] = sample
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            stop.fail(error)
        finally:
            ended[id(task)].set()

    threads = [Thread(target=run, args=(task,), name=task.name, daemon=True) for task in tasks]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL_S)
                poll()
    except BaseException:
        stop.ask()
        for thread in threads:
            thread.join()
        raise
    finally:
        sys.setswitchinterval(switch)
    _raise(stop)
    end = max((sample.end for sample in found.values()), default=perf_counter())
    return PlanSample(end - begun, found)


def _raise(stop: Stop) -> None:
    error = stop.error
    if isinstance(error, PlannerError):
        raise error
    if error is not None:
        raise ExecutionError(str(error)) from error
    stop.check()
