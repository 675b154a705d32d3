"""Results made by hand: small, with round numbers that a test can check in its head.

One flow `weights` of 14 GB goes disk0 -> host0 -> gpu0. The read runs at 7 GB/s (2 s busy), the
DMA at 56 GB/s (0.25 s busy); overlapped they take 2.01 s, and setup adds 0.05 s: 2.06 s.
"""

from __future__ import annotations

from planner.results import (
    Bottleneck,
    Environment,
    Estimate,
    FlowEstimate,
    FlowRun,
    FlowSchedule,
    Hop,
    HopEstimate,
    HopRun,
    NodeUse,
    ObjectiveResult,
    Rejected,
    ResourceUse,
    Run,
    SetupStep,
    Verdict,
    WhatIf,
)

SIZE = 14 * 10**9
CHUNK = 16 * 2**20
READ = Hop(
    link="storage0",
    start="disk0",
    end="host0",
    strategy="buffered",
    chunk_bytes=CHUNK,
    depth=2,
    workers=4,
    coupled=True,
)
DMA = Hop(
    link="pcie0",
    start="host0",
    end="gpu0",
    strategy="pinned",
    chunk_bytes=CHUNK,
    depth=2,
    workers=4,
)
RING = 4 * 2 * CHUNK
SETUP = SetupStep(name="touch ring", duration_s=0.05, size_bytes=RING)
SLOW_DISK = Bottleneck(resource="storage0.forward", cause="bandwidth", share=0.995)
MET = Verdict(passed=True, exit_code=0, sentence="All 2 objectives met.")


def schedule(name: str = "weights") -> FlowSchedule:
    return FlowSchedule(flow=name, size_bytes=SIZE, hops=(READ, DMA), cache="warm")


def flow_estimate(name: str = "weights", *, repeat: int = 1) -> FlowEstimate:
    duration = 0.05 + repeat * 2.01
    return FlowEstimate(
        name=name,
        size_bytes=SIZE,
        repeat=repeat,
        schedule=schedule(name),
        hops=(
            HopEstimate(
                hop=READ, resource="storage0.forward", busy_s=2.0, rate_bytes_per_s=7e9, share=0.995
            ),
            HopEstimate(
                hop=DMA, resource="pcie0.forward", busy_s=0.25, rate_bytes_per_s=56e9, share=0.124
            ),
        ),
        setup=(SETUP,),
        duration_s=duration,
        first_s=2.06,
        steady_s=2.01,
        rate_bytes_per_s=SIZE * repeat / duration,
        start_s=0.0,
        finish_s=duration,
        exposed_s=duration,
        interval_s=(1.85, 2.27),
        bottleneck=SLOW_DISK,
        ring_bytes=RING,
        flat="4 MiB – 64 MiB chunks, 4 – 8 workers",
        arithmetic=("14 GB / 7 GB/s = 2.000 s",),
        rejected=(
            Rejected(
                strategies=("staged",),
                route=("disk0", "host0", "gpu0"),
                chunk_bytes=SIZE,
                depth=1,
                workers=1,
                duration_s=2.9,
                reason="the CPU copies every byte twice",
            ),
            Rejected(
                strategies=("gds",),
                route=("disk0", "gpu0"),
                reason="the machine has no link disk0 to gpu0",
            ),
        ),
    )


def objective(
    *,
    passed: bool | None = True,
    text: str = "weights.duration <= 2.5s",
    value: float | None = 2.06,
    limit: float = 2.5,
) -> ObjectiveResult:
    margin = None if value is None else (limit - value) / limit
    return ObjectiveResult(
        text=text,
        metric=text.split(maxsplit=1)[0],
        value=None if passed is None else value,
        limit=limit,
        unit="s",
        passed=passed,
        margin=margin,
        holds_while="storage0.forward >= 5.7 GB/s" if passed else None,
    )


