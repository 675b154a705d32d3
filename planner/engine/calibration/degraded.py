"""What a person must be told of the hardware before any prediction."""

from __future__ import annotations

from planner.machine.schema import Link


def link_warning(name: str, link: Link) -> str | None:
    """That a link runs below what slot and device can do, `None` where it does not.

    The rate of a PCIe generation is twice that of the one before, and goes with the width.
    """
    now = (link.generation, link.width)
    most = (link.max_generation, link.max_width)
    if None in now or None in most or now == most:
        return None
    generation, width = now
    top, wide = most
    if generation is None or width is None or top is None or wide is None:
        return None
    if generation >= top and width >= wide:
        return None
    share = 2.0 ** (generation - top) * width / wide
    return (
        f"{name} runs as PCIe {generation} x{width} under load, but slot and device can do "
        f"PCIe {top} x{wide}: about {share:.0%} of its rate; look at the slot, the riser and the "
        "firmware"
    )
