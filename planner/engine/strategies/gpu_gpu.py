"""From GPU to GPU: `peer` between two, `local` within one."""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.backends.base import Engine
from planner.engine.strategies.base import Stage
from planner.engine.strategies.host_gpu import engine


def peer(gpu: int, other: int) -> tuple[Stage, ...]:
    """A push by the source's engine."""
    return (engine(Engine("peer", gpu, other)),)


def local(gpu: int) -> tuple[Stage, ...]:
    """A copy inside one GPU's memory."""
    return (engine(Engine("local", gpu)),)


BETWEEN: dict[str, Callable[[int, int], tuple[Stage, ...]]] = {
    "peer": peer,
    "local": lambda gpu, _same: local(gpu),
}
"""The stages of each strategy between two GPUs, by the driver's indices of both."""
