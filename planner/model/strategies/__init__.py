"""All strategies, in the order in which ties are settled: the simpler one first.

`planner/engine/strategies` holds how each of them is done; a test holds the two sets equal.
"""

from __future__ import annotations

from planner.model.strategies.base import Crossing, Kind, Shape, Strategy
from planner.model.strategies.disk import BUFFERED_READ, BUFFERED_WRITE, DIRECT_READ, MAP
from planner.model.strategies.gpu_gpu import LOCAL, PEER, RELAY_IN, RELAY_OUT
from planner.model.strategies.host_gpu import D2H, H2D

STRATEGIES: tuple[Strategy, ...] = (
    BUFFERED_READ,
    DIRECT_READ,
    MAP,
    BUFFERED_WRITE,
    *H2D,
    *D2H,
    PEER,
    RELAY_OUT,
    RELAY_IN,
)
"""Every strategy that crosses a link."""

INSIDE: tuple[Strategy, ...] = (LOCAL,)
"""Strategies that stay in one place."""

__all__ = ["INSIDE", "STRATEGIES", "Crossing", "Kind", "Shape", "Strategy"]
