"""Assumptions: every coefficient of the links in use with where it comes from, and the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from planner.results import Estimate, Run
from planner.units import format_rate, format_share, format_time


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One number that the prediction rests on."""

    what: str
    value: str
    about: str
    source: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where numbers come from."""

    name: str
    kind: str
    where: str
    when: str
    spread: str
    note: str


def source_rows(estimate: Estimate) -> tuple[Source, ...]:
    """All sources of the machine."""
    rows = []
    for name, source in _mapping(estimate.machine.get("sources")).items():
        spread = source.get("spread")
        by = f" by {source['by']}" if source.get("by") else ""
        rows.append(
            Source(
                name,
                str(source.get("kind", "")),
                f"{source.get('where', '')}{by}",
                str(source.get("when", "")),
                format_share(spread) if spread is not None else "not kept",
                str(source.get("note") or ""),
            )
        )
    return tuple(rows)


def coefficients(estimate: Estimate) -> tuple[Coefficient, ...]:
    """The rates, latencies and copy tables that the hops of this result are predicted with."""
    machine = estimate.machine
    default = next(iter(_mapping(machine.get("sources"))), "")
    found: dict[tuple[str, str], Coefficient] = {}
    for flow in estimate.flows:
        for hop in flow.hops:
            for one in _of_link(machine, hop.hop.link, hop.hop.start, hop.hop.strategy, default):
                found[one.what, one.about] = one
            for name in (hop.hop.start, hop.hop.end):
                for one in _of_node(machine, name, default):
                    found[one.what, one.about] = one
    return tuple(found.values())


def _of_link(
    machine: Mapping[str, Any], name: str, start: str, strategy: str, default: str
) -> Iterator[Coefficient]:
    link = _mapping(machine.get("links")).get(name)
    if link is None:
        return
    way = "forward" if link["ends"][0] == start else "backward"
    direction = link.get(way)
    if direction is None:
        return
    near = direction.get("source") or link.get("source") or default
    yield Coefficient(f"{name}.{way}", format_rate(direction["rate"]), "capacity", near)
    if direction.get("against"):
        against = f"{direction['against']:.3g}"
        yield Coefficient(f"{name}.{way}", against, "taken by a byte the other way", near)
    curves = _mapping(direction.get("curves"))
    curve = curves.get(strategy) or curves.get("pinned" if strategy == "staged" else "")
    if curve is not None:
        own = curve.get("source") or near
        gap = f", gap {format_time(curve['gap'])}" if curve.get("gap") is not None else ""
        points = len(curve.get("points") or ())
        value = f"{format_rate(curve['rate'])}, latency {format_time(curve['latency'])}{gap}"
        about = f"one copy, {strategy}" + (f"; {points} measured sizes" if points else "")
        yield Coefficient(f"{name}.{way}", value, about, own)


def _of_node(machine: Mapping[str, Any], name: str, default: str) -> Iterator[Coefficient]:
    """The copy tables and the setup costs of a host."""
    node = _mapping(machine.get("nodes")).get(name)
    if node is None or node.get("kind") != "ram":
        return
    near = node.get("source") or default
    for stage, table in _mapping(node.get("copy")).items():
        best = max((cell or 0.0 for row in table.get("rates", ()) for cell in row), default=0.0)
        yield Coefficient(
            f"{name} copies, {stage}",
            f"up to {format_rate(best)}",
            "capacity by workers and ring",
            table.get("source") or near,
        )
    setup = _mapping(node.get("setup"))
    for key, about in (
        ("touch_fresh", "first touch of fresh memory"),
        ("register", "page-locking"),
        ("host_alloc", "allocating pinned memory"),
    ):
        if setup.get(key):
            source = setup.get("source") or near
            yield Coefficient(f"{name} setup", format_rate(setup[key]), about, source)


def _minute(date: str) -> str:
    """`2026-11-29 20:45 UTC` of an ISO date; what is none stays as it is written."""
    try:
        at = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at.tzinfo else date


def environment_facts(run: Run) -> list[tuple[str, str]]:
    """Where and how a run was measured, as pairs."""
    where = run.environment
    facts = [
        ("Date", _minute(where.date)),
        ("Machine", where.machine),
        ("Host", where.host),
        ("Backend", where.backend + (", GPU memory emulated in RAM" if where.emulated else "")),
        ("GPUs", ", ".join(where.gpus)),
        ("Driver", where.driver or ""),
        ("Kernel", where.kernel),
        ("Python", where.python),
        ("Libraries", ", ".join(f"{k} {v}" for k, v in where.libraries.items())),
        ("Calibrated", where.calibrated or ""),
        ("Command", where.command or ""),
    ]
    return [(name, value) for name, value in facts if value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
