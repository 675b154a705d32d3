"""What must hold between the parts of a plan, and between a plan and the names of a machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Set as AbstractSet
from difflib import SequenceMatcher, get_close_matches
from graphlib import CycleError, TopologicalSorter

from planner.plan.objectives import METRICS, Objective
from planner.plan.schema import Compute, Flow, Pieces, Plan
from planner.plan.tree import child
from planner.plan.typed import Complaint
from planner.plan.words import MOST_COPIES, NAME, fill, placeholders
from planner.units import format_size
from planner.wording import quoted


def check_parts(
    flows: Mapping[str, Flow | None],
    compute: Mapping[str, Compute | None],
    waits: Mapping[str, tuple[str, ...]],
) -> Iterator[Complaint]:
    """Complaints about flows and compute blocks.

    A part that could not be read is None; `waits` holds what each part is `after`, as written.
    """
    names = [*flows, *compute]
    for section, parts in (("flows", flows), ("compute", compute)):
        for name in parts:
            yield from _check_name(section, name, other=flows if section == "compute" else {})
            yield from _check_after(child(section, name), name, waits.get(name, ()), names)
    for name, flow in flows.items():
        if flow is not None:
            yield from _check_flow(child("flows", name), flow)
    yield from _check_sinks(flows)
    yield from _check_cycles(flows, compute, waits)


def _check_sinks(flows: Mapping[str, Flow | None]) -> Iterator[Complaint]:
    """A file is written by one flow, and by none that another reads it from."""
    sinks = {name: _followed(flow.sink) for name, flow in flows.items() if flow and flow.sink}
    if not sinks:
        return  # and no path need be followed
    read = {
        _followed(source.path): name
        for name, flow in flows.items()
        if flow
        for source in flow.files
    }
    written: dict[str, str] = {}
    for name, sink in sinks.items():
        where = child(child("flows", name), "file")
        if sink in written:
            message = f"flow {written[sink]} writes this file too"
            yield Complaint(where, message, "give each flow a file of its own")
        if sink in read:
            message = f"flow {read[sink]} reads this file"
            yield Complaint(where, message, "write to another file")
        written.setdefault(sink, name)


def _followed(path: str) -> str:
    """The path without links and detours, so that two names of one file are equal."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # who opens it says what is wrong with it
        return path


def _check_name(section: str, name: str, other: Collection[str]) -> Iterator[Complaint]:
    path = child(section, name)
    if NAME.fullmatch(name) is None:
        yield Complaint(
            path,
            f"{quoted(name)} is not a name",
            "use letters, digits, _ and -, no dots",
            on_key=True,
        )
    if name in other:
        yield Complaint(
            path, f"a flow is called {quoted(name)} too", "give each its name", on_key=True
        )


def _check_after(
    path: str, name: str, after: tuple[str, ...], names: Collection[str]
) -> Iterator[Complaint]:
    for index, earlier in enumerate(after):
        where = child(child(path, "after"), index)
        if earlier == name:
            yield Complaint(where, f"{name} waits for itself", "name another flow")
        elif earlier not in names:
            others = [other for other in names if other != name]
            yield Complaint(where, f'no flow or compute block "{earlier}"', near(earlier, others))


def _check_cycles(
    flows: Collection[str], compute: Collection[str], waits: Mapping[str, tuple[str, ...]]
) -> Iterator[Complaint]:
    """One complaint for each circle of `after`."""
    order = {name: index for index, name in enumerate((*flows, *compute))}
    left = {
        name: [other for other in earlier if other in order and other != name]
        for name, earlier in waits.items()
    }
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
        else:
            return
        # The sorter lists each name before the one that waits for it; a reader follows `after`.
        members = circle[:0:-1]
        first = members.index(min(members, key=order.__getitem__))
        shown = [*members[first:], *members[:first], members[first]]
        section = "flows" if shown[0] in flows else "compute"
        yield Complaint(
            child(child(section, shown[0]), "after"),
            f"these wait for each other: {' -> '.join(shown)}",
            "take one of the after: away",
        )
        left[shown[0]] = [other for other in left[shown[0]] if other != shown[1]]


def _check_flow(path: str, flow: Flow) -> Iterator[Complaint]:
    within_gpu = flow.source.rpartition(".")[2].startswith("gpu")
    if flow.source in flow.destinations and not within_gpu:
        yield Complaint(child(path, "to"), f"{flow.source} is the source already", "name another")
    if len(set(flow.destinations)) != len(flow.destinations):
        yield Complaint(child(path, "to"), "a destination is named twice", "name each once")
    if flow.copies > MOST_COPIES:
        yield Complaint(
            child(path, "for_each"),
            f"stands for {flow.copies} flows",
            f"at most {MOST_COPIES} are allowed",
        )
    for where, name in _node_names(path, flow):
        for placeholder in placeholders(name):
            if placeholder not in flow.for_each:
                hint = near(placeholder, flow.for_each, empty="add it under for_each")
                yield Complaint(where, f'for_each has no "{placeholder}"', hint)
    if flow.pieces is not None and flow.size is not None:
        yield from _check_pieces(child(path, "pieces"), flow.pieces, flow.size)


