"""Do what an estimate says, for real, and measure it."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from planner._version import VERSION
from planner.engine import pagecache
from planner.engine.backends import Backend, open_backend
from planner.engine.ends import Ends, Options, make_ends
from planner.engine.flow import FlowRunner, FlowSample
from planner.engine.outcome import FlowRecord, flow_run
from planner.engine.places import DevicePlace, HostPlace, SinkPlace
from planner.engine.progress import Progress, Quiet
from planner.engine.sample import PlanSample, Task, run_once
from planner.engine.strategies import stages_of
from planner.engine.verify import fetcher, verify as compare
from planner.engine.virtual import run_virtual
from planner.engine.waits import Stop
from planner.errors import UnavailableError
from planner.machine.schema import Hbm, Machine
from planner.model.needs import Demand, demands as needs_of, gpu_rate
from planner.plan.schema import Plan
from planner.results import CacheState, Environment, Estimate, FlowRun, Run, Verdict

POISON = 0xA5
"""What every target byte is before a sample: a byte that was never written is found."""


@dataclass
class _Flow:
    """One flow while the run lasts."""

    demand: Demand
    runner: FlowRunner
    first: FlowSample | None = None
    samples: list[FlowSample] = field(default_factory=list)
    cache: CacheState = "none"
    verified: bool | None = None


def execute(
    plan: Plan,
    machine: Machine,
    *,
    estimate: Estimate,
    backend: Literal["auto", "cuda", "host", "null"] = "auto",
    samples: int = 5,
    warmup: int = 1,
    cache: Literal["warm", "cold"] | None = None,
    verify: bool = True,
    overwrite: bool = False,
    keep_scratch: bool = False,
    progress: Progress | None = None,
    command: str | None = None,
) -> Run:
    """Run the schedules of `estimate` and measure them.

    Parameters
    ----------
    plan, machine
        What to do, and the machine that it runs on.
    estimate
        The prediction for that machine; its schedules are what is run.
    backend
        `cuda`, `host` (GPU memory emulated in RAM), `null` (a virtual clock), or `auto`.
    samples, warmup
        Measured and discarded samples. The very first sample of all is the first run.
    cache
        State to bring file sources into; the plan's own where it is `None`.
    verify
        Compare every byte after each sample, outside of its time.
    overwrite, keep_scratch
        Whether sinks may replace files, and whether scratch files stay.
    progress, command
        Who is told how far it is, and the command to keep in the record.

    Raises
    ------
    UnavailableError
        This computer cannot run it.
    InfeasibleError
        It does not fit.
    ExecutionError
        It began and failed.

    """
    listed = needs_of(plan, machine, {f.name: 1.0 for f in estimate.flows})
    listener = progress or Quiet()
    if backend == "null":
        sample = run_virtual(plan, machine, listed, estimate.flows)
        records = {f.name: _virtual_record(f.name, sample, samples) for f in estimate.flows}
        flows = [flow_run(machine, f, records[f.name]) for f in estimate.flows]
        spans = [sample.makespan_s] * (samples + 1)
        where = _environment("null", machine, None, command)
        return _result(estimate, where, flows, spans, warmup)
    with _opened(backend) as device, contextlib.ExitStack() as undo:
        _require(device, machine, estimate)
        options = Options(overwrite, keep_scratch, sync=cache == "cold", note=listener.note)
        session = _Session(plan, machine, device, listener, cache)
        undo.callback(session.close)
        session.open(listed, estimate, options)
        spans = session.measure(samples, warmup, check=verify)
        session.publish()
        flows = [flow_run(machine, f, session.record(f.name)) for f in estimate.flows]
        where = _environment(device.name, machine, device, command)
        return _result(estimate, where, flows, spans, warmup)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Backend]:
    device = open_backend(name)
    try:
        yield device
    finally:
        device.close()


def _require(device: Backend, machine: Machine, estimate: Estimate) -> None:
    """Refuse what cannot be run before anything is touched."""
    if not device.emulated and machine.emulated:
        raise UnavailableError(
            f"{machine.name} has emulated GPUs, the {device.name} backend has real ones",
            hint="calibrate again with that backend",
        )
    for flow in estimate.flows:
        for hop in flow.schedule.hops:
            nodes = machine.nodes[hop.start], machine.nodes[hop.end]
            stages_of(machine, hop)
            gpus = [node.device for node in nodes if isinstance(node, Hbm)]
            reason = device.lacks(hop.strategy, (nodes[0].kind, nodes[1].kind), gpus)
            if reason is not None:
                raise UnavailableError(f"flow {flow.name}: {hop.strategy}: {reason}")


class _Session:
    """All flows of a run, made ready once and sampled several times."""

    def __init__(
        self, plan: Plan, machine: Machine, device: Backend, listener: Progress, cache: str | None
    ) -> None:
        self.plan, self.machine, self.device = plan, machine, device
        self.listener, self.cache = listener, cache
        self.stop = Stop()
        self.flows: dict[str, _Flow] = {}
        self.predicted: dict[str, float] = {}
        self.spinners: dict[str, Any] = {}

    def open(self, listed: Sequence[Demand], estimate: Estimate, options: Options) -> None:
        """Make every flow's ends, and compile what compute blocks need."""
        for demand, predicted in zip(listed, estimate.flows, strict=True):
            flow = self.plan.flows[demand.flow]
            hops = predicted.schedule.hops
            ends: Ends = make_ends(self.device, self.machine, flow, demand.need, hops, options)
            runner = FlowRunner(
                self.device, self.machine, predicted.schedule, ends, self.stop, predicted.repeat
            )
            self.flows[predicted.name] = _Flow(demand, runner)
            self.predicted[predicted.name] = predicted.duration_s
            for hop in hops:
                start, end = self.machine.nodes[hop.start], self.machine.nodes[hop.end]
                if hop.strategy == "peer" and isinstance(start, Hbm) and isinstance(end, Hbm):
                    self.device.open_peer(start.device, end.device)
        for name, block in self.plan.compute.items():
            node = self.machine.nodes[block.gpu]
            if isinstance(node, Hbm):
                self.device.attach(node.device)
                self.spinners[name] = self.device.compute(node.device, self.stop.check)

    def measure(self, samples: int, warmup: int, *, check: bool) -> list[float]:
        """Run all samples; returns the makespan of the first, then those of the measured ones.

        The first sample of all is kept as the first run. It counts as a measured sample only where
        no warm-up was asked for.
        """
        spans: list[float] = []
        for turn in range(max(1, warmup + samples)):
            self._prepare()
            self.device.start_clock()
            found = run_once(self._tasks(), self.stop, self._poll)
            for name, sample in found.flows.items():
                flow = self.flows[name]
                flow.first = flow.first or sample
                if turn >= warmup:
                    flow.samples.append(sample)
                self.listener.finish(name, sample.end - sample.start)
            if turn == 0:
                spans.append(found.makespan_s)
            if turn >= warmup:
                spans.append(found.makespan_s)
            if check:
                self._check()
        return spans

    def _prepare(self) -> None:
        """Poison the targets and bring the page cache into its state."""
        for name, flow in self.flows.items():
            target = flow.runner.ends.target
            if isinstance(target, SinkPlace):
                target.sink.fresh()
            elif isinstance(target, HostPlace):
                target.buffer.array.fill(POISON)
            elif isinstance(target, DevicePlace) and target.buffer is not None:
                self.device.fill(target.buffer, POISON)
            files = flow.runner.ends.files
            if files:
                flow.cache = pagecache.enforce(files, self._wanted(flow))
            size = flow.demand.need.size * flow.demand.need.repeat
            self.listener.start(name, size, self.predicted[name])

    def _wanted(self, flow: _Flow) -> float:
        """The share of the source that the page cache must hold."""
        if self.cache is not None:
            return 1.0 if self.cache == "warm" else 0.0
        written = self.plan.flows[flow.demand.flow].cache
        if written in ("warm", "auto"):
            return 1.0
        return 0.0 if written == "cold" else float(written)

    def _tasks(self) -> list[Task]:
        tasks = [
            Task(name, flow.demand.after, flow.demand.start, flow.runner.sample)
            for name, flow in self.flows.items()
        ]
        tasks = [Task(task.name, self._labels(task.after), task.start, task.work) for task in tasks]
        for name, block in self.plan.compute.items():
            tasks.append(Task(name, self._labels(block.after), block.start, self._compute(name)))
        return tasks

    def _labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """The copies of the flows `names`, and compute blocks as they are."""
        copies = [label for label, f in self.flows.items() if f.demand.flow in names]
        return (*copies, *(name for name in names if name in self.plan.compute))

    def _compute(self, name: str) -> Any:
        block = self.plan.compute[name]
        seconds = block.time
        if seconds is None:
            seconds = (block.bytes or 0) / gpu_rate(self.machine, block.gpu)
        spin, node = self.spinners[name], self.machine.nodes[block.gpu]

        def work() -> None:
            if isinstance(node, Hbm):
                self.device.attach(node.device)
            for _ in range(block.repeat):
                spin(seconds)

        return work

    def _poll(self) -> None:
        for name, flow in self.flows.items():
            self.listener.advance(name, flow.runner.progress())

    def _check(self) -> None:
        """Compare every flow's bytes with its source."""
        for name, flow in self.flows.items():
            self.listener.note(f"verifying {name}")
            ends = flow.runner.ends
            compare(name, flow.demand.need.size, fetcher(self.device, ends.target), ends.expected)
            flow.verified = True

    def publish(self) -> None:
        """Give files that the plan asked for their names."""
        for flow in self.flows.values():
            target = flow.runner.ends.target
            if isinstance(target, SinkPlace) and self.plan.flows[flow.demand.flow].sink:
                target.sink.publish()

    def record(self, name: str) -> FlowRecord:
        """What was collected of a flow."""
        flow = self.flows[name]
        if flow.first is None:
            raise RuntimeError(f"flow {name} was never run")
        return FlowRecord(
            flow.first,
            tuple(flow.samples),
            flow.cache,
            flow.verified,
            flow.runner.pinned_bytes,
        )

    def close(self) -> None:
        """Give everything back; later flows first."""
        for flow in reversed(list(self.flows.values())):
            flow.runner.close()
        self.flows.clear()
        self.spinners.clear()


