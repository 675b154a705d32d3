"""Managed memory that is moved by page before it is used."""

from __future__ import annotations

from collections.abc import Callable

from planner.engine.strategies.base import Address, Bound, Hands, Stage, needed


def _pages(gpu: int, *, inward: bool) -> Stage:
    """The driver moves the pages of each chunk; source and target are the same bytes."""

    def equip(bound: Bound, hands: Hands, before: Address | None, after: Address | None) -> None:
        host, sizes = needed(before if inward else after), bound.chunks.sizes
        lane = bound.backend.page_lane(gpu, bound.depth, inward=inward, spin=bound.spin)

        def issue(slot: int, chunk: int) -> None:
            address = host(slot, chunk)
            lane.copy(slot, address, address, sizes[chunk])

        hands.lanes.append(lane)
        hands.issue.append(issue)

    return Stage("engine", equip)


PREFETCH_IN: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "prefetch": lambda gpu: (_pages(gpu, inward=True),)
}
PREFETCH_OUT: dict[str, Callable[[int], tuple[Stage, ...]]] = {
    "prefetch": lambda gpu: (_pages(gpu, inward=False),)
}
