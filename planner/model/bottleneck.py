"""What limits a flow, and why."""

from __future__ import annotations

from collections.abc import Sequence

from planner.model.choose import Candidate
from planner.model.compose import Fluid
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.pipeline import Stage
from planner.model.strategies import Shape
from planner.results import Bottleneck, Cause

DOMINANT = 0.5
"""Setup or latency is named as the limit when it takes more than half of the time."""
SATURATED = 0.9
"""A server that serves for less of the time than this is not what holds the pipeline back: then the
slots are, which stages pass to each other too seldom."""


def bottleneck(
    need: Need, candidate: Candidate, fluids: list[Fluid], *, streamed: bool = False
) -> Bottleneck:
    """The resource with the largest busy share of the flow's duration, and the cause.

    `streamed` movements hand over chunk by chunk, others as a whole, one after another.
    """
    duration = candidate.duration(need.repeat)
    if duration <= 0:
        return Bottleneck(resource="none", cause="latency", share=0.0)
    if candidate.setup_seconds > DOMINANT * duration:
        longest = max(candidate.setup, key=lambda s: s.duration_s)
        return Bottleneck(
            resource=longest.name, cause="setup", share=candidate.setup_seconds / duration
        )
    rows = []
    for movement, shape, flow in zip(
        candidate.way.movements, candidate.shapes, fluids, strict=True
    ):
        for stage, used in zip(movement.stages(shape), _use(movement, shape, flow), strict=True):
            busy = used * flow.total * need.repeat
            rows.append((busy, stage, used, movement, shape, flow))
    reading = sum(m.tail for m in candidate.way.movements) * need.repeat
    if reading > max((row[0] for row in rows), default=0.0):
        # The copy is the smaller part: the GPU reads what it got over and over.
        name = candidate.way.crossings[-1].gpu_name
        return Bottleneck(
            resource=f"{name}.memory", cause="bandwidth", share=min(1.0, reading / duration)
        )
    if not rows:
        return Bottleneck(resource="none", cause="latency", share=0.0)
    busy, stage, used, movement, shape, flow = max(rows, key=lambda row: row[0])
    cause = _cause(stage, used, movement, shape, flow)
    in_series = not streamed and cause != "latency" and _in_series(fluids)
    if in_series:
        cause = "serial_stages"
    elif cause == "serial_stages" and movement.has_ring and 2 * shape.ring > need.pinned_budget:
        # The slots go round too seldom because no more of them may be pinned.
        return Bottleneck(
            resource=f"{movement.ring_hosts[0]}.pinned",
            cause="capacity",
            share=min(1.0, busy / duration),
        )
    return Bottleneck(resource=stage.resource, cause=cause, share=min(1.0, busy / duration))


def _in_series(fluids: Sequence[Fluid]) -> bool:
    """Whether legs wait for each other for so long that none of them is the limit by itself."""
    legs = [flow.total for flow in fluids]
    return len(legs) > 1 and max(legs) < SATURATED * sum(legs)


def _use(movement: Movement, shape: Shape, flow: Fluid) -> list[float]:
    """The share of its time in which each stage really serves, all its servers together."""
    if flow.total == 0.0:
        return [0.0 for _ in flow.busy]
    chunks = movement.size / shape.chunk
    return [
        chunks * s.seconds(shape.chunk) / shape.workers / flow.total
        if s.kind == "pool"
        else busy / flow.total
        for s, busy in zip(movement.stages(shape), flow.busy, strict=True)
    ]


def _cause(stage: Stage, used: float, movement: Movement, shape: Shape, flow: Fluid) -> Cause:
    chunk = min(shape.chunk, movement.size)
    waits = sum(s.lag for s in movement.stages(shape))
    if movement.single and waits > DOMINANT * flow.total:
        return "latency"
    if stage.cause == "bandwidth" and stage.kind == "engine":
        # The engine's time that does not grow with the bytes: what it costs to issue a chunk.
        overhead = 2 * stage.seconds(chunk) - stage.seconds(2 * chunk)
        if overhead > DOMINANT * stage.seconds(chunk):
            return "issue_overhead"
    if used < SATURATED and not movement.single and flow.delay < (1 - SATURATED) * flow.total:
        return "serial_stages"
    return stage.cause