def _virtual_record(name: str, sample: PlanSample, samples: int) -> FlowRecord:
    one = sample.flows[name]
    return FlowRecord(one, (one,) * max(1, samples), "none", None, 0)


def _environment(
    name: Literal["null", "host", "cuda"],
    machine: Machine,
    device: Backend | None,
    command: str | None,
) -> Environment:
    """Where and how it was measured."""
    indices = [node.device for node in machine.nodes.values() if isinstance(node, Hbm)]
    about = device.describe(indices) if device is not None else None
    dates = [source.when for source in machine.sources.values() if source.kind == "measured"]
    return Environment(
        backend=name,
        emulated=device is None or device.emulated,
        machine=machine.name,
        host=platform.node(),
        kernel=platform.release(),
        python=sys.version.split()[0],
        date=datetime.now(tz=UTC).isoformat(timespec="seconds"),
        gpus=about.gpus if about else (),
        driver=machine.hardware.get("driver") or (about.driver if about else None),
        libraries=about.libraries if about else {},
        command=command,
        calibrated=max(dates, default=None),
    )


def _result(
    estimate: Estimate,
    where: Environment,
    flows: Sequence[FlowRun],
    spans: Sequence[float],
    warmup: int,
) -> Run:
    # As for a flow: the first run is what the prediction with its setup is held against.
    makespan, steadies = spans[0], tuple(spans[1:])
    predicted = estimate.makespan_s
    warnings = list(estimate.warnings)
    if where.backend == "null":
        warnings.append("null backend: a virtual clock, nothing was moved")
    return Run(
        planner=VERSION,
        estimate=estimate,
        environment=where,
        samples=len(steadies),
        warmup=warmup,
        flows=tuple(flows),
        makespan_s=makespan,
        makespan_samples_s=steadies,
        predicted_makespan_s=predicted,
        error_factor=makespan / predicted if predicted > 0 else 0.0,
        warnings=tuple(warnings),
        verdict=Verdict(passed=True, exit_code=0, sentence="No objectives."),
    )