def _check_pieces(path: str, pieces: Pieces, size: int) -> Iterator[Complaint]:
    """Listed pieces make up the size; equal ones, of which there is a count, have a byte each."""
    total = sum(pieces.sizes)
    if pieces.sizes and total != size:
        yield Complaint(
            path,
            f"the pieces have {total} bytes together, the size is {size}",
            "leave the size out: it is their sum",
        )
    if not pieces.sizes and pieces.count > max(size, 1):
        yield Complaint(
            path,
            f"{pieces.count} pieces of {format_size(size)} have less than a byte each",
            f"write {size} or fewer",
        )


def _node_names(path: str, flow: Flow) -> Iterator[tuple[str, str]]:
    """Every node name in `flow`, with its key path."""
    yield child(path, "from"), flow.source
    for index, name in enumerate(flow.destinations):
        yield child(child(path, "to"), index), name
    for index, name in enumerate(flow.route):
        yield child(child(path, "route"), index), name
    if isinstance(flow.strategy, dict):
        for hop in flow.strategy:
            for end in hop.split(" -> "):
                yield child(child(path, "strategy"), hop), end


def check_objectives(
    objectives: Iterable[tuple[str, Objective]], flows: Collection[str], compute: Collection[str]
) -> Iterator[Complaint]:
    """Complaints about objectives on flows that the plan lacks; nodes and links come later."""
    for path, objective in objectives:
        metric = METRICS[objective.metric]
        if metric.subject != "flow" or objective.subject in flows:
            continue
        if objective.metric == "duration" and objective.subject in compute:
            continue
        names = [*flows, *compute] if objective.metric == "duration" else flows
        yield Complaint(path, f'no flow "{objective.subject}"', near(objective.subject, names))


def check_machine_names(
    plan: Plan,
    nodes: Collection[str],
    links: Collection[str],
    strategies: Collection[str] | None = None,
) -> Iterator[Complaint]:
    """Complaints about nodes, links and strategies that the machine or the tool does not have.

    Of the names that `for_each` stands for, the first and the last are looked at.
    """
    for name, flow in plan.flows.items():
        path = child("flows", name)
        for where, node in _node_names(path, flow):
            on_way = where.startswith(child(path, "route"))
            kind, known = ("node or link", (*nodes, *links)) if on_way else ("node", nodes)
            yield from _check_known(where, kind, _ends(node, flow), known)
        if strategies is not None:
            yield from check_strategies(child(path, "strategy"), flow, strategies)
    for name, block in plan.compute.items():
        yield from _check_known(child(child("compute", name), "gpu"), "node", [block.gpu], nodes)
    for index, objective in enumerate(plan.objectives):
        subject = METRICS[objective.metric].subject
        if subject in ("node", "link"):
            known = nodes if subject == "node" else links
            yield from _check_known(child("objectives", index), subject, [objective.subject], known)


def _ends(name: str, flow: Flow) -> list[str]:
    """The first and the last of the names that `name` stands for."""
    if not placeholders(name):
        return [name]
    first = {key: values[0] for key, values in flow.for_each.items()}
    last = {key: values[-1] for key, values in flow.for_each.items()}
    return list(dict.fromkeys((fill(name, first), fill(name, last))))


def _check_known(
    path: str, kind: str, names: Iterable[str], known: Collection[str]
) -> Iterator[Complaint]:
    for name in names:
        if name not in known:
            yield Complaint(path, f"no {kind} {quoted(name)}", near(name, known))
            return


def check_strategies(path: str, flow: Flow, known: Collection[str]) -> Iterator[Complaint]:
    """Complaints about strategies of `flow`, at the key path `path`, that nobody knows."""
    if isinstance(flow.strategy, str):
        yield from _check_known(path, "strategy", [flow.strategy], known)
    elif flow.strategy is not None:
        for hop, strategy in flow.strategy.items():
            yield from _check_known(child(path, hop), "strategy", [strategy], known)


def near(name: str, known: Collection[str], empty: str = "there is none to name") -> str:
    """The suggestion for an unknown `name`: the nearest known ones, or a few of all.

    Those of a set have no order of their own: the more alike ones come first.
    """
    if not known:
        return empty
    found = get_close_matches(name, known, n=3)
    if found:
        return f"did you mean {' or '.join(found)}?"
    if isinstance(known, AbstractSet):
        known = sorted(known, key=lambda word: (-_likeness(word, name), word))
    some = list(known)[:8]
    more = "" if len(known) <= len(some) else f" and {len(known) - len(some)} more"
    return f"there is {', '.join(some)}{more}"


def _likeness(word: str, name: str) -> float:
    return SequenceMatcher(None, word, name).ratio()
