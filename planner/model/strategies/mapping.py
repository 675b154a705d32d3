"""A file mapped into memory: its pages come when somebody touches them.

Three things may touch them: registration of the whole mapping for the GPU (`mapped`), whatever
copies from the mapping next (`mapping`), or a copy by the CPU into the user's own buffer. What is
in the page cache costs minor faults, the rest waits for the disk, one thread at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Reading, Shape, Strategy, kinds, step, steps
from planner.model.strategies.copying import copy_stage, has_copies
from planner.model.strategies.faults import fault_charges, fault_time, no_faults
from planner.results import SetupStep

FAULT_IN: Final = "fault in what is not cached"
"""Name of the step in which a mapping that is registered whole comes from the disk."""


def _lacks(crossing: Crossing) -> str | None:
    return no_faults(crossing) or (None if crossing.after == "mapping" else _unmeasured(crossing))


def _unmeasured(crossing: Crossing) -> str | None:
    """Which figure the host lacks for touching all of the mapping here."""
    setup = crossing.ram.setup
    if crossing.after == "mapped":
        if setup.register_file is None:
            return f"{crossing.host} has no measured registration of file mappings"
        return None
    if setup.map_touch is None:
        return f"{crossing.host} has no measured page faults of mappings"
    if not has_copies(crossing, "memory"):
        return f"{crossing.host} has no measured copies between memory and a buffer"
    return None


def _stages(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """Copying out of the mapping into a buffer; else nothing moves before the next hop."""
    if crossing.after in ("mapped", "mapping"):
        return ()
    source = _seen(crossing)
    table = crossing.ram.copy_rates["memory"]
    return (copy_stage(source, table, shape, max(1, crossing.size), dma=False),)


def _seen(crossing: Crossing) -> Crossing:
    """The crossing as whoever touches the mapping sees it."""
    return replace(crossing, before="mapping", mapped_from=crossing.start)


def _reading(crossing: Crossing) -> Reading | None:
    """What the registration of the whole mapping waits for: pages that are not cached."""
    cold = round(crossing.size * (1 - crossing.cached))
    if crossing.after != "mapped" or not cold:
        return None
    source = replace(_seen(crossing), cached=0.0)
    return Reading(FAULT_IN, crossing, cold, cold * fault_time(source), fault_charges(source))


def _setup(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """Registration populates the mapping; pages that are not cached come from the disk first."""
    setup = crossing.ram.setup
    if crossing.after != "mapped":
        return steps(step("map the file", crossing.size, None, setup.map_latency))
    cold = _reading(crossing)
    return steps(
        None if cold is None else step(cold.step, cold.size, None, cold.seconds),
        step(
            "map and register the file",
            crossing.size,
            setup.register_file,
            setup.map_latency + setup.register_latency,
        ),
    )


MAP = Strategy(
    "mmap",
    ("disk", "ram"),
    kinds("file"),
    kinds("mapped", "mapping", "pageable", "pinned"),
    _lacks,
    _stages,
    _setup,
    single=True,
    ends=kinds("pageable", "pinned"),
    pins_all=lambda crossing: crossing.after == "mapped",
    reading=_reading,
)
