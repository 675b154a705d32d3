"""Saved results among what people hand over: which file is one, and whether it can be trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from planner.errors import InputError, PlannerError
from planner.files import is_given
from planner.plan.schema import Plan
from planner.results import Estimate, FlowSchedule, Hop
from planner.review.embedded import embedded, is_page, no_result_in
from planner.review.not_json import not_json, read_json
from planner.units import format_size

if TYPE_CHECKING:
    import os

    from planner.model.need import Need
    from planner.model.needs import Demand

_RERUN = "`planner estimate PLAN -o FILE` makes a new one"
MOST_WORKERS: Final = 65_536
"""Workers of one hop in a schedule that can be meant: threads of one process."""
_OURS: Final = re.compile(r'\s*\{\s*"format"\s*:\s*"planner\.')
"""How the JSON of a result begins: a plan may be written in braces, too."""


def result_in(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The body of the result that a JSON file or a report holds, or `None` for anything else.

    Raises `InputError` for a result whose JSON is broken, and for a page that holds no result.
    """
    file = Path(path)
    try:
        # What cannot be read twice, or may never end, is left to the reader of plans.
        if is_given(file) or not file.is_file():
            return None
        with file.open("rb") as opened:
            first = opened.read(64).lstrip()[:1]
        if first not in (b"{", b"<"):
            return None
        # A page may be cut off inside a character; of a plan its reader says where.
        errors = "replace" if first == b"<" else "strict"
        text = file.read_text(encoding="utf-8", errors=errors)
    except (OSError, ValueError):
        return None  # the plan reader says what is wrong with it, and where
    page = is_page(text)
    stated = embedded(text) if page else text
    if stated is None:
        raise no_result_in(path, text)
    try:
        body = read_json(stated)
    except (ValueError, RecursionError) as error:
        if page or _OURS.match(stated):
            raise not_json(path, stated, error, hint=_RERUN) from error
        return None  # likewise
    if not isinstance(body, dict) or not str(body.get("format", "")).startswith("planner."):
        return None
    return body


def refuse_result(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` where a saved result stands in the place of a plan."""
    body = result_in(path)
    if body is not None:
        what = body["format"]
        hint = "name the plan that it was made from"
        if what == "planner.estimate/1":
            hint = f"`planner execute {path}` runs it; to estimate anew, {hint}"
        raise InputError(f"{path} is a saved {what}, not a plan", hint=hint)


def saved_estimate(path: str | os.PathLike[str]) -> Estimate | None:
    """The estimate that the file holds, or `None` if it is no JSON result (so, a plan).

    Raises `InputError` for another kind of result, a newer format, or a damaged one.
    """
    body = result_in(path)
    if body is None:
        return None
    if body["format"] != "planner.estimate/1":
        raise InputError(
            f"{path} is a {body['format']}; only a plan or a planner.estimate/1 can be executed",
            hint="`planner estimate PLAN -o FILE` makes one",
        )
    try:
        estimate = Estimate.model_validate(body)
        Plan.model_validate(estimate.plan)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        told = f"{path} is damaged: {where}: {first['msg']}"
        raise InputError(told, hint=_RERUN) from error
    return estimate


def require_agreement(estimate: Estimate) -> None:
    """Raise `InputError` where the schedule of an estimate is not one of its own plan."""
    from planner.machine.schema import Machine
    from planner.model.classes import fitted
    from planner.model.needs import demands

    plan = Plan.model_validate(estimate.plan)
    try:
        machine = fitted(plan, Machine.model_validate(estimate.machine))
        wanted = demands(plan, machine)
    except (PlannerError, ValidationError) as error:
        raise InputError(
            f"the estimate does not fit its own machine: {str(error).splitlines()[0]}", hint=_RERUN
        ) from error
    reason = next(_contradictions(wanted, estimate), None)
    if reason is not None:
        raise InputError(f"the schedule contradicts the plan: {reason}", hint=_RERUN)


def _contradictions(wanted: list[Demand], estimate: Estimate) -> Iterator[str]:
    """What the schedule does and the plan does not ask for, or the reverse."""
    needs = {demand.need.name: demand.need for demand in wanted}
    planned = {flow.name: flow for flow in estimate.flows}
    if len(planned) != len(estimate.flows):
        yield "a flow stands in it twice"
    for name in needs.keys() - planned.keys():
        yield f"it has no flow {name}"
    for name, flow in planned.items():
        if name not in needs:
            yield f"the plan has no flow {name}"
            continue
        need = needs[name]
        if (flow.repeat, flow.schedule.flow) != (need.repeat, name):
            yield f"{name} runs {need.repeat} times by the plan, {flow.repeat} times here"
        if {flow.size_bytes, flow.schedule.size_bytes} != {need.size}:
            told = format_size(flow.schedule.size_bytes)
            yield f"{name} has {format_size(need.size)} by the plan, {told} here"
        yield from _of_schedule(need, flow.schedule, needs)


def _of_schedule(need: Need, schedule: FlowSchedule, needs: dict[str, Need]) -> Iterator[str]:
    """Likewise for the hops of one flow, and what they are chosen to be."""
    start = need.start
    for other in (schedule.copy_of, schedule.behind):
        if other is not None and other not in needs:
            yield f"{need.name} is copied from {other}, which is no flow"
            return
    if schedule.copy_of is not None:
        start = needs[schedule.copy_of].end
    if schedule.parts and sum(part.share_bytes for part in schedule.parts) != need.size:
        yield f"the parts of {need.name} are not its {format_size(need.size)} together"
    for hops in [part.hops for part in schedule.parts] or [schedule.hops]:
        places = [hop.start for hop in hops] + [hop.end for hop in hops[-1:]]
        joined = all(a.end == b.start for a, b in pairwise(hops))
        if not hops or not joined or (places[0], places[-1]) != (start, need.end):
            way = " -> ".join(places) or "nowhere"
            yield f"{need.name} goes from {start} to {need.end} by the plan, {way} here"
        if need.size and any(hop.chunk_bytes < 1 for hop in hops):
            yield f"{need.name} goes in chunks of nothing"
        most = max(hop.workers for hop in hops) if hops else 1
        if most > MOST_WORKERS:
            yield f"{need.name} has {most} workers, more than any computer runs"
        yield from _pinned(need, hops)


def _pinned(need: Need, hops: tuple[Hop, ...]) -> Iterator[str]:
    """What the plan pins and these hops do otherwise."""
    pins = need.pins
    if pins.strategy is not None and pins.strategy not in {hop.strategy for hop in hops}:
        yield f"the plan pins {pins.strategy} for {need.name}"
    for hop in hops:
        wanted = pins.by_hop.get(f"{hop.start} -> {hop.end}")
        if wanted is not None and wanted != hop.strategy:
            yield f"the plan pins {wanted} on {hop.start} -> {hop.end}, not {hop.strategy}"