def estimate(
    *flows: FlowEstimate,
    objectives: tuple[ObjectiveResult, ...] = (objective(),),
    verdict: Verdict = MET,
    emulated: bool = False,
) -> Estimate:
    made = flows or (flow_estimate(),)
    return Estimate(
        planner="0.1.0",
        plan={"name": "llm-load", "machine": "h200-node"},
        machine={
            "name": "h200-node",
            "links": {
                "storage0": {"ends": ["disk0", "host0"]},
                "pcie0": {"ends": ["host0", "gpu0"]},
            },
        },
        emulated=emulated,
        flows=made,
        makespan_s=max(flow.finish_s for flow in made),
        interval_s=(1.85, 2.27),
        bottleneck=SLOW_DISK,
        resources=(
            ResourceUse(name="storage0.forward", busy_s=2.0, share=0.971),
            ResourceUse(name="pcie0.forward", busy_s=0.25, share=0.121),
        ),
        nodes=(
            NodeUse(
                name="host0",
                peak_bytes=RING,
                pinned_bytes=RING,
                capacity_bytes=2**40,
                pinned_limit_bytes=2**30,
            ),
            NodeUse(name="gpu0", peak_bytes=SIZE, capacity_bytes=141 * 10**9),
        ),
        objectives=objectives,
        what_if=(WhatIf(resource="storage0.forward", factor=2.0, makespan_s=1.06),),
        provenance=("links measured on h200-node, spread 3 %",),
        verdict=verdict,
    )


def flow_run(
    name: str = "weights", *, factor: float = 1.1, verified: bool | None = True
) -> FlowRun:
    """A flow that took `factor` times as long as predicted; the disk is to blame for all of it.

    2.06 s x factor in the first run: the read takes the excess, setup and DMA are as predicted.
    """
    excess = 2.06 * (factor - 1)
    steady = 2.01 + excess
    return FlowRun(
        name=name,
        size_bytes=SIZE,
        schedule=schedule(name),
        samples_s=(steady, steady, steady),
        first_s=2.06 * factor,
        steady_s=steady,
        spread_s=0.018,
        p50_s=steady,
        p95_s=steady,
        duration_s=2.06 * factor,
        setup=(SETUP,),
        rate_bytes_per_s=SIZE / (2.06 * factor),
        predicted_s=2.06,
        predicted_first_s=2.06,
        predicted_steady_s=2.01,
        error_factor=factor,
        steady_error_factor=steady / 2.01,
        first_error_factor=factor,
        inside_interval=1.85 <= 2.06 * factor <= 2.27,
        hops=(
            HopRun(
                hop=READ,
                resource="storage0.forward",
                predicted_s=2.0,
                busy_s=2.0 + excess,
                error_factor=(2.0 + excess) / 2.0,
                rate_bytes_per_s=SIZE / (2.0 + excess),
                predicted_rate_bytes_per_s=7e9,
            ),
            HopRun(
                hop=DMA,
                resource="pcie0.forward",
                predicted_s=0.25,
                busy_s=0.25,
                error_factor=1.0,
                rate_bytes_per_s=56e9,
                predicted_rate_bytes_per_s=56e9,
            ),
        ),
        cache="warm",
        verified=verified,
        pinned_bytes=RING,
    )


def run(
    *flows: FlowRun,
    objectives: tuple[ObjectiveResult, ...] = (objective(),),
    verdict: Verdict = MET,
    emulated: bool = True,
) -> Run:
    made = flows or (flow_run(),)
    makespan = max(flow.duration_s for flow in made)
    return Run(
        planner="0.1.0",
        estimate=estimate(),
        environment=Environment(
            backend="host" if emulated else "cuda",
            emulated=emulated,
            machine="workstation",
            host="workstation",
            kernel="6.8",
            python="3.11",
            date="2026-11-29T12:00:00+00:00",
        ),
        samples=3,
        warmup=1,
        flows=made,
        makespan_s=makespan,
        makespan_samples_s=(makespan,) * 3,
        predicted_makespan_s=2.06,
        error_factor=makespan / 2.06,
        objectives=objectives,
        verdict=verdict,
    )
