"""The fluid simulation as events: flows begin and finish, in between all rates are constant.

Each class keeps the work that one member has been served since the class was last idle; a flow
that joins at service s is done at s + work. So a change of rate touches the class, not its flows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from planner.model._fluid_levels import CAP
from planner.model._fluid_problem import NO_CLASS, NO_QUEUE, Problem
from planner.model._fluid_repair import Levels

TOGETHER = 2e-15
# Events closer than this, relative to the time, are one instant: a few units in the last place
# (2.2e-16), by which equal flows on different resources drift apart.


@dataclass(slots=True)
class Trace:
    """What a run of the events leaves behind; one entry a flow, but `busy` one a resource."""

    ready: list[float]
    begin: list[float]
    finish: list[float]
    bottleneck: list[int]
    busy: list[float]
    events: int = 0
    log: list[tuple[float, int, float]] = field(default_factory=list)
    """(time, class, rate of one member) wherever a rate changes, if recorded."""


def run(problem: Problem, levels: Levels, *, record: bool) -> Trace:
    """Play all events; `finish` stays nan for a flow that never does."""
    return _Run(problem, levels, record=record).play()


class _Run:
    def __init__(self, problem: Problem, levels: Levels, *, record: bool) -> None:
        flows, classes = len(problem.flow_class), len(problem.classes.slots)
        self._problem = problem
        self._levels = levels
        self._record = record
        never = [math.nan] * flows
        self._trace = Trace(
            never.copy(), never.copy(), never, [CAP] * flows, [0.0] * problem.resources
        )
        self._work: list[float] = list(problem.work)
        self._start: list[float] = list(problem.start)
        self._delay: list[float] = list(problem.delay)
        self._members: list[float] = list(problem.members)
        self._waits = list(problem.waits)
        self._begins: list[tuple[float, int]] = []
        self._finishes: list[tuple[float, int, int]] = []  # time, class, version of the class
        self._version = [0] * classes
        self._count = [0.0] * classes
        self._rate = [0.0] * classes
        self._served = [0.0] * classes
        self._since = [0.0] * classes
        self._queue: list[list[tuple[float, int]]] = [[] for _ in range(classes)]
        self._holder = [CAP] * classes
        self._held_since = [0.0] * classes
        self._held: list[dict[int, float]] = [{} for _ in range(classes)]
        self._held_before: dict[int, dict[int, float]] = {}
        self._moving = [0] * problem.resources
        self._moving_since = [0.0] * problem.resources
        self._dirty: dict[int, None] = {}
        self._call: dict[int, int] = {}  # by engine: the flow whose call it serves
        self._calls: dict[int, list[tuple[float, int]]] = {}  # and those issued behind it
        self._asked: dict[int, None] = {}  # engines at which a call was issued, or has ended

    def play(self) -> Trace:
        trace, start = self._trace, self._start
        for flow, waits in enumerate(self._waits):
            if waits == 0:
                trace.ready[flow] = start[flow]
                self._begins.append((start[flow] + self._delay[flow], flow))
        heapify(self._begins)
        while (now := self._next()) < math.inf:
            self._step(now)
        return trace

    def _next(self) -> float:
        finishes, version = self._finishes, self._version
        while finishes and version[finishes[0][1]] != finishes[0][2]:
            heappop(finishes)
        now = finishes[0][0] if finishes else math.inf
        return min(now, self._begins[0][0]) if self._begins else now

    def _step(self, now: float) -> None:
        """Everything that happens at one instant, then one repair of the levels."""
        horizon = now * (1.0 + TOGETHER)
        finishes, begins, version = self._finishes, self._begins, self._version
        while finishes and finishes[0][0] <= horizon:
            _, number, predicted = heappop(finishes)
            if version[number] == predicted:
                self._retire(number, now)
        while begins and begins[0][0] <= horizon:
            begin, flow = heappop(begins)
            self._trace.begin[flow] = begin
            number = self._problem.flow_class[flow]
            if number == NO_CLASS:
                self._finish(flow, begin)
            elif self._problem.classes.queue[number] == NO_QUEUE:
                self._join(flow, now)
            else:
                engine = self._problem.classes.queue[number]
                heappush(self._calls.setdefault(engine, []), (begin, flow))
                self._asked[engine] = None
        if self._asked:
            self._start_calls(now)
        if not self._dirty:
            return
        self._trace.events += 1
        count = self._count
        changed = self._levels.update([(number, count[number]) for number in self._dirty])
        self._dirty.clear()
        for number in changed:
            self._change_rate(number, now)
        if len(self._finishes) > 4 * len(count) + 64:
            self._forget_outdated()

    def _forget_outdated(self) -> None:
        """Drop the predictions that later ones replaced, before they outgrow the others."""
        version = self._version
        self._finishes = [entry for entry in self._finishes if version[entry[1]] == entry[2]]
        heapify(self._finishes)

    def _finish(self, flow: int, now: float) -> None:
        trace = self._trace
        trace.finish[flow] = now
        for follower in self._problem.followers.get(flow, ()):
            self._waits[follower] -= 1
            if self._waits[follower] == 0:
                ready = trace.ready[follower] = max(now, self._start[follower])
                heappush(self._begins, (ready + self._delay[follower], follower))

    def _start_calls(self, now: float) -> None:
        """Begin the call that was issued first on every engine that is free.

        All that is issued at one instant is known by now; of those the first of the flows begins.
        While a call stood in the queue, its engine counts as what held it up.
        """
        for engine in self._asked:
            waiting = self._calls[engine]
            if engine in self._call or not waiting:
                continue
            issued, flow = heappop(waiting)
            self._call[engine] = flow
            self._join(flow, now)
            if now > issued:
                self._trace.begin[flow] = now
                self._held[self._problem.flow_class[flow]][engine] = now - issued
        self._asked.clear()

    def _join(self, flow: int, now: float) -> None:
        number = self._problem.flow_class[flow]
        if self._queue[number]:
            self._serve(number, now)
            self._held_before[flow] = dict(self._hold_time(number, now))
        else:
            self._served[number] = 0.0
            self._since[number] = now
            self._held[number] = {}
            self._held_since[number] = now
        self._count[number] += self._members[flow]
        heappush(self._queue[number], (self._served[number] + self._work[flow], flow))
        self._dirty[number] = None

    def _retire(self, number: int, now: float) -> None:
        """The first flows of the class, by what they still want, have got it."""
        queue = self._queue[number]
        self._serve(number, now)
        self._version[number] += 1
        wanted = self._served[number] = queue[0][0]
        held = self._hold_time(number, now)
        while queue and queue[0][0] <= wanted * (1.0 + TOGETHER):
            _, flow = heappop(queue)
            self._count[number] -= self._members[flow]
            self._trace.bottleneck[flow] = self._longest(held, self._held_before.pop(flow, {}))
            self._finish(flow, now)
        if not queue:
            self._count[number] = 0.0
            self._set_rate(number, now, 0.0)
        self._dirty[number] = None
        if (engine := self._problem.classes.queue[number]) != NO_QUEUE:
            del self._call[engine]
            self._asked[engine] = None

    def _longest(self, held: dict[int, float], before: dict[int, float]) -> int:
        """The resource that held the class longest since `before`; -1 is its cap."""
        best, longest = CAP, -1.0
        for slot in sorted(held):
            time = held[slot] - before.get(slot, 0.0)
            if time > longest:
                best, longest = slot, time
        return best % self._problem.resources if best != CAP else CAP

    def _hold_time(self, number: int, now: float) -> dict[int, float]:
        """Seconds that each slot has held the class since it was idle, up to now."""
        held, holder = self._held[number], self._holder[number]
        spent = now - self._held_since[number]
        if spent > 0.0:
            held[holder] = held.get(holder, 0.0) + spent
        self._held_since[number] = now
        return held

    def _serve(self, number: int, now: float) -> None:
        self._served[number] += self._rate[number] * (now - self._since[number])
        self._since[number] = now

    def _change_rate(self, number: int, now: float) -> None:
        """Take over level and holder from the sharing and predict the next finish."""
        holder = self._levels.holder[number]
        if holder != self._holder[number]:
            self._hold_time(number, now)
            self._holder[number] = holder
        self._serve(number, now)
        rate = self._levels.level[number] * self._levels.weight[number]
        self._set_rate(number, now, rate)
        self._version[number] += 1
        if rate > 0.0:
            left = max(self._queue[number][0][0] - self._served[number], 0.0)
            heappush(self._finishes, (now + left / rate, number, self._version[number]))

    def _set_rate(self, number: int, now: float, rate: float) -> None:
        old = self._rate[number]
        self._rate[number] = rate
        if (old > 0.0) != (rate > 0.0):
            step = 1 if rate > 0.0 else -1
            for slot in self._problem.classes.slots[number]:
                self._count_moving(slot % self._problem.resources, now, step)
        if self._record:
            self._trace.log.append((now, number, rate))

    def _count_moving(self, resource: int, now: float, step: int) -> None:
        moving = self._moving[resource]
        if moving == 0:
            self._moving_since[resource] = now
        self._moving[resource] = moving + step
        if moving + step == 0:
            self._trace.busy[resource] += now - self._moving_since[resource]
