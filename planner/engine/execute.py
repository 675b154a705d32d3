"""Do what an estimate says, for real, and measure it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from planner._version import VERSION
from planner.engine.backends import Backend, open_backend
from planner.engine.budget import Workers, require_cores
from planner.engine.ends import Options
from planner.engine.environment import environment, waived
from planner.engine.lines import all_hops, groups_of
from planner.engine.marked import Marker
from planner.engine.outcome import compute_runs, cover_of, flow_run
from planner.engine.progress import Progress, Quiet
from planner.engine.session import Session
from planner.engine.strategies import stages_of_hops
from planner.engine.timeline import timeline
from planner.engine.virtual import run_virtual, virtual_record
from planner.errors import InputError, UnavailableError
from planner.machine.schema import Hbm, Machine
from planner.model.classes import fitted
from planner.model.needs import Demand, demands as needs_of
from planner.plan.schema import Plan
from planner.results import (
    ComputeRun,
    Environment,
    Estimate,
    FlowRun,
    Hop,
    Run,
    Timeline,
    Verdict,
)


def execute(  # noqa: PLR0913 - one keyword an option of the run
    plan: Plan,
    machine: Machine,
    *,
    estimate: Estimate,
    backend: Literal["auto", "cuda", "host", "null"] | Backend = "auto",
    samples: int = 5,
    warmup: int = 1,
    cache: Literal["warm", "cold"] | None = None,
    verify: bool = True,
    overwrite: bool = False,
    keep_scratch: bool = False,
    nvtx: bool = False,
    progress: Progress | None = None,
    command: str | None = None,
) -> Run:
    """Run the schedules of `estimate` and measure them.

    Parameters
    ----------
    plan, machine, estimate
        What to do, the machine that it runs on, and the prediction for it, which is what is run.
    backend
        `cuda`, `host` (GPU memory in RAM), `null` (a virtual clock), `auto`, or one that is open.
    samples, warmup
        Measured and discarded samples. The very first sample of all is the first run.
    cache
        State to bring file sources into; the one that was predicted for where it is `None`.
    verify
        Compare every byte after each sample, outside of its time.
    overwrite, keep_scratch, nvtx
        Whether sinks may replace files, scratch files stay, a profiler gets ranges (needs CuPy).
    progress, command
        Who is told how far it is, and the command to keep in the record.

    Raises
    ------
    UnavailableError, InfeasibleError, InputError
        It cannot be run here, it does not fit, or a file is missing, short, or in the way.
    ExecutionError
        It began and failed.
    """
    if samples < 1 or warmup < 0:
        raise InputError(f"{samples} samples and {warmup} warm-ups: 1 and 0 are the least")
    machine = fitted(plan, machine)  # classes written out where need be
    listed = _demands(plan, machine, estimate)
    if backend == "null":
        return _virtually(plan, machine, listed, estimate, samples, command)
    listener = progress or Quiet()
    options = Options(overwrite, keep_scratch, sync=cache == "cold", note=listener.note)
    with _opened(backend) as device, contextlib.ExitStack() as undo:
        require(device, machine, estimate)
        require_cores(plan, _workers(machine, estimate, listed))
        session = Session(plan, machine, device, listener, cache, _ranges() if nvtx else None)
        undo.callback(session.close)
        session.open(listed, estimate, options)
        spans = session.measure(samples, warmup, check=verify)
        session.publish()
        found = _measured(session, estimate, spans, warmup)
        return run_of(estimate, environment(device.name, machine, device, command), found)


def _measured(
    session: Session, estimate: Estimate, spans: Sequence[float], warmup: int
) -> Measured:
    """What a session found."""
    covers = [cover_of(compute) for compute in session.compute]
    records = ((f, session.flows[f.name].record(covers)) for f in estimate.flows)
    return Measured(
        tuple(flow_run(session.machine, f, record) for f, record in records),
        compute_runs(session.plan, estimate, session.compute),
        tuple(spans),
        warmup,
        (*estimate.warnings, *session.warnings),
        waived(session.device, session.machine),
        timeline(session.machine, estimate, session.first),
    )


def _require_single(listed: Sequence[Demand]) -> None:
    """Refuse flows that stand for many: one of them alone shares nothing, and takes another time.

    Raises
    ------
    UnavailableError
        If a flow stands for more than one.

    """
    for demand in listed:
        if demand.members > 1:
            raise UnavailableError(
                f"flow {demand.need.name} stands for {demand.members} equal flows (for_each), "
                f"which are predicted and not yet carried out",
                hint="planner estimate predicts them; name one of them to run it",
            )


def _demands(plan: Plan, machine: Machine, estimate: Estimate) -> list[Demand]:
    """What the plan asks for, with the page cache in the state that was predicted for."""
    plain = needs_of(plan, machine)
    pairs = zip(plain, estimate.flows, strict=True)
    listed = needs_of(plan, machine, {d.flow: float(f.schedule.cache == "warm") for d, f in pairs})
    _require_single(listed)
    return listed


def _virtually(
    plan: Plan,
    machine: Machine,
    listed: Sequence[Demand],
    estimate: Estimate,
    samples: int,
    command: str | None,
) -> Run:
    """Play it on a virtual clock: every sample is the same."""
    sample = run_virtual(plan, machine, listed, estimate.flows)
    cover = cover_of(sample.compute)
    flows = tuple(
        flow_run(machine, f, virtual_record(f, sample.flows[f.name], samples, cover))
        for f in estimate.flows
    )
    compute = compute_runs(plan, estimate, [sample.compute])
    warnings = (*estimate.warnings, "null backend: a virtual clock, nothing was moved")
    seen = timeline(machine, estimate, sample)
    found = Measured(
        flows, compute, (sample.makespan_s,) * (samples + 1), 0, warnings, timeline=seen
    )
    return run_of(estimate, environment("null", machine, None, command), found)


def _ranges() -> Marker:
    from planner.engine.backends.cuda_marks import nvtx

    return nvtx()


@contextlib.contextmanager
def _opened(backend: str | Backend) -> Iterator[Backend]:
    if not isinstance(backend, str):
        yield backend
        return
    device = open_backend(backend)
    try:
        yield device
    finally:
        device.close()


def require(device: Backend, machine: Machine, estimate: Estimate) -> None:
    """Refuse what cannot be run before anything is touched.

    Raises
    ------
    UnavailableError
        If the machine's GPUs are emulated and the backend's are real, or a strategy is one that
        the engine or the devices cannot do.

    """
    if not device.emulated and machine.emulated:
        raise UnavailableError(
            f"{machine.name} has emulated GPUs, the {device.name} backend has real ones",
            hint="calibrate again with that backend",
        )
    for flow in estimate.flows:
        groups_of(flow.schedule)  # raises where several ways cannot share a queue
        for hop in all_hops(flow.schedule):
            nodes = machine.nodes[hop.start], machine.nodes[hop.end]
            gpus = [node.device for node in nodes if isinstance(node, Hbm)]
            reason = device.lacks(hop.strategy, (nodes[0].kind, nodes[1].kind), gpus)
            if reason is not None:
                raise UnavailableError(f"flow {flow.name}: {hop.strategy}: {reason}")


def _workers(machine: Machine, estimate: Estimate, listed: Sequence[Demand]) -> Workers:
    """The most threads that move bytes in each schedule; those that only issue take no core."""
    found: Workers = {}
    for demand, flow in zip(listed, estimate.flows, strict=True):
        busy = [
            sum(group[0].workers for group in routes if _busy(machine, group))
            for routes in groups_of(flow.schedule)
        ]
        found[flow.name] = demand.flow, max([1, *busy])
    return found


def _busy(machine: Machine, group: Sequence[Hop]) -> bool:
    """Whether the workers of hops that run together move bytes themselves."""
    return any(stage.kind == "pool" for own in stages_of_hops(machine, group) for stage in own)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run found: its parts, the first makespan and those of the samples, and remarks."""

    flows: tuple[FlowRun, ...]
    compute: tuple[ComputeRun, ...]
    spans: tuple[float, ...]
    warmup: int
    warnings: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    timeline: Timeline | None = None


def run_of(estimate: Estimate, where: Environment, found: Measured) -> Run:
    """The result. As for a flow, the first run is what the prediction with its setup is held to."""
    first, steadies = found.spans[0], found.spans[1:]
    predicted = estimate.makespan_s
    return Run(
        planner=VERSION,
        estimate=estimate,
        environment=where,
        samples=len(steadies),
        warmup=found.warmup,
        flows=found.flows,
        compute=found.compute,
        makespan_s=first,
        makespan_samples_s=steadies,
        predicted_makespan_s=predicted,
        error_factor=first / predicted if predicted > 0 else 0.0,
        timeline=found.timeline,
        waived=found.waived,
        warnings=found.warnings,
        verdict=Verdict(passed=True, exit_code=0, sentence="No objectives."),
    )
