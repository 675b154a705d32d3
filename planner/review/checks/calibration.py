"""The calibration: whether there is one, of this computer, lately, in quiet, on real GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from planner.engine.calibration.degraded import link_warning
from planner.machine.made import FULL, QUICK, full_day
from planner.machine.observation import Calibration, Observation
from planner.machine.schema import Machine
from planner.results.doctor import Finding
from planner.review.checks.base import CannotTellError, found
from planner.units import format_share

OLD: Final = 30
"""Days after which drivers, neighbours and disks have often changed without a new name."""
SPREAD: Final = 0.10
DISTURBED: Final = 10
"""Cells that stayed disturbed after being taken again; a quick calibration has a few hundred."""
DAY: Final = 86400.0

_AGAIN: Final = "planner calibrate (--full takes three minutes), while nothing else runs"
_AGAIN_IN_FULL: Final = f"{FULL}, while nothing else runs"
_AGAIN_THERE: Final = "planner calibrate --full -o FILE on that machine, while nothing else runs"
"""Of a machine file: a calibration of this computer would not change what it says."""


def calibration(seen: Observation) -> Iterator[Finding]:
    """What is to be known before a prediction for this computer is believed."""
    kept = seen.calibration
    if kept is None:
        if "calibration" in seen.unknown:
            raise CannotTellError(seen.unknown["calibration"])
        yield _none(seen)
        return
    machine = kept.machine
    yield from _written(machine)
    if not any(source.kind == "measured" for source in machine.sources.values()):
        yield found(
            "note",
            "calibration",
            "nothing was measured: its numbers are cited or assumed",
            why="predictions are as good as what others wrote",
            mend="planner calibrate -o FILE on such a machine",
        )
        return
    if machine.emulated:
        real = seen.about is not None and bool(seen.about.gpus)
        yield found(
            "warning" if real else "note",
            "calibration",
            "its GPUs are emulated in RAM" + (", though there are real ones" if real else ""),
            why="predictions say nothing about a GPU",
            mend="planner calibrate --backend cuda; the check cuda says what is missing"
            if real
            else "calibrate where the GPUs are",
        )
    days = (seen.now_s - kept.at_s) / DAY
    if days > OLD:
        yield found(
            "warning",
            "calibration",
            f"it is {days:.0f} days old",
            why="what it measured may have changed: predictions drift from measurements",
            mend=f"{FULL if full_day(machine) else QUICK}; planner history shows what drifted"
            if seen.computer
            else _AGAIN_THERE,
        )
    yield from _sources(machine, _again(seen, machine))


def _again(seen: Observation, machine: Machine) -> str:
    """How to measure all of it once more, no worse than it was."""
    if not seen.computer:
        return _AGAIN_THERE
    return _AGAIN if full_day(machine) is None else _AGAIN_IN_FULL


def _none(seen: Observation) -> Finding:
    """There is no calibration that holds here."""
    changed = _changed(seen, seen.others[0]) if seen.others else ""
    return found(
        "warning",
        "calibration",
        f"the one that is kept was made {changed}" if changed else "there is none",
        why="estimates for `here` measure first; until then nothing tells whether links are as "
        "fast as they should be",
        mend=_AGAIN,
    )


def _changed(seen: Observation, other: Calibration) -> str:
    """In which way the computer is not the one that was measured."""
    about, then = seen.about, other.machine.hardware
    facts = []
    if about is not None:
        for key, now in (("kernel", about.kernel), ("driver", about.driver)):
            if now is not None and key in then and then[key] != now:
                facts.append(f"with {key} {then[key]} (now {now})")
        if "cores" in then and then["cores"] != str(about.cores):
            facts.append(f"with {then['cores']} cores (now {about.cores})")
    day = datetime.fromtimestamp(other.at_s, tz=UTC).date().isoformat()
    return f"{' and '.join(facts) or 'with other limits or on another disk'}, on {day}"


def _written(machine: Machine) -> Iterator[Finding]:
    """What the file itself warns of, beside links below their maximum: these have a check."""
    links = {link_warning(name, link) for name, link in machine.links.items()}
    for text in machine.warnings:
        if text not in links:
            yield found(
                "warning",
                machine.name,
                text,
                why="the machine file says so",
                mend="mend it and calibrate again, or take the line out of `warnings`",
            )


def _sources(machine: Machine, again: str) -> Iterator[Finding]:
    """How steady and how undisturbed what was measured is; `again` measures it once more."""
    for name, source in machine.sources.items():
        if source.kind != "measured":
            continue
        if source.spread is not None and source.spread > SPREAD:
            yield found(
                "warning",
                name,
                f"its samples spread by {format_share(source.spread)}",
                why="predictions are no better than that: their intervals are as wide",
                mend=again,
            )
        if source.disturbed > DISTURBED:
            yield found(
                "warning",
                name,
                f"{source.disturbed} cells stayed disturbed",
                why="something else ran: rates are lower than the hardware's",
                mend=again,
            )
