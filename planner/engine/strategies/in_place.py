"""A GPU's kernels read or write host memory where it lies: mapped, or managed.

What a kernel reads it keeps in the GPU's memory, so that it can be verified: every byte of a dense
pass, the touched pieces of a sparse one. Keeping costs next to nothing beside the wire.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.places import DevicePlace
from planner.engine.strategies.base import Address, Bound, Hands, Stage, needed


def _reads(gpu: int, *, again: bool) -> Stage:
    """Kernels of the GPU read each chunk as the plan uses it, `again` for every read of the plan.

    Where it is not asked for again, what was read is on the GPU from then on.
    """

    def equip(bound: Bound, hands: Hands, before: Address | None, _after: Address | None) -> None:
        source, sizes, touching = needed(before), bound.chunks.sizes, bound.terms.touching
        kept = bound.target.touched if isinstance(bound.target, DevicePlace) else None
        if kept is None or not isinstance(bound.target, DevicePlace):
            raise TypeError("a kernel that reads in place needs memory of its GPU as its target")
        start, starts = bound.target.address, kept.starts
        lane = bound.backend.kernel_lane(gpu, bound.depth, spin=bound.spin)
        reads = touching.use.reads if again else 1

        def issue(slot: int, chunk: int) -> None:
            touch = touching.of(sizes[chunk], source(slot, chunk), start + starts[chunk])
            lane.touch(slot, touch, reads)

        hands.lanes.append(lane)
        hands.issue.append(issue)

    return Stage("engine", equip)


def _writes(gpu: int) -> Stage:
    """Kernels of the GPU write each chunk into mapped host memory."""

    def equip(bound: Bound, hands: Hands, before: Address | None, after: Address | None) -> None:
        source, target, sizes = needed(before), needed(after), bound.chunks.sizes
        dense = bound.terms.touching.whole
        lane = bound.backend.kernel_lane(gpu, bound.depth, spin=bound.spin)

        def issue(slot: int, chunk: int) -> None:
            lane.touch(slot, dense(sizes[chunk], source(slot, chunk), target(slot, chunk)))

        hands.lanes.append(lane)
        hands.issue.append(issue)

    return Stage("engine", equip)


IN_PLACE_IN: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "zero_copy": lambda gpu: (_reads(gpu, again=True),),
    "managed": lambda gpu: (_reads(gpu, again=False),),
    "managed_host": lambda gpu: (_reads(gpu, again=True),),
}
"""Host memory that kernels of a GPU read."""
IN_PLACE_OUT: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "zero_copy": lambda gpu: (_writes(gpu),),
}
"""Host memory that kernels of a GPU write."""
