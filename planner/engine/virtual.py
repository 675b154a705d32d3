"""A run on the null backend: every flow of the plan on one virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from planner.engine.acts import Act, acts
from planner.engine.backends.null import Played, Rules, play_together
from planner.engine.backends.virtual_clock import VirtualClock
from planner.engine.budget import buckets_of
from planner.engine.copies import with_sources
from planner.engine.flow_sample import FlowSample
from planner.engine.lines import parted
from planner.engine.outcome import FlowRecord
from planner.engine.pace import ALL, Gate, gates
from planner.engine.sample import PlanSample
from planner.engine.transfer import Moved
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.copies import brings, exposed_setup
from planner.model.cover import Cover
from planner.model.needs import Demand, gpu_rate
from planner.plan.schema import Plan
from planner.results import FlowEstimate


@dataclass
class _Process:
    """One flow on the clock: waits, sets up, and plays its movements repeat after repeat.

    `setup` are the seconds of setup that hide behind nothing, `paid` those that its first arrival
    waits for: a copy's are those of the flow that brings its bytes. `arrived` is when each repeat
    was there, where that is not when the movement ended: what is passed on ends later than where
    it comes from.
    """

    demand: Demand
    estimate: FlowEstimate
    acts: Sequence[Act]
    setup: float
    paid: float
    rules: Rules
    begin: float = 0.0
    firsts: float = 0.0
    end: float = 0.0
    moves: list[Moved] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)


@dataclass
class _Block:
    """One compute block on the clock: its gate opens, its runs stand in the queue of its GPU."""

    name: str
    gpu: str
    seconds: float
    repeat: int
    runs: list[tuple[float, float]] = field(default_factory=list)


def run_virtual(
    plan: Plan, machine: Machine, demands: Sequence[Demand], flows: Sequence[FlowEstimate]
) -> PlanSample:
    """One sample of the plan; setup takes what the estimate says.

    Where flows may meet, what is steady comes from a second sample, with everything set up.
    """
    found = _played(plan, machine, demands, flows)
    once = any(flow.repeat == 1 for flow in flows)
    if len(flows) < 2 or not once or not any(map(exposed_setup, flows)):
        return found
    ready = _played(plan, machine, demands, flows, ready=True)
    steady = {
        name: replace(sample, steady_s=ready.flows[name].steady_s) if sample.repeat == 1 else sample
        for name, sample in found.flows.items()
    }
    return replace(found, flows=steady)


def _played(
    plan: Plan,
    machine: Machine,
    demands: Sequence[Demand],
    flows: Sequence[FlowEstimate],
    *,
    ready: bool = False,
) -> PlanSample:
    """One sample, with setup or `ready`."""
    clock = VirtualClock()
    buckets = buckets_of(plan, credit=0.0)  # nobody is ever late on this clock
    played = acts(Topology(machine), demands, flows)
    by_name = {flow.name: flow for flow in flows}
    processes = [
        _Process(
            demand,
            flow,
            played[flow.name],
            0.0 if ready else exposed_setup(flow),
            0.0 if ready else exposed_setup(brings(by_name, flow)),
            Rules(demand.priority, buckets[demand.flow]),
        )
        for demand, flow in zip(demands, flows, strict=True)
    ]
    known = with_sources(gates(plan, demands), flows)
    world = _World(clock, known, {p.estimate.name: p for p in processes})
    blocks = [_block(plan, machine, name) for name in plan.compute]
    # Engines serve in order of issue: by name, so that the order of keys changes nothing.
    for process in sorted(processes, key=lambda p: p.estimate.name):
        world.follow(process.estimate.name, process.demand.start, partial(world.begin, process))
    for block in blocks:
        world.follow(block.name, plan.compute[block.name].start, partial(world.run, block, 0))
    clock.run()
    ends = [p.end for p in processes] + [block.runs[-1][1] for block in blocks]
    return PlanSample(
        max(ends, default=0.0),
        {p.estimate.name: _sample(p) for p in processes},
        {block.name: tuple(block.runs) for block in blocks},
    )


def _block(plan: Plan, machine: Machine, name: str) -> _Block:
    block = plan.compute[name]
    seconds = block.time
    if seconds is None:
        seconds = (block.bytes or 0) / gpu_rate(machine, block.gpu)
    return _Block(name, block.gpu, seconds, block.repeat)


class _World:
    """Who waits for whom on the clock, repeat by repeat."""

    def __init__(
        self, clock: VirtualClock, known: Mapping[str, Gate], processes: Mapping[str, _Process]
    ) -> None:
        self.clock, self.gates, self.processes = clock, known, processes
        self.ended = dict.fromkeys(known, 0)
        # What to look at again when one more repeat of a label has ended.
        self.waiting: dict[str, list[Callable[[], None]]] = {label: [] for label in known}

    def follow(self, label: str, start: float, action: Callable[[], None]) -> None:
        """Do `action` when the gate of `label` opens, at `start` at the earliest."""

        def opened() -> None:
            self.clock.at(max(self.clock.now, start), action)

        self.when(self.gates[label].before_all(), opened)

    def when(self, conditions: Sequence[tuple[str, int]], action: Callable[[], None]) -> None:
        """Do `action` at the instant at which all conditions hold."""
        for label, count in conditions:
            if self.ended[label] < count:
                self.waiting[label].append(partial(self.when, conditions, action))
                return
        action()

    def _end(self, label: str, count: int = 1) -> None:
        self.ended[label] += count
        again, self.waiting[label] = self.waiting[label], []
        for look in again:
            look()

    def run(self, block: _Block, turn: int) -> None:
        """The runs of a compute block, one after another."""
        if turn == block.repeat:
            self._end(block.name, ALL)
            return

        def ready() -> None:
            start, end = self.clock.occupy(f"{block.gpu}.compute", self.clock.now, block.seconds)
            block.runs.append((start, end))
            self.clock.at(end, ended)

        def ended() -> None:
            self._end(block.name)
            self.run(block, turn + 1)

        self.when(self.gates[block.name].before(turn), ready)

    def begin(self, process: _Process) -> None:
        """The setup of a flow, and then its repeats."""
        process.begin = self.clock.now
        self._count(process, 1)
        self.clock.at(self.clock.now + process.setup, partial(self._repeat, process, 0))

    def _count(self, process: _Process, more: int) -> None:
        """Tell a flow's engines that one more of its class has repeats to move, or one less."""
        tracks = [track for act in process.acts for track in act.tracks]
        stages = [stage for track in tracks for stage in track.stages]
        for name in {stage.resource for stage in stages if stage.kind == "engine"}:
            self.clock.count(name, process.demand.priority, more)

    def _repeat(self, process: _Process, turn: int) -> None:
        label = process.estimate.name
        if turn == process.estimate.repeat:
            process.end = process.arrived[-1]
            self._count(process, -1)
            self._end(label, ALL)
            return
        self.when(self.gates[label].before(turn), partial(self._move, process, turn, 0))

    def _move(self, process: _Process, turn: int, k: int) -> None:
        """Movement `k` of a repeat, or the end of the repeat behind the last."""
        if k == len(process.acts):
            if len(process.arrived) == turn:
                process.arrived.append(self.clock.now)
            if turn == 0:
                process.firsts = process.arrived[0]
            self._end(process.estimate.name)
            self._repeat(process, turn + 1)
            return
        act = process.acts[k]
        start = self.clock.now

        def done(played: Played) -> None:
            self._note(process, act, start, played)
            # Then the GPU reads from its own memory what it uses, once the bytes are there.
            self.clock.at(self.clock.now + act.tail, partial(self._move, process, turn, k + 1))

        takers = act.queue.start() if act.queue is not None else []

        def go() -> None:
            play_together(self.clock, act.tracks, takers, done, process.rules)

        self.clock.at(start + act.lead, go)

    def _note(self, process: _Process, act: Act, start: float, played: Played) -> None:
        """Keep what a movement took, and what it took each copy that it was passed on to."""
        if not any(track.stages for track in act.tracks):
            return
        servers = (None,) * len(played.intervals)
        whole = Moved(start, played.finish, played.intervals, servers, played.shares)
        own, passed = parted(whole, len(act.copies))
        process.moves.append(own)
        if not passed:
            return
        ends = played.ends[-len(passed) - 1 :]
        process.arrived.append(ends[0])
        for name, moved, end in zip(act.copies, passed, ends[1:], strict=True):
            copy = self.processes[name]
            copy.moves.append(moved)
            copy.arrived.append(end)


def _sample(process: _Process) -> FlowSample:
    """What a flow took, with its setup."""
    repeat = process.estimate.repeat
    steady = process.end - process.begin - process.paid
    if repeat > 1:
        steady = (process.end - process.firsts) / (repeat - 1)
    return FlowSample(
        process.begin,
        process.end,
        process.estimate.setup,
        steady,
        process.firsts - process.begin,
        tuple(process.moves),
        repeat,
    )


def virtual_record(
    flow: FlowEstimate, sample: FlowSample, samples: int, cover: Cover
) -> FlowRecord:
    """The record of a flow whose samples are all alike; nothing arrived that could be verified."""
    covers = (cover,) * samples
    return FlowRecord(sample, (sample,) * samples, flow.schedule.cache, None, 0, covers)
