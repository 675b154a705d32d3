"""Host memory and a GPU's memory: by the driver, through a ring, or straight from pinned pages."""

from __future__ import annotations

from planner.machine.curve import Curve
from planner.machine.schema import CopyName
from planner.model.pipeline import Stage
from planner.model.strategies.base import (
    Crossing,
    Kind,
    Shape,
    Strategy,
    copy_stage,
    dma,
    nothing,
    step,
    steps,
)
from planner.results import SetupStep


def _pinned_curve(crossing: Crossing) -> Curve | None:
    return crossing.curve("pinned", "registered")


def _no_pinned(crossing: Crossing) -> str | None:
    if _pinned_curve(crossing) is None:
        return f"{crossing.resource} has no measured pinned copies"
    return None


def _pinned(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = _pinned_curve(crossing)
    return (dma(crossing, curve, shape),) if curve else ()


def _pageable_curve(crossing: Crossing) -> Curve | None:
    if crossing.hot:
        return crossing.curve("pageable_hot", "pageable")
    return crossing.curve("pageable", "pageable_hot")


def _no_pageable(crossing: Crossing) -> str | None:
    if _pageable_curve(crossing) is None:
        return f"{crossing.resource} has no measured pageable copies"
    return None


def _pageable(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """The driver copies through a small buffer of its own; the caller waits meanwhile.

    The wire is busy only for its own share of the time, so that is what other flows lose of it.
    """
    curve = _pageable_curve(crossing)
    if curve is None:
        return ()
    charges = {crossing.resource: 1 / crossing.direction.rate}
    return (
        Stage(
            crossing.resource,
            "engine",
            curve.service,
            lag=curve.latency - curve.queued_gap,
            charges=charges,
            cause="host_copy",
        ),
    )


def _outward(crossing: Crossing) -> bool:
    """Whether the bytes leave the GPU."""
    return crossing.before == "device"


def _copy_name(crossing: Crossing) -> CopyName:
    return "save_memory" if _outward(crossing) else "memory"


def _no_staged(crossing: Crossing) -> str | None:
    if _copy_name(crossing) not in crossing.ram.copy_rates:
        return f"{crossing.host} has no measured copies between memory and a ring"
    return _no_pinned(crossing)


def _staged(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    table = crossing.ram.copy_rates[_copy_name(crossing)]
    copy = copy_stage(crossing, table, shape, shape.ring, dma=True)
    engine = _pinned(crossing, shape)
    return (*engine, copy) if _outward(crossing) else (copy, *engine)


def _register_setup(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """Register the caller's touched memory, and give it back afterwards."""
    if "mapped" in (crossing.before, crossing.after):
        return ()  # the mapping was registered when it was made
    setup = crossing.ram.setup
    return steps(
        step("register the buffer", crossing.size, setup.register_rate, setup.register_latency),
        step("unregister the buffer", crossing.size, setup.unregister),
    )


def _no_registered(crossing: Crossing) -> str | None:
    if crossing.ram.setup.register_rate is None:
        return f"{crossing.host} has no measured registration"
    return _no_pinned(crossing)


def _registered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = crossing.curve("registered", "pinned")
    return (dma(crossing, curve, shape),) if curve else ()


_HOST: frozenset[Kind] = frozenset({"pageable"})
_DEVICE: frozenset[Kind] = frozenset({"device"})

H2D = (
    Strategy(
        "pinned",
        ("ram", "hbm"),
        frozenset({"pinned", "fill"}),
        _DEVICE,
        _no_pinned,
        _pinned,
        nothing,
    ),
    Strategy("staged", ("ram", "hbm"), _HOST, _DEVICE, _no_staged, _staged, nothing, own_ring=True),
    Strategy(
        "registered",
        ("ram", "hbm"),
        _HOST | frozenset[Kind]({"mapped"}),
        _DEVICE,
        _no_registered,
        _registered,
        _register_setup,
    ),
    Strategy(
        "pageable", ("ram", "hbm"), _HOST, _DEVICE, _no_pageable, _pageable, nothing, single=True
    ),
)
D2H = (
    Strategy(
        "pinned",
        ("hbm", "ram"),
        _DEVICE,
        frozenset({"pinned", "drain"}),
        _no_pinned,
        _pinned,
        nothing,
    ),
    Strategy("staged", ("hbm", "ram"), _DEVICE, _HOST, _no_staged, _staged, nothing, own_ring=True),
    Strategy(
        "registered",
        ("hbm", "ram"),
        _DEVICE,
        _HOST,
        _no_registered,
        _registered,
        _register_setup,
    ),
    Strategy(
        "pageable", ("hbm", "ram"), _DEVICE, _HOST, _no_pageable, _pageable, nothing, single=True
    ),
)
