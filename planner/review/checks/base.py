"""What all checks share: how they say what they found, and that they cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.machine.discover import Discovery
from planner.machine.discover_details import GpuDetails
from planner.machine.observation import Observation
from planner.machine.replicate import members
from planner.machine.schema import Direction, Link, Machine, Ram
from planner.results.doctor import Cost, Finding, Level

SIZE: Final = 10 * 10**9
"""Bytes by which costs are told: a model of 5e9 parameters in two bytes each."""


class CannotTellError(Exception):
    """A check could not look; the message says why. It never leaves the doctor."""


class NothingThereError(Exception):
    """There is nothing of the kind that a check looks at. It never leaves the doctor."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with its word (`--only`) and what it looks at.

    `computer` says that it needs a computer: of a machine file alone it has nothing to say.
    """

    word: str
    title: str
    rule: Callable[[Observation], Iterator[Finding]]
    computer: bool = True


def found(
    level: Level, about: str, seen: str, *, why: str = "", mend: str = "", cost: Cost | None = None
) -> Finding:
    """A finding; the doctor puts in the word of the check."""
    return Finding(check="", level=level, about=about, seen=seen, why=why, mend=mend, cost=cost)


def need(seen: Observation, part: str) -> Any:
    """A part of the observation; raises `CannotTellError` with the reason where there is none."""
    value = getattr(seen, part)
    if value is None:
        raise CannotTellError(seen.unknown.get(part, f"{part} was not looked at"))
    return value


def about_of(seen: Observation) -> Discovery:
    """What the system and the driver show."""
    about: Discovery = need(seen, "about")
    return about


def details_of(seen: Observation) -> GpuDetails:
    """What the driver tells of GPUs beside."""
    details: GpuDetails = need(seen, "details")
    if details.reason is not None:
        raise CannotTellError(details.reason)
    return details


def count_gpus(seen: Observation) -> int:
    """How many real GPUs there are: as the driver, CUDA or the calibration knows most of them."""
    machine = measured(seen)
    known = (
        members(machine, name)
        for name, node in (machine.nodes.items() if machine is not None else ())
        if machine is not None and node.kind == "hbm" and not node.emulated
    )
    return max(
        len(seen.about.gpus) if seen.about is not None else 0,
        (seen.cuda.devices or 0) if seen.cuda is not None else 0,
        sum(known),
    )


def require_gpus(seen: Observation, count: int = 1) -> None:
    """Raise `NothingThereError` where there are fewer GPUs, `CannotTellError` where none knows."""
    if count_gpus(seen) >= count:
        return
    if seen.computer:
        about_of(seen)
    raise NothingThereError


def measured(seen: Observation) -> Machine | None:
    """The calibrated machine, unless its GPUs are emulated: its rates say nothing then."""
    kept = seen.calibration
    return None if kept is None or kept.machine.emulated else kept.machine


def require_measured(seen: Observation) -> Machine:
    """Likewise; raises `CannotTellError` where there is none."""
    machine = measured(seen)
    if machine is None:
        reason = "its calibration stands GPUs in with RAM" if seen.calibration else "not calibrated"
        raise CannotTellError(f"{reason}: `planner calibrate` measures the links")
    return machine


def directions(link: Link) -> Iterator[tuple[str, str, Direction]]:
    """Both directions of a link with their ends, where there are two."""
    start, end = link.ends
    if link.forward is not None:
        yield start, end, link.forward
    if link.backward is not None:
        yield end, start, link.backward


def cost(what: str, now: float, could: float) -> Cost | None:
    """What `SIZE` bytes take at two rates, in bytes/s; `None` where it makes no difference."""
    if not 0 < now < could:
        return None
    return Cost(
        what=what,
        size_bytes=SIZE,
        now_s=SIZE / now,
        could_s=SIZE / could,
        now_bytes_per_s=now,
        could_bytes_per_s=could,
    )


def host_of(machine: Machine) -> Ram | None:
    """The first host of the machine."""
    return next((node for node in machine.nodes.values() if isinstance(node, Ram)), None)


def copy_rate(machine: Machine, workers: int) -> float | None:
    """Bytes/s that so many workers reach at best from the page cache into a ring."""
    host = host_of(machine)
    table = host.copy_rates.get("file") if host is not None else None
    if table is None:
        return None
    counts = {count for count in table.workers if count <= workers} | {max(1, workers)}
    return max(table.rate(count, ring) for count in counts for ring in table.rings)


def link_rate(machine: Machine) -> float | None:
    """Bytes/s of the quickest link from a host to a GPU."""
    rates = [
        direction.rate
        for link in machine.links.values()
        for start, end, direction in directions(link)
        if machine.nodes[start].kind == "ram" and machine.nodes[end].kind == "hbm"
    ]
    return max(rates, default=None)
