"""One sample of a whole plan: flows and compute blocks start when what they wait for has ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from time import perf_counter

from planner.engine.backends.base import Server
from planner.engine.flow_sample import FlowSample
from planner.engine.measure import Interval, served
from planner.engine.pace import ALL, Gate, Pace, Turns
from planner.engine.progress import POLL_S
from planner.engine.transfer import Moved
from planner.engine.waits import SWITCH_S, Stop, Stopped, patiently, raise_error


@dataclass(frozen=True, slots=True)
class Task:
    """A flow or a compute block: what it waits for, and what it does.

    `work` keeps the pace that it is given. A flow returns its sample, a compute block the start and
    the end of each run. `wake` makes ready what sleeps; it is called before the clock starts. Of
    those that begin with the plan and with one of the same `engines` the first by name begins
    first.
    """

    name: str
    gate: Gate
    start: float
    work: Callable[[Pace], FlowSample | list[Interval]]
    wake: Callable[[], None] | None = None
    engines: frozenset[Server] = frozenset()

    @property
    def early(self) -> bool:
        """Whether it begins with the plan."""
        return self.gate.open and self.start <= 0


@dataclass(frozen=True, slots=True)
class PlanSample:
    """What one sample of the plan took, each flow's part, and the runs of each compute block.

    `origin` is when the plan's clock stood at 0, on the clock of the intervals.
    """

    makespan_s: float
    flows: Mapping[str, FlowSample]
    compute: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)
    origin: float = 0.0


class _Course:
    """The threads of one sample, and what they report."""

    def __init__(self, tasks: Sequence[Task], stop: Stop) -> None:
        self.tasks, self.stop = tasks, stop
        # A `join` that a signal interrupts takes the thread for ended, though it still runs.
        self.through = {task.name: Event() for task in tasks}
        self.turns = Turns([task.name for task in tasks], stop)
        self.flows: dict[str, FlowSample] = {}
        self.compute: dict[str, tuple[Interval, ...]] = {}
        self.spans: dict[str, tuple[float, float]] = {}
        self.begun = perf_counter()
        # What begins with the plan begins together, when all of it is awake.
        self._asleep = sum(task.early and task.wake is not None for task in tasks)
        self._woken = Event()
        self._guard = Lock()
        if not self._asleep:
            self._woken.set()
        self._begun = {task.name: Event() for task in tasks}
        self._behind = _behind(tasks)

    def _wake(self, task: Task) -> None:
        """Wake what the task needs; who waits for no other task waits until all are awake."""
        if task.early and task.wake is not None:
            task.wake()
            with self._guard:
                self._asleep -= 1
                if not self._asleep:
                    self.begun = perf_counter()
                    self._woken.set()
        if task.gate.open and not self._woken.is_set():
            self.stop.wait(self._woken)

    def follow(self, task: Task) -> None:
        """Wait for the task's turn, do it, and let others know."""
        try:
            self._wake(task)
            self.turns.wait(task.gate.before_all())
            self.stop.sleep_until(self.begun + task.start)
            for name in self._behind.get(task.name, ()):
                self.stop.wait(self._begun[name])
            self._begun[task.name].set()
            start = perf_counter()
            found = task.work(Pace(task.name, task.gate, self.turns))
            if isinstance(found, FlowSample):
                self.spans[task.name] = found.start, found.end
                self.flows[task.name] = found
            else:
                self.spans[task.name] = start, perf_counter()
                self.compute[task.name] = tuple(found)
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self.stop.fail(error)
        finally:
            self.turns.end(task.name, ALL)
            self.through[task.name].set()

    def origin(self) -> float:
        """When the plan's clock stood at 0.

        A task that waits for nothing starts at its `start`, so the earliest of them sets the clock:
        the start of the threads is not the plan's.
        """
        starts = [self.spans[t.name][0] - t.start for t in self.tasks if t.gate.open]
        return min(starts, default=self.begun)

    def makespan(self) -> float:
        """From when the plan's clock stood at 0 to the last end."""
        ends = [end for _, end in self.spans.values()]
        return max(ends) - self.origin() if ends else 0.0


def _behind(tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """The tasks right before each on every engine that it begins with, by name.

    Who was the last to be awake would be the first to go on. An engine serves whole copies in the
    order of their issue: of two flows over one link the smaller one took 1.3 ms or, behind the
    other, 9.3 (one H200, measured 2026-11-30).
    """
    found: dict[str, tuple[str, ...]] = {}
    last: dict[Server, str] = {}
    for task in sorted((task for task in tasks if task.early), key=lambda task: task.name):
        found[task.name] = tuple(sorted({last[one] for one in task.engines if one in last}))
        last |= dict.fromkeys(task.engines, task.name)
    return found


def run_once(
    tasks: Sequence[Task], stop: Stop, poll: Callable[[], None] = lambda: None
) -> PlanSample:
    """Run all tasks, each in a thread of its own; `poll` is called at most every `POLL_S`.

    Parameters
    ----------
    tasks
        Flows and compute blocks; their gates name others of them.
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
    course = _Course(tasks, stop)
    threads = [
        Thread(target=course.follow, args=(task,), name=task.name, daemon=True)
        # Engines serve in order of issue: by name, so that the order of keys changes nothing.
        for task in sorted(tasks, key=lambda task: task.name)
    ]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        for thread in threads:
            thread.start()
        for through in course.through.values():
            while not through.wait(POLL_S):
                poll()
        poll()
    except BaseException:
        stop.ask()
        for thread in threads:
            if thread.ident is not None:
                patiently(course.through[thread.name].wait)
        raise
    finally:
        for thread in threads:
            if thread.ident is not None:
                patiently(thread.join)
        sys.setswitchinterval(switch)
    raise_error(stop, ", ".join(task.name for task in tasks))
    flows = settled(course.flows)
    return PlanSample(course.makespan(), flows, course.compute, course.origin())


def settled(flows: Mapping[str, FlowSample]) -> dict[str, FlowSample]:
    """The samples with each engine's queue taken off its service times.

    All flows of an engine stand in one queue: a copy's service starts at the later of its issue and
    the end of the copy before it, whosever that was.
    """
    queues: dict[tuple[str, int], list[Interval]] = {}
    for move in (move for sample in flows.values() for move in sample.moves):
        for server, intervals in zip(move.servers, move.intervals, strict=True):
            if server is not None:
                queues.setdefault(server, []).extend(intervals)
    starts = {server: dict(_match(intervals)) for server, intervals in queues.items()}
    return {
        name: replace(sample, moves=tuple(_settle(move, starts) for move in sample.moves))
        for name, sample in flows.items()
    }


def _match(intervals: Sequence[Interval]) -> list[tuple[Interval, Interval]]:
    """Each issue with its service; `served` keeps the order of the ends."""
    ordered = sorted(intervals, key=lambda pair: pair[1])
    return list(zip(ordered, served(ordered), strict=True))


def _settle(move: Moved, starts: Mapping[tuple[str, int], Mapping[Interval, Interval]]) -> Moved:
    found = tuple(
        intervals if server is None else tuple(starts[server][pair] for pair in intervals)
        for server, intervals in zip(move.servers, move.intervals, strict=True)
    )
    return replace(move, intervals=found)
