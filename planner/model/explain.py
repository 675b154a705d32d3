"""The arithmetic of a prediction with the numbers put in, for whoever wants to check it by hand."""

from __future__ import annotations

from planner.model.choose import Candidate
from planner.model.compose import Fluid
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.pipeline import Stage
from planner.model.strategies import Shape
from planner.units import format_rate, format_size, format_time
from planner.wording import counted


def arithmetic(need: Need, candidate: Candidate, fluids: list[Fluid]) -> tuple[str, ...]:
    """One line a stage, one a movement, and the sum."""
    lines: list[str] = []
    for movement, shape, flow in zip(
        candidate.way.movements, candidate.shapes, fluids, strict=True
    ):
        lines.extend(_stage_line(stage, shape) for stage in movement.stages(shape))
        line = _movement_line(movement, shape, flow, need.rate)
        if line:
            lines.append(line)
        if movement.overhead:
            lines.append(f"in that, the caller's own work: {format_time(movement.overhead)}")
        waking = movement.waking(shape)
        if waking:
            lines.append(
                f"in that, waking {counted(shape.workers, 'worker')}: {format_time(waking)}"
            )
        if movement.tail:
            lines.append(
                f"the GPU reads what it uses from its own memory: {format_time(movement.tail)}"
            )
    lines.extend(f"once: {s.name} {format_time(s.duration_s)}" for s in candidate.setup)
    total = candidate.setup_seconds + need.repeat * candidate.steady
    lines.append(
        f"duration = {format_time(candidate.setup_seconds)} setup + "
        f"{need.repeat} x {format_time(candidate.steady)} = {format_time(total)}"
    )
    return tuple(lines)


def _stage_line(stage: Stage, shape: Shape) -> str:
    """`host0.copy: 12 workers, each 6 MiB in 1.2 ms = 62 GB/s`."""
    each = stage.seconds(shape.chunk)
    if each <= 0:
        return f"{stage.resource}: {format_size(shape.chunk)} in no time"
    servers = shape.workers if stage.kind == "pool" else 1
    who = f"{counted(servers, 'worker')}, each " if stage.kind == "pool" else ""
    return (
        f"{stage.resource}: {who}{format_size(shape.chunk)} in {format_time(each)} "
        f"= {format_rate(servers * shape.chunk / each)}"
    )


def _movement_line(movement: Movement, shape: Shape, flow: Fluid, cap: float | None) -> str:
    """`steady: 5.1 ms until full and drained + 13.5 GB / 52.1 GB/s = 0.264 s`."""
    if flow.total == 0.0:
        return ""
    route = " → ".join((movement.crossings[0].start, *(c.end for c in movement.crossings)))
    ring = f" (ring {format_size(shape.ring)})" if movement.has_ring else ""
    return (
        f"{route}{ring}: {format_time(flow.delay)} + {format_size(movement.size)} / "
        f"{format_rate(flow.cap if cap is None else min(flow.cap, cap))} = "
        f"{format_time(flow.under(cap, movement.size))}"
    )
