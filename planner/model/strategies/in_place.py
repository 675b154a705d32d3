"""A GPU that reads or writes host memory where it lies: zero-copy, and managed memory kept there.

    t = latency + reads * max(bytes moved / rate, requests / requests per second)

Nothing is kept on the GPU between two reads, so each one pays again.
"""

from __future__ import annotations

from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, step, steps
from planner.model.strategies.pinned import DOWN, UP
from planner.model.strategies.servers import copy_into_managed, wire_charges
from planner.model.strategies.unmeasured import IN_PLACE, unmeasured
from planner.model.touched import Use, in_place
from planner.results import SetupStep


def not_asked(crossing: Crossing, name: str) -> str | None:
    """Why nobody asked for such a strategy, or `None`: it pays by use, which must be known."""
    if crossing.use is not None or name in crossing.asked:
        return None
    return "the plan does not say how the GPU uses the data (use: fraction, reads, pattern)"


def _no_reads(crossing: Crossing) -> str | None:
    if crossing.curve("zero_copy") is None:
        return unmeasured(crossing.resource, IN_PLACE)
    return None


def _lacks(crossing: Crossing) -> str | None:
    asked = not_asked(crossing, "zero_copy")
    if asked is not None:
        return asked
    if crossing.before == "pageable" and crossing.ram.setup.register_rate is None:
        return f"{crossing.host} has no measured registration"
    return _no_reads(crossing)


def _stages(crossing: Crossing, _shape: Shape) -> tuple[Stage, ...]:
    """All passes of the kernel over what it touches.

    Where requests limit, the wire idles in between, so they are a server of the GPU's own.
    """
    curve = crossing.curve("zero_copy")
    if curve is None:
        return ()
    use = crossing.use or Use()
    touch = in_place(crossing.size, use, crossing.gpu.sector)
    moving = max(0.0, curve.seconds(touch.size) - curve.latency)
    requests = crossing.direction.requests
    asking = touch.requests / requests if requests else 0.0
    per_byte = use.reads * max(moving, asking) / max(1, crossing.size)
    each = use.reads / max(1, crossing.size)
    moved = each * touch.size
    charges = wire_charges(crossing, each * moving, moved=moved)
    bound = asking > moving
    resource = f"{crossing.gpu_name}.requests" if bound else crossing.resource
    if bound:
        charges[resource] = per_byte
    return (
        Stage(
            resource,
            "engine",
            lambda length: length * per_byte,
            lag=curve.latency,
            idle=curve.idle,
            overhead=curve.overhead,
            charges=charges,
            cause="queue_depth" if bound else "bandwidth",
            moved=moved,
        ),
    )


def _setup(crossing: Crossing, _shape: Shape) -> tuple[SetupStep, ...]:
    """Ordinary memory is registered first, which maps it too."""
    if crossing.before != "pageable":
        return ()
    setup = crossing.ram.setup
    return steps(
        step("register the buffer", crossing.size, setup.register_rate, setup.register_latency),
        step("unregister the buffer", crossing.size, setup.unregister, setup.unregister_latency),
    )


def _none(_use: Use) -> int:
    return 0


H2D = Strategy(
    "zero_copy",
    UP,
    kinds("pageable", "pinned", "mapped"),
    kinds("device"),
    _lacks,
    _stages,
    _setup,
    single=True,
    in_place=True,
    resides=False,
    starts=kinds("pageable"),
    pins_all=lambda crossing: crossing.before == "pageable",
    later_reads=_none,
)
D2H = Strategy(
    "zero_copy",
    DOWN,
    kinds("device"),
    kinds("pinned", "mapped"),
    _lacks,
    _stages,
    lambda _crossing, _shape: (),
    single=True,
    in_place=True,
    ends=kinds("pinned", "mapped"),
)


def _no_managed_host(crossing: Crossing) -> str | None:
    return not_asked(crossing, "managed_host") or _no_reads(crossing)


def _kept_on_host(crossing: Crossing, shape: Shape) -> tuple[SetupStep, ...]:
    """What is managed and touched is mapped for the GPU page by page.

    That took 32 ms a GB on one H200 (measured 2026-11-30), about what registering as much takes,
    which stands in where it was not measured.
    """
    if crossing.before != "managed":
        return copy_into_managed(crossing, shape)
    curve, setup, size = crossing.ram.managed_map, crossing.ram.setup, crossing.size
    rate, seconds = setup.register_rate, setup.register_latency
    if curve is not None:
        rate, seconds = None, curve.seconds(size)
    return steps(step("map the managed memory", size, rate, seconds))


def _registering(crossing: Crossing) -> str | None:
    """That the step above is as long as registering takes."""
    if crossing.before != "managed" or crossing.ram.managed_map is not None:
        return None
    if crossing.ram.setup.register_rate is None:
        return "mapping managed memory was not measured, and is left out"
    return "mapping managed memory was not measured: registering as much stands in for it"


MANAGED_HOST = Strategy(
    "managed_host",
    UP,
    kinds("pageable", "managed"),
    kinds("device"),
    _no_managed_host,
    _stages,
    _kept_on_host,
    single=True,
    in_place=True,
    resides=False,
    starts=kinds("pageable"),
    later_reads=_none,
    stands_in=_registering,
)
"""Managed memory with the advice to prefer the host and to be mapped by the GPU."""
