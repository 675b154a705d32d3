"""All flows of a run: made ready once, sampled several times, given back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, cast

from planner.engine import pagecache
from planner.engine.awake import Waker
from planner.engine.backends import Backend
from planner.engine.budget import Buckets, Budgeted, Ledger, buckets_of, cores_cap
from planner.engine.caches import sweeper
from planner.engine.compute import Blocks
from planner.engine.copies import (
    Follower,
    copied_ends,
    follow,
    sampled,
    sources_first,
    with_sources,
)
from planner.engine.ends import THREADS, Ends, Options, make_ends
from planner.engine.flow import FlowRunner
from planner.engine.flow_sample import FlowSample
from planner.engine.hops_here import hops_here
from planner.engine.lines import all_hops
from planner.engine.marked import Marker
from planner.engine.measure import Interval
from planner.engine.outcome import FlowRecord
from planner.engine.pace import Gate, Pace, gates
from planner.engine.places import DevicePlace, HostPlace, SinkPlace
from planner.engine.precedence import Precedence
from planner.engine.progress import Progress
from planner.engine.release import Range, Releaser, let_go
from planner.engine.room import over, require_memory
from planner.engine.sample import PlanSample, Task, run_once
from planner.engine.task import Task as Share, shares
from planner.engine.terms import Terms
from planner.engine.verify import fetcher, verify
from planner.engine.waits import Stop
from planner.machine.schema import Hbm, Machine
from planner.model.cover import Cover
from planner.model.needs import Demand
from planner.model.strategies.pinned import helps
from planner.plan.schema import Plan
from planner.results import CacheState, Estimate, FlowEstimate

POISONS: Final = (0xA5, 0x5A)
"""What every target byte is before a sample, in turn: a byte that is never written differs from the
source in at least one of two samples, since it cannot equal both."""


@dataclass
class Running:
    """One flow while the run lasts."""

    demand: Demand
    estimate: FlowEstimate
    runner: FlowRunner | Follower
    first: FlowSample | None = None
    samples: list[FlowSample] = field(default_factory=list)
    cache: CacheState = "none"
    verified: bool | None = None

    def record(self, covers: Sequence[Cover]) -> FlowRecord:
        """What was collected; `covers` says when compute blocks ran in each sample."""
        if self.first is None:
            raise RuntimeError(f"flow {self.estimate.name} was never run")
        return FlowRecord(
            self.first,
            tuple(self.samples),
            self.cache,
            self.verified,
            self.runner.pinned_bytes,
            tuple(covers),
        )


class Session:
    """The flows of a plan on one backend.

    Parameters
    ----------
    plan, machine
        What to do, and where.
    device
        What does it.
    listener
        Told how far it is.
    cache
        The state of file sources for all flows; as each flow's schedule says where it is `None`.
    marks
        Named ranges for a profiler, where they were asked for.

    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        device: Backend,
        listener: Progress,
        cache: Literal["warm", "cold"] | None,
        marks: Marker | None = None,
    ) -> None:
        self.plan, self.machine, self.device = plan, machine, device
        self.listener, self.cache, self.marks = listener, cache, marks
        self.stop = Stop()
        self.flows: dict[str, Running] = {}
        self.compute: list[Mapping[str, tuple[Interval, ...]]] = []
        self.first = PlanSample(0.0, {})
        self.warnings: dict[str, None] = {}
        self.ledger = Ledger(plan.budget.pinned)
        self._releasers: dict[str, Releaser] = {}
        self._lean = False
        self._sweep: Callable[[], None] = lambda: None
        self._buckets: dict[str, Buckets] = {}
        self._gates: dict[str, Gate] = {}
        self._precedence: Precedence | None = None
        self._wakers: dict[str, Waker] = {}
        self._works: dict[str, Callable[[Pace], list[Interval]]] = {}
        self._undo = contextlib.ExitStack()

    def open(self, listed: Sequence[Demand], estimate: Estimate, options: Options) -> None:
        """Make every flow's ends, and compile what compute blocks need."""
        offsets = shares(self.plan, listed)
        self._buckets = buckets_of(self.plan)
        self._lean = over(self.plan.budget.pinned, sum(f.ring_bytes for f in estimate.flows))
        self._gates = with_sources(gates(self.plan, listed), estimate.flows)
        classes = {demand.priority for demand in listed}
        self._precedence = Precedence(classes, self.stop) if len(classes) > 1 else None
        every = [hop for flow in estimate.flows for hop in all_hops(flow.schedule)]
        self.warnings |= dict.fromkeys(hops_here(self.device, self.machine, every))
        size = sum(flow.size_bytes for flow in estimate.flows)
        self._sweep = sweeper((hop.strategy for hop in every), size, self._undo)
        made: dict[str, Running] = {}
        for i in sources_first(estimate.flows):
            demand, predicted = listed[i], estimate.flows[i]
            self._open_peers(predicted)
            if predicted.schedule.copy_of is None:
                flow, hops = self.plan.flows[demand.flow], predicted.schedule.hops
                share = Share(flow, demand.need, hops, offsets[i], demand.kept)
                ends = make_ends(self.device, self.machine, share, options)
                runner: FlowRunner | Follower = self._runner(demand, predicted, ends)
            else:
                runner = self._copy(demand, predicted, made[predicted.schedule.copy_of].runner)
            self._undo.callback(runner.close)
            if demand.need.name in self._releasers:  # ends before the files are closed
                self._undo.callback(self._releasers[demand.need.name].close)
            runner.open()
            made[predicted.name] = Running(demand, predicted, runner)
        self.flows = {flow.name: made[flow.name] for flow in estimate.flows}
        blocks = Blocks(self.plan, self.machine, self.device, self.stop)
        self._works = {name: blocks.work(name) for name in self.plan.compute}

    def _as_seen_by(self, demand: Demand) -> Backend:
        """The backend, with the order of classes and the budgets that the plan has."""
        device, cap = self.device, self.plan.flows[demand.flow].budget.pinned
        if cap is not None or self.ledger.limit is not None:
            device = cast("Backend", Budgeted(device, self.ledger, demand.need.name, cap))
        if self._precedence is not None:
            device = cast("Backend", self._precedence.backend(device, demand.priority))
        return device

    def _terms(self, demand: Demand) -> Terms:
        """What a flow is bound to."""
        end, need = self.machine.nodes[demand.need.end], demand.need
        return Terms(
            need.use,
            end.sector if isinstance(end, Hbm) else Terms().sector,
            need.pinned_budget,
            helps(self.machine, need.start, need.cores),
            self._buckets[demand.flow],
            self._release(demand),
            self.marks,
            cores_cap(self.plan, demand.flow),
        )

    def _release(self, demand: Demand) -> Callable[[Range], None] | None:
        """Who lets go of what the flow has read, where the plan asks for it."""
        if not self.plan.flows[demand.flow].release_cache:
            return None
        releaser = self._releasers[demand.need.name] = Releaser(demand.need.name)
        return releaser.put

    def _runner(self, demand: Demand, predicted: FlowEstimate, ends: Ends) -> FlowRunner:
        device, schedule = self._as_seen_by(demand), predicted.schedule
        terms, repeat = self._terms(demand), predicted.repeat
        return FlowRunner(device, self.machine, schedule, ends, self.stop, repeat, terms)

    def _copy(
        self, demand: Demand, predicted: FlowEstimate, source: FlowRunner | Follower
    ) -> FlowRunner | Follower:
        """What brings a copy of what `source` brings."""
        schedule = predicted.schedule
        ends = copied_ends(self.machine, source.ends, schedule, demand.kept)
        there = replace(demand.need, start=schedule.hops[0].start, end=schedule.hops[-1].end)
        require_memory(self.device, self.machine, there, demand.kept)
        if schedule.fan == "chain":
            return follow(source.root if isinstance(source, Follower) else source, schedule, ends)
        runner = self._runner(demand, predicted, ends)
        runner.source = source.root if isinstance(source, Follower) else source
        return runner

    def _open_peers(self, predicted: FlowEstimate) -> None:
        """Let the GPUs of peer copies reach each other for as long as this run lasts.

        The next run on the same backend may want to go through the host.
        """
        for hop in all_hops(predicted.schedule):
            start, end = self.machine.nodes[hop.start], self.machine.nodes[hop.end]
            if hop.strategy == "peer" and isinstance(start, Hbm) and isinstance(end, Hbm):
                self.device.open_peer(start.device, end.device)
                self._undo.callback(self.device.close_peer, start.device, end.device)

    def measure(self, samples: int, warmup: int, *, check: bool) -> list[float]:
        """Run all samples; returns the makespan of the first, then those of the measured ones.

        The first sample of all is kept as the first run. It counts as a measured sample only where
        no warm-up was asked for.
        """
        spans: list[float] = []
        for turn in range(max(1, warmup + samples)):
            self._prepare(POISONS[turn % len(POISONS)])
            self.device.start_clock()
            found = run_once(self._tasks(first=turn == 0), self.stop, self._poll)
            for releaser in self._releasers.values():
                releaser.flush()
            for name, sample in found.flows.items():
                flow = self.flows[name]
                flow.first = flow.first or sample
                if turn >= warmup:
                    flow.samples.append(sample)
                self.listener.finish(name, sample.end - sample.start)
            if turn == 0:
                self.first = found
                spans.append(found.makespan_s)
            if turn >= warmup:
                self.compute.append(found.compute)
                spans.append(found.makespan_s)
            if check:
                self._check()
            for name in self._releasers:  # what was read to verify, and pages that two chunks share
                let_go(self.flows[name].runner.ends.files)
        return spans

    def _prepare(self, poison: int) -> None:
        """Poison the targets and bring page cache and caches into the state of the plan."""
        for name, flow in self.flows.items():
            target = flow.runner.ends.target
            flow.runner.rewind()
            if isinstance(target, SinkPlace):
                target.sink.fresh()
            elif isinstance(target, HostPlace):
                for buffer in target.every:
                    buffer.fill(poison, THREADS)
            elif isinstance(target, DevicePlace):
                for memory in target.every:
                    self.device.fill(memory, poison)
            flow.runner.refresh()
            if flow.runner.ends.files:
                flow.cache = self._enforce(flow)
            size = flow.estimate.size_bytes * flow.estimate.repeat
            self.listener.start(name, size, flow.estimate.duration_s)
        self._sweep()
        for flow in self.flows.values():
            flow.runner.ends.renew()

    def _enforce(self, flow: Running) -> CacheState:
        """Bring a flow's files into the state that was predicted for, or asked for."""
        files, written = flow.runner.ends.files, self.plan.flows[flow.demand.flow].cache
        wanted = pagecache.wanted(self.cache or flow.estimate.schedule.cache, written)
        if wanted is None:
            return pagecache.state_of(pagecache.resident(files))
        if wanted >= 1 and not flow.samples and flow.first is None:
            # Whoever reads freshly written pages first also pays for marking them as used; a file
            # that is warm because it was read before has that behind it.
            pagecache.warm(files)
        state = pagecache.enforce(files, wanted)
        if wanted <= 0 and state not in ("cold", "guest-cold"):
            self.warnings[
                f"{flow.estimate.name}: the source could not be dropped from the page cache "
                f"(it is {state}): its file system or another process holds it"
            ] = None
        if wanted >= 1 and state != "warm":
            self.warnings[
                f"{flow.estimate.name}: the source does not stay in the page cache "
                f"(it is {state} after all of it was read): the memory is too small for it and for "
                "the rest, so it was predicted too fast"
            ] = None
        return state

    def _tasks(self, *, first: bool = False) -> list[Task]:
        """Flows and blocks; before the first sample nothing is woken: it pays for that itself."""
        tasks = [
            Task(
                name,
                self._gates[name],
                flow.demand.start,
                partial(sampled, flow.runner, self._lean),
                None if first else self._wake(name, flow.runner),
                frozenset() if first else flow.runner.servers(),
            )
            for name, flow in self.flows.items()
        ]
        for name, block in self.plan.compute.items():
            tasks.append(Task(name, self._gates[name], block.start, self._works[name]))
        return tasks

    def _wake(self, name: str, runner: FlowRunner | Follower) -> Callable[[], None] | None:
        """What wakes the engines of a flow: scratch memory of the device's own, in no budget."""
        if isinstance(runner, Follower):
            return None
        if name not in self._wakers:
            self._wakers[name] = Waker(self.device)
            self._undo.callback(self._wakers[name].close)
        return partial(runner.wake, self._wakers[name])

    def _poll(self) -> None:
        for name, flow in self.flows.items():
            self.listener.advance(name, flow.runner.progress())

    def _check(self) -> None:
        """Compare every flow's bytes with its source."""
        for name, flow in self.flows.items():
            self.listener.note(f"verifying {name}")
            ends = flow.runner.ends
            size, expected = flow.estimate.size_bytes, ends.expected
            target = ends.target
            if isinstance(target, DevicePlace) and target.touched is not None:
                size, expected = target.touched.size, target.touched.expected(expected)
            several = len(target.every) if isinstance(target, (HostPlace, DevicePlace)) else 1
            for turn in range(several):
                ends.turn(turn)
                verify(name, size, fetcher(self.device, target), expected)
            flow.verified = True

    def publish(self) -> None:
        """Give files that the plan asked for their names."""
        for flow in self.flows.values():
            target = flow.runner.ends.target
            if isinstance(target, SinkPlace) and self.plan.flows[flow.demand.flow].sink:
                target.sink.publish()

    def close(self) -> None:
        """Give everything back; later flows first, each whatever became of the others."""
        self._undo.close()
