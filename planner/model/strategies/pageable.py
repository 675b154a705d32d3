"""Ordinary host memory and a GPU by one call of the driver, which copies through its own buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.machine.curve import Curve
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.faults import fault_charges, fault_time
from planner.model.strategies.pinned import DOWN, UP
from planner.model.strategies.servers import piecewise
from planner.results import Cause


def _curve(crossing: Crossing) -> Curve | None:
    if crossing.hot:
        return crossing.curve("pageable_hot", "pageable")
    return crossing.curve("pageable", "pageable_hot")


def outside(crossing: Crossing) -> float:
    """The share of the buffer that lies in no cache: all of it unless it was just written.

    Where a hot copy of that size was measured, it holds what its cache really kept: the driver
    reads less of a last-level cache than its size says (32 MiB of 300 on one H200 machine).
    """
    if not crossing.hot:
        return 1.0
    hot = crossing.curve("pageable_hot")
    if hot is not None and hot.points and crossing.size <= hot.points[-1].size_bytes:
        return 0.0
    cache = crossing.ram.cache
    return 0.0 if cache is None else max(0.0, 1 - cache / max(1, crossing.size))


def _service(crossing: Crossing, curve: Curve) -> Callable[[float], float]:
    """Seconds of one copy: of a buffer that the cache holds in part, each part at its own speed."""
    cold, share = crossing.curve("pageable"), outside(crossing)
    if cold is None or cold is curve or share == 0.0:
        return curve.service
    return lambda size: (1 - share) * curve.service(size) + share * cold.service(size)


def _lacks(crossing: Crossing) -> str | None:
    if _curve(crossing) is None:
        return f"{crossing.resource} has no measured pageable copies"
    if crossing.before == "mapping" and crossing.ram.setup.map_touch is None:
        return f"{crossing.host} has no measured page faults of mappings"
    return None


def _stages(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """The caller waits meanwhile, and touches the pages of a mapping itself.

    The wire is busy only for its own share of the time, so that is what other flows lose of it.
    """
    curve = _curve(crossing)
    if curve is None:
        return ()
    charges = {crossing.resource: 1 / crossing.direction.rate}
    lag = curve.latency - curve.queued_gap
    service = _service(crossing, curve)
    if crossing.pieces:
        served = sum(count * service(size) for size, count in crossing.pieces)
        stage = replace(
            piecewise(crossing, served, curve.rate, lag, charges),
            idle=curve.idle,
            overhead=curve.overhead,
        )
        return (stage if stage.cause == "issue_overhead" else replace(stage, cause="host_copy"),)
    faults = fault_time(crossing)
    cause: Cause = "page_faults" if faults > 1 / curve.rate else "host_copy"
    return (
        Stage(
            # A thread that waits for pages holds no link.
            f"{crossing.host}.faults" if cause == "page_faults" else crossing.resource,
            "engine",
            lambda length: service(length) + length * faults,
            lag=lag,
            idle=curve.idle,
            overhead=curve.overhead,
            charges=charges | fault_charges(crossing),
            cause=cause,
            blocks=True,
        ),
    )


H2D = Strategy(
    "pageable",
    UP,
    kinds("pageable", "mapping"),
    kinds("device"),
    _lacks,
    _stages,
    nothing,
    single=True,
)
D2H = Strategy(
    "pageable", DOWN, kinds("device"), kinds("pageable"), _lacks, _stages, nothing, single=True
)
