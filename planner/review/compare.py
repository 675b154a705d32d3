"""Two results, A and B, and what changed from A to B: any two of estimate and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner._version import VERSION
from planner.errors import InputError
from planner.results import Estimate, NodeUse, ObjectiveResult, Run, Verdict
from planner.results.diff import (
    Diff,
    FlowChange,
    Gate,
    Judged,
    Kind,
    MemoryChange,
    ObjectiveChange,
    TimeChange,
)
from planner.review.changes import flow_change, makespan_change, time_change
from planner.review.differences import machine_differences, plan_differences
from planner.review.gate import Limit, gates
from planner.review.verdict import diff_verdict
from planner.review.view import View, view


def compare(
    before: Estimate | Run,
    after: Estimate | Run,
    *,
    labels: tuple[str, str] = ("A", "B"),
    fail_above: Limit | None = None,
    max_error: float | None = None,
) -> Diff:
    """What changed from `before` to `after`.

    Parameters
    ----------
    before, after
        estimates or runs, in any combination.
    labels
        what people call them: the names of their files.
    fail_above
        how much slower flows and the makespan may become.
    max_error
        a factor from 1 up: the verdict fails if B, a run, was predicted worse.

    Raises
    ------
    InputError
        they share no flow, or `max_error` is given and B is no run.
    """
    a, b = view(before, labels[0]), view(after, labels[1])
    _require_comparable(a, b)
    if max_error is not None and not b.measured:
        raise InputError(
            f"{b.side.label} is an estimate: only a run has a prediction error",
            hint="leave out --max-error, or name a run as B",
        )
    flows = tuple(flow_change(name, a, b) for name in dict.fromkeys([*a.flows, *b.flows]))
    makespan = makespan_change(a, b)
    held = () if fail_above is None else gates(fail_above, flows, makespan)
    limit = None if fail_above is None else fail_above.text
    return Diff(
        planner=VERSION,
        before=a.side,
        after=b.side,
        plan=plan_differences(a.plan, b.plan),
        machine=machine_differences(a.machine, b.machine),
        flows=flows,
        compute=_compute(a, b),
        makespan=makespan,
        nodes=_memory(a, b),
        bottleneck_before=a.bottleneck,
        bottleneck_after=b.bottleneck,
        objectives=_objectives(a, b),
        fail_above=limit,
        gates=held,
        warnings=tuple(_warnings(a, b, [makespan, *(flow.duration for flow in flows)])),
        verdict=_verdict(b, flows, held, limit, max_error),
    )


def _verdict(
    b: View,
    flows: Sequence[FlowChange],
    held: Sequence[Gate],
    limit: str | None,
    max_error: float | None,
) -> Verdict:
    """What B's own verdict would say, what changed, and what the gate says."""
    return diff_verdict(
        _changes(flows),
        b.objectives,
        b.flow_runs,
        gates=held,
        fail_above=limit,
        error_factor=b.error_factor,
        max_error=max_error,
    )


def _require_comparable(a: View, b: View) -> None:
    if not a.flows.keys() & b.flows.keys():
        raise InputError(
            f"nothing to compare: {a.side.label} moves {', '.join(a.flows)} "
            f"(plan {a.side.plan}), {b.side.label} moves {', '.join(b.flows)} "
            f"(plan {b.side.plan})",
            hint="compare two results of one plan, or of plans with a flow of the same name",
        )


def _changes(flows: Sequence[FlowChange]) -> str:
    """`Faster: 1 flow. Slower: none.`, then what else happened to flows, if anything."""
    both = [flow for flow in flows if flow.kind not in ("added", "removed")]
    said = [_words(_direction(flow)) for flow in both]
    said += [flow.kind.capitalize() for flow in flows if flow not in both]
    counts = {name: said.count(name) for name in ("Faster", "Slower")}
    counts |= {name: said.count(name) for name in dict.fromkeys(said)}
    return " ".join(f"{name}: {_flows(count)}." for name, count in counts.items())


