"""A run on the null backend: every flow of the plan on one virtual clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from planner.engine.backends.null import Played, VirtualClock, play
from planner.engine.flow import FlowSample
from planner.engine.outcome import FlowRecord
from planner.engine.sample import PlanSample
from planner.engine.transfer import Moved
from planner.machine.schema import Machine
from planner.model.movement import Movement
from planner.model.needs import Demand, gpu_rate
from planner.model.pipeline import lengths
from planner.model.scheduled import movements_of
from planner.model.strategies import Shape
from planner.plan.schema import Plan
from planner.results import FlowEstimate


@dataclass
class _Process:
    """One flow on the clock: waits, sets up, and plays its movements repeat after repeat."""

    demand: Demand
    estimate: FlowEstimate
    movements: Sequence[tuple[Movement, Shape]]
    begin: float = 0.0
    firsts: float = 0.0
    end: float = 0.0
    moves: list[Moved] = field(default_factory=list)
    queue: list[tuple[int, int]] = field(default_factory=list)


def run_virtual(
    plan: Plan, machine: Machine, demands: Sequence[Demand], flows: Sequence[FlowEstimate]
) -> PlanSample:
    """One sample of the plan; setup takes what the estimate says."""
    clock = VirtualClock()
    world = _World(plan, machine, clock)
    for demand, flow in zip(demands, flows, strict=True):
        pairs = movements_of(machine, demand.need, flow.schedule)
        world.add(_Process(demand, flow, pairs))
    world.start()
    clock.run()
    samples: dict[str, FlowSample] = {p.estimate.name: world.sample(p) for p in world.processes}
    ends = [p.end for p in world.processes] + list(world.compute_ends.values())
    return PlanSample(max(ends, default=0.0), samples)


class _World:
    """Processes, compute blocks, and who waits for whom."""

    def __init__(self, plan: Plan, machine: Machine, clock: VirtualClock) -> None:
        self.plan, self.machine, self.clock = plan, machine, clock
        self.processes: list[_Process] = []
        self.compute_ends: dict[str, float] = {}
        self.open: dict[str, int] = {}
        self.begun: set[int] = set()
        self.waiting: list[tuple[tuple[str, ...], float, object]] = []

    def add(self, process: _Process) -> None:
        self.processes.append(process)

    def start(self) -> None:
        """Begin whatever waits for nothing."""
        for process in self.processes:
            name = process.demand.flow
            self.open[name] = self.open.get(name, 0) + 1
            self.waiting.append((process.demand.after, process.demand.start, process))
        for name, block in self.plan.compute.items():
            self.open[name] = 1
            self.waiting.append((block.after, block.start, name))
        self._wake()

    def _wake(self) -> None:
        ready = [w for w in self.waiting if not any(self.open.get(n, 0) for n in w[0])]
        self.waiting = [w for w in self.waiting if w not in ready]
        for _, start, what in ready:
            at = max(self.clock.now, start)
            if isinstance(what, _Process):
                self.clock.at(at, partial(self._begin, what))
            elif isinstance(what, str):
                self.clock.at(at, partial(self._compute, what))

    def _ended(self, name: str) -> None:
        self.open[name] -= 1
        if self.open[name] == 0:
            self._wake()

    def _compute(self, name: str) -> None:
        block = self.plan.compute[name]
        seconds = block.time
        if seconds is None:
            seconds = (block.bytes or 0) / gpu_rate(self.machine, block.gpu)
        span = seconds * block.repeat
        end = self.clock.occupy(f"{block.gpu}.compute", self.clock.now, span)
        self.compute_ends[name] = end
        self.clock.at(end, lambda: self._ended(name))

    def _begin(self, process: _Process) -> None:
        process.begin = self.clock.now
        setup = sum(s.duration_s for s in process.estimate.setup if not s.overlapped)
        count = len(process.movements)
        process.queue = [(turn, k) for turn in range(process.estimate.repeat) for k in range(count)]
        self.clock.at(self.clock.now + setup, lambda: self._next(process))

    def _next(self, process: _Process) -> None:
        if not process.queue:
            process.end = self.clock.now
            self._ended(process.demand.flow)
            return
        turn, k = process.queue.pop(0)
        movement, shape = process.movements[k]
        start = self.clock.now

        def done(played: Played) -> None:
            if movement.stages(shape):
                process.moves.append(
                    Moved(start, played.finish, played.intervals, (None,) * len(played.intervals))
                )
            if turn == 0 and k == len(process.movements) - 1:
                process.firsts = self.clock.now
            self._next(process)

        chunks = lengths(movement.size, shape.chunk) if movement.size else []
        play(self.clock, movement.stages(shape), chunks, (shape.workers, shape.depth), done)

    def sample(self, process: _Process) -> FlowSample:
        """What the process took, with its setup."""
        setup = process.estimate.setup
        seconds = sum(s.duration_s for s in setup if not s.overlapped)
        steady = (process.end - process.begin - seconds) / process.estimate.repeat
        first = process.firsts - process.begin
        return FlowSample(process.begin, process.end, setup, steady, first, tuple(process.moves))


def virtual_record(flow: FlowEstimate, sample: FlowSample, samples: int) -> FlowRecord:
    """The record of a flow whose samples are all alike; nothing arrived that could be verified."""
    return FlowRecord(sample, (sample,) * samples, flow.schedule.cache, None, 0)
