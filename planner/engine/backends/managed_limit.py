"""How much managed memory is asked for at the most."""

from __future__ import annotations

from typing import Final

from planner.errors import InfeasibleError
from planner.units import format_size

SHARE: Final = 0.5
"""Of a GPU's free memory: beyond it the driver begins to evict what others use there."""


def require_managed(gpu: int, size: int, free: int | None) -> None:
    """Raise `InfeasibleError` for more managed memory than the GPU can take without evicting.

    `free` is what the GPU has left, `None` where that is unknown.
    """
    if free is not None and size > SHARE * free:
        raise InfeasibleError(
            f"{format_size(size)} of managed memory are more than half of what gpu{gpu} has free "
            f"({format_size(free)}): the driver would evict what lies there",
            hint="take a smaller size (--set), or a strategy that is not managed",
        )
