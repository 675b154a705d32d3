"""Managed memory: moved by the GPU's page faults (`managed`), or ahead of them (`prefetch`)."""

from __future__ import annotations

from typing import Final

from planner.machine.schema import CurveName
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.in_place import not_asked
from planner.model.strategies.pinned import DOWN, UP
from planner.model.strategies.servers import copy_into_managed, dma, wire_charges
from planner.model.strategies.unmeasured import MANAGED_FAULTS, PREFETCH, unmeasured
from planner.model.touched import BLOCK, Use, faulted

SCATTERED: Final[tuple[CurveName, ...]] = ("managed_scattered", "managed_fault")
"""The curve of a pass in no order, and what stands in for it."""


def _no_faults(crossing: Crossing) -> str | None:
    asked = not_asked(crossing, "managed")
    if asked is not None:
        return asked
    if crossing.curve("managed_fault") is None:
        return unmeasured(crossing.resource, MANAGED_FAULTS)
    return None


def _faults(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """The first pass over what is touched; what faulted stays on the GPU.

    The curve is that of a dense pass: each block of 2 MiB costs its faults and its bytes. Where
    elements lie apart, many blocks fault at once in no order, so the driver goes round them more
    often (44 and 48 % longer for two patterns on an H200 machine): such passes have a curve of
    their own. Blocks of which only a part moves save the wire's time for the rest.
    """
    use = crossing.use or Use()
    dense_pass = use.pattern == "dense" or use.fraction >= 1
    curve = crossing.curve(*(("managed_fault",) if dense_pass else SCATTERED))
    if curve is None:
        return ()
    moved = faulted(crossing.size, use, crossing.gpu.sector)
    wire = crossing.curve("managed_prefetch", "pinned") or curve
    dense = curve.seconds(moved.blocks * BLOCK) - curve.latency
    spared = max(0.0, moved.blocks * BLOCK - moved.size) / wire.rate
    share = moved.size / max(1, crossing.size)
    per_byte = max(0.0, (dense - spared) / max(1, crossing.size), share / wire.rate)
    resource = f"{crossing.gpu_name}.faults"
    charges = wire_charges(crossing, share / wire.rate, moved=share)
    return (
        Stage(
            resource,
            "engine",
            lambda length: length * per_byte,
            lag=curve.latency,
            idle=curve.idle,
            overhead=curve.overhead,
            charges=charges | {resource: per_byte},
            cause="page_faults",
            moved=share,
        ),
    )


def _no_prefetch(crossing: Crossing) -> str | None:
    asked = not_asked(crossing, "prefetch")
    if asked is not None:
        return asked
    if crossing.curve("managed_prefetch") is None:
        return unmeasured(crossing.resource, PREFETCH)
    return None


def _prefetch(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """All the bytes, asked for at once."""
    curve = crossing.curve("managed_prefetch")
    return (dma(crossing, curve, shape),) if curve else ()


def _later(use: Use) -> int:
    """The first read is the one that faults."""
    return use.reads - 1


MANAGED = Strategy(
    "managed",
    UP,
    kinds("pageable", "managed"),
    kinds("device"),
    _no_faults,
    _faults,
    copy_into_managed,
    single=True,
    in_place=True,
    starts=kinds("pageable"),
    ends=kinds("device"),  # what a kernel has not touched is not there, and cannot be handed on
    later_reads=_later,
)
H2D_PREFETCH = Strategy(
    "prefetch",
    UP,
    kinds("pageable", "managed"),
    kinds("device"),
    _no_prefetch,
    _prefetch,
    copy_into_managed,
    single=True,
    in_place=True,
    starts=kinds("pageable"),
)
D2H_PREFETCH = Strategy(
    "prefetch",
    DOWN,
    kinds("device"),
    kinds("managed"),
    _no_prefetch,
    _prefetch,
    nothing,
    single=True,
    in_place=True,
    # The bytes lie in the GPU's part of the same memory: nothing that came there on the way does.
    starts=kinds("device"),
    ends=kinds("managed"),
)