def _direction(flow: FlowChange) -> str:
    """That of the duration; of the steady time where only that is told apart from noise."""
    steady = next(change.direction for change in flow.times if change.metric == "steady")
    clear = flow.duration.direction != "noise" or steady not in ("faster", "slower")
    return (flow.duration.direction if clear else steady) or "same"


def _words(direction: str) -> str:
    found = {"noise": "No difference beyond noise", "same": "Unchanged"}
    return found.get(direction, direction.capitalize())


def _flows(count: int) -> str:
    return {0: "none", 1: "1 flow"}.get(count, f"{count} flows")


def _compute(a: View, b: View) -> tuple[TimeChange, ...]:
    """Compute blocks: one time each, without samples."""
    exact = not (a.measured or b.measured)
    judged: Judged = "exact" if exact else "too_few"
    names = dict.fromkeys([*a.compute, *b.compute])
    return tuple(
        time_change(name, a.compute.get(name), b.compute.get(name), None, judged) for name in names
    )


def _memory(a: View, b: View) -> tuple[MemoryChange, ...]:
    return tuple(
        _node(name, a.nodes.get(name), b.nodes.get(name))
        for name in dict.fromkeys([*a.nodes, *b.nodes])
    )


def _node(name: str, a: NodeUse | None, b: NodeUse | None) -> MemoryChange:
    before = (a.peak_bytes, a.pinned_bytes) if a else (0, 0)
    after = (b.peak_bytes, b.pinned_bytes) if b else (0, 0)
    return MemoryChange(
        node=name,
        kind="unchanged" if before == after else "changed",
        peak_before_bytes=before[0],
        peak_after_bytes=after[0],
        pinned_before_bytes=before[1],
        pinned_after_bytes=after[1],
    )


def _objectives(a: View, b: View) -> tuple[ObjectiveChange, ...]:
    before, after = _by_text(a.objectives), _by_text(b.objectives)
    found = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        kind: Kind = "added" if old is None else "removed" if new is None else "unchanged"
        if old and new and old.passed != new.passed:
            kind = "changed"
        found.append(ObjectiveChange(text=key[0], kind=kind, before=old, after=new))
    return tuple(found)


def _by_text(objectives: Sequence[ObjectiveResult]) -> dict[tuple[str, int], ObjectiveResult]:
    """The objectives by their text, and which one of that text: a plan may state one twice."""
    found: dict[tuple[str, int], ObjectiveResult] = {}
    for objective in objectives:
        found[objective.text, sum(text == objective.text for text, _ in found)] = objective
    return found


def _warnings(a: View, b: View, times: Sequence[TimeChange]) -> Iterator[str]:
    """What a reader must know before trusting a difference."""
    if a.side.plan != b.side.plan:
        yield f"the plans have different names: {a.side.plan} and {b.side.plan}"
    virtual = "null" in (a.side.backend, b.side.backend)  # its clock is the model's
    if a.side.emulated != b.side.emulated and not virtual:
        emulated, real = (a, b) if a.side.emulated else (b, a)
        yield (
            f"{emulated.side.label} is emulated and {real.side.label} is not: "
            "their times do not compare"
        )
    if a.side.planner != b.side.planner:
        yield f"made by planner {a.side.planner} and {b.side.planner}"
    for name in filter(b.flows.__contains__, a.flows):
        states = a.flows[name].schedule.cache, b.flows[name].schedule.cache
        if states[0] != states[1]:
            yield f"{name} reads from a cache that is {states[0]} in A and {states[1]} in B"
    if any(change.judged == "too_few" for change in times):
        counts = [f"{s.side.label} has {s.side.samples}" for s in (a, b) if s.measured]
        yield (
            f"too few samples to tell a difference from noise: {', '.join(counts)}; "
            "two runs need 3 each, a run beside an estimate 5"
        )
