"""Disk and GPU without host memory: GPUDirect Storage."""

from __future__ import annotations

from planner.machine.schema import Ram
from planner.model.stage import Stage
from planner.model.strategies.base import Crossing, Shape, Strategy, kinds, nothing
from planner.model.strategies.servers import disk_stage


def _lacks(crossing: Crossing) -> str | None:
    if crossing.curve("gds") is None:
        return f"{crossing.link} has no GPUDirect Storage (curve gds)"
    return None


def _stages(crossing: Crossing, shape: Shape) -> tuple[Stage, ...]:
    """Requests to the disk, one a worker; the bytes also take the GPU's own link to its host."""
    curve = crossing.curve("gds")
    if curve is None:
        return ()
    rate = min(crossing.direction.rate, curve.rate)
    stage = disk_stage(crossing, curve, rate, shape)
    charges = dict(stage.charges) | _bus(crossing)
    return (Stage(stage.resource, "pool", stage.seconds, charges=charges, cause=stage.cause),)


def _bus(crossing: Crossing) -> dict[str, float]:
    """What a byte takes of the link between the GPU and its host."""
    gpu, host = crossing.gpu_name, crossing.gpu.host
    for name, link in crossing.machine.links.items():
        if set(link.ends) != {gpu, host} or not isinstance(crossing.machine.nodes[host], Ram):
            continue
        start = host if crossing.inward else gpu
        way = link.direction(start)
        if way is not None:
            return {f"{name}.{'forward' if start == link.ends[0] else 'backward'}": 1 / way.rate}
    return {}


READ = Strategy("gds", ("disk", "hbm"), kinds("file"), kinds("device"), _lacks, _stages, nothing)
WRITE = Strategy("gds", ("hbm", "disk"), kinds("device"), kinds("file"), _lacks, _stages, nothing)
