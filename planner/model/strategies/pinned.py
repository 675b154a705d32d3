"""Host memory and a GPU by its copy engine: from pinned pages, or pages pinned for the purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.machine.curve import Curve
from planner.machine.schema import Machine, Ram
from planner.model.stage import Stage
from planner.model.strategies.base import (
    Crossing,
    Shape,
    Strategy,
    kinds,
    nothing,
    step,
    steps,
)
from planner.model.strategies.copying import dispatcher
from planner.model.strategies.faults import fault_charges, fault_time
from planner.model.strategies.servers import dma
from planner.model.strategies.unmeasured import AHEAD, unmeasured
from planner.results import SetupStep

USUAL: Final = 64 << 20
"""Bytes of a region that is registered ahead of its copy: what is chosen for files of some GB."""


def no_engine(crossing: Crossing) -> str | None:
    """Why the copy engine's own speed is not known here, or `None`."""
    if crossing.curve("pinned", "registered") is None:
        return f"{crossing.resource} has no measured pinned copies"
    return None


def engine(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """The copy engine on pinned memory; from another socket's, as fast as the bytes come."""
    curve = crossing.curve("pinned", "registered")
    if curve is None:
        return ()
    stage = dma(crossing, curve, shape)
    return (replace(stage, through=True) if crossing.before == "far" else stage,)


def _no_registered(crossing: Crossing) -> str | None:
    if "mapped" in (crossing.before, crossing.after) and not crossing.mapped_from:
        return "the buffer is page-locked already"
    if crossing.ram.setup.register_rate is None:
        return f"{crossing.host} has no measured registration"
    return no_engine(crossing)


def _registered(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    curve = crossing.curve("registered", "pinned")
    return (dma(crossing, curve, shape),) if curve else ()


def _register(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """Register the caller's touched memory, and give it back afterwards."""
    if "mapped" in (crossing.before, crossing.after):
        return ()  # registered already: the user's buffer, or the mapping when it was made
    setup = crossing.ram.setup
    return steps(
        step("register the buffer", crossing.size, setup.register_rate, setup.register_latency),
        step("unregister the buffer", crossing.size, setup.unregister, setup.unregister_latency),
    )


def _pins(crossing: Crossing) -> bool:
    return "pageable" in (crossing.before, crossing.after)


def helps(machine: Machine, place: str, cores: int) -> bool:
    """Whether a second thread that brings a mapping's pages in makes registering them faster.

    `place` is the host, or a disk of it; `cores` are those that the flow may use.
    """
    host = machine.nodes[getattr(machine.nodes[place], "host", place)]
    if cores < 2 or not isinstance(host, Ram):
        return False
    alone, helped = host.register_ahead, host.register_helped
    return alone is not None and helped is not None and helped.seconds(USUAL) < alone.seconds(USUAL)


def _ahead_curve(crossing: Crossing) -> Curve | None:
    """Registering one chunk: of a file's mapping, or of memory that was touched before.

    Beside copies that takes longer than of a whole buffer at rest, which stands in for it.
    """
    if crossing.before == "mapping":
        helped = helps(crossing.machine, crossing.host, crossing.cores)
        return crossing.ram.register_helped if helped else crossing.ram.register_ahead
    if crossing.ram.register_memory is not None:
        return crossing.ram.register_memory
    setup = crossing.ram.setup
    if setup.register_rate is None:
        return None
    return Curve(latency=setup.register_latency, rate=setup.register_rate)


def _no_ahead(crossing: Crossing) -> str | None:
    if _ahead_curve(crossing) is None:
        return unmeasured(crossing.host, AHEAD)
    if crossing.room is not None and _undone(crossing) is None:
        return f"{crossing.host} may not pin all, and has no measured end of a registration"
    if crossing.repeat > 1:
        return "from the second run on the pages are pinned already: registering them once is less"
    return no_engine(crossing)


def _ahead(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """One thread registers chunk after chunk (the driver takes a lock), the engine follows.

    Where not all may be pinned, that thread also gives back what has been copied.
    """
    curve = _ahead_curve(crossing)
    copies = _registered(crossing, shape)
    if curve is None or not copies:
        return ()
    # The curve holds the minor faults; what is not cached waits for the disk on top.
    cold = (1 - crossing.cached) * fault_time(replace(crossing, cached=0.0))
    undone = _undone(crossing)
    behind = 1 / undone if crossing.room is not None and undone else 0.0

    def seconds(length: int) -> float:
        return curve.seconds(length) + length * (cold + behind)

    chunk = min(shape.chunk, max(1, crossing.size))
    resource = f"{crossing.host}.register"
    locked = (curve.seconds(chunk) + chunk * behind) / chunk
    return (
        Stage(
            resource,
            "engine",
            seconds,
            overhead=curve.overhead,
            # The driver holds its lock all the time: whoever queues a copy meanwhile waits (1.3 ms
            # instead of 3 us beside regions of 48 MiB, measured on an H200 machine, 2026-11-29).
            # What waits for the disk does so before the driver comes to it.
            charges={
                resource: seconds(chunk) / chunk,
                dispatcher(crossing): locked,
                **fault_charges(crossing),
            },
            cause="page_faults" if cold * chunk > curve.seconds(chunk) else "host_copy",
        ),
        *copies,
    )


def _unregister(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """The closing step; doing it chunk by chunk on the way would halve the pace."""
    size = crossing.size if crossing.room is None else crossing.room
    return steps(step("unregister afterwards", size, _undone(crossing)))


def _undone(crossing: Crossing) -> float | None:
    """Bytes/s of giving registered pieces back: a file's, which nobody has written, go faster."""
    setup = crossing.ram.setup
    of_file = setup.unregister_file if crossing.before == "mapping" else None
    return of_file or setup.unregister


DOWN, UP = ("hbm", "ram"), ("ram", "hbm")
_DEVICE = kinds("device")

H2D_PINNED = Strategy(
    "pinned",
    UP,
    kinds("pinned", "mapped", "fill", "far"),
    _DEVICE,
    no_engine,
    engine,
    nothing,
    starts=kinds("mapped"),
)
D2H_PINNED = Strategy(
    "pinned",
    DOWN,
    _DEVICE,
    kinds("pinned", "mapped", "drain", "far"),
    no_engine,
    engine,
    nothing,
    ends=kinds("mapped"),
)
H2D_REGISTERED = Strategy(
    "registered",
    UP,
    kinds("pageable", "mapped"),
    _DEVICE,
    _no_registered,
    _registered,
    _register,
    pins_all=_pins,
)
D2H_REGISTERED = Strategy(
    "registered",
    DOWN,
    _DEVICE,
    kinds("pageable"),
    _no_registered,
    _registered,
    _register,
    pins_all=_pins,
)
REGISTERED_CHUNKS = Strategy(
    "registered_chunks",
    UP,
    kinds("mapping", "pageable"),
    _DEVICE,
    _no_ahead,
    _ahead,
    _unregister,
    starts=kinds("pageable"),
    pins_all=lambda _crossing: True,
    ahead=True,
)
