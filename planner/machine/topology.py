"""Which ways lead from one place to another: the machine as a graph of places and links.

This is the one module that knows networkx; it is imported when a graph is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from planner.machine.schema import Disk, Hbm, Machine
from planner.machine.written import nearest_of

if TYPE_CHECKING:
    import networkx as nx

CUTOFF: Final = 4
"""Most links of a route that nobody asked for: GPU, adapter, switch, adapter, GPU of another host.
Where even the shortest way has more links, the routes of that many links count."""


class Step(NamedTuple):
    """One link of a route, crossed from `start` to `end`."""

    link: str
    start: str
    end: str
    direction: Literal["forward", "backward"]


Route: TypeAlias = tuple[Step, ...]
Edges: TypeAlias = Callable[[Step, str], Iterable[tuple[str, str]]]
"""The ways to cross a step from a memory kind: (strategy, memory kind at the step's end)."""


class Choice(NamedTuple):
    """One step of a route with a strategy, and the memory kind of the bytes on both sides of it."""

    step: Step
    strategy: str
    start_kind: str
    end_kind: str


class Topology:
    """The places and links of one machine; every answer has a fixed order and is kept."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._routes: dict[tuple[str, str, tuple[str, ...], int], tuple[Route, ...]] = {}
        self._hops: dict[str, dict[str, int]] = {}

    @cached_property
    def graph(self) -> nx.MultiDiGraph[str]:
        """Places as nodes; an edge for each direction of each link, its key the link's name."""
        import networkx as nx

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
        for name, node in self.machine.nodes.items():
            graph.add_node(name, kind=node.kind)
        for step in self._steps():
            graph.add_edge(step.start, step.end, key=step.link, direction=step.direction)
        return graph

    def _steps(self) -> Iterator[Step]:
        for name, link in self.machine.links.items():
            start, end = link.ends
            if link.forward is not None:
                yield Step(name, start, end, "forward")
            if link.backward is not None:
                yield Step(name, end, start, "backward")

    @cached_property
    def _leaving(self) -> dict[str, tuple[Step, ...]]:
        """The steps that leave each place."""
        leaving: dict[str, list[Step]] = {name: [] for name in self.machine.nodes}
        for step in self._steps():
            leaving[step.start].append(step)
        return {name: tuple(steps) for name, steps in leaving.items()}

    def _hops_to(self, end: str) -> dict[str, int]:
        """How many links every place is away from `end`, at the least."""
        import networkx as nx

        if end not in self._hops:
            backwards = nx.reverse_view(self.graph)
            self._hops[end] = dict(nx.single_source_shortest_path_length(backwards, end))
        return self._hops[end]

    def routes(self, start: str, end: str, *, cutoff: int | None = None) -> list[Route]:
        """The simple routes of at most `cutoff` links, the fewest links first, then by name.

        The cutoff is `CUTOFF` unless given, or the length of the shortest way where that is more.
        No route passes through a disk: bytes that are read from one and written to another way
        out of it are two flows. Among many GPUs that are all joined, routes over more than one
        other GPU are left out where shorter detours exist: they only take more links. The list is
        empty where there is no way; `why_not` says why.
        """
        limit = self._limit(start, end) if cutoff is None else cutoff
        found = self._search(start, (), end, limit)
        return [route for route in found if self._gpus_between(route) <= 1] or found

    def _gpus_between(self, route: Route) -> int:
        return sum(isinstance(self.machine.nodes[step.end], Hbm) for step in route[:-1])

    def _limit(self, start: str, end: str) -> int:
        known = start in self.machine.nodes and end in self.machine.nodes
        return max(CUTOFF, self._hops_to(end).get(start, 0)) if known else CUTOFF

    def via(
        self, start: str, names: Sequence[str], end: str, *, cutoff: int | None = None
    ) -> list[Route]:
        """The simple routes that pass the places and links `names`, in this order.

        Ordered like `routes`. The `cutoff` is two links for each name and for the end unless
        given, and at least that of `routes`. A disk may be passed where it is named.
        """
        limit = max(CUTOFF, 2 * (len(names) + 1)) if cutoff is None else cutoff
        return self._search(start, tuple(names), end, limit)

    def _search(self, start: str, names: tuple[str, ...], end: str, cutoff: int) -> list[Route]:
        key = (start, end, names, cutoff)
        if key not in self._routes:
            known = start in self.machine.nodes and end in self.machine.nodes
            found = self._walk(start, names, end, cutoff) if known and start != end else ()
            self._routes[key] = tuple(sorted(found, key=_order))
        return list(self._routes[key])

    def _walk(self, start: str, names: tuple[str, ...], end: str, cutoff: int) -> Iterator[Route]:
        """Every route, depth first; a branch ends where the rest of the way would be too long."""
        hops = self._hops_to(end)
        passable = {
            name
            for name, node in self.machine.nodes.items()
            if name == end or name in names or not isinstance(node, Disk)
        }
        path: list[Step] = []
        seen = {start}

        def walk(place: str, pending: tuple[str, ...]) -> Iterator[Route]:
            if place == end:
                if not pending:
                    yield tuple(path)
                return
            left = cutoff - len(path) - 1
            for step in self._leaving[place]:
                too_far = hops.get(step.end, left + 1) > left
                if too_far or step.end in seen or step.end not in passable:
                    continue
                path.append(step)
                seen.add(step.end)
                yield from walk(step.end, _after(pending, step))
                seen.discard(step.end)
                path.pop()

        yield from walk(start, _after(names, Step("", "", start, "forward")))

    def why_not(self, start: str, end: str, *, cutoff: int | None = None) -> str:
        """Why `routes` is empty, in one sentence; the empty text where it is not."""
        for name in (start, end):
            if name not in self.machine.nodes:
                near = nearest_of(name, self.machine.nodes)
                return f"the machine has no {name}" + (f"; {near}" if near else "")
        if start == end:
            return f"{start} is both the start and the end: nothing moves"
        if self.routes(start, end, cutoff=cutoff):
            return ""
        return self._missing(start, end, self._limit(start, end) if cutoff is None else cutoff)

    def _missing(self, start: str, end: str, cutoff: int) -> str:
        if not self._leaving[start]:
            return f"no link leaves {start}"
        if not self.graph.in_degree(end):
            return f"no link goes to {end}"
        hops = self._hops_to(end).get(start)
        if hops is None:
            return f"no chain of links leads from {start} to {end}"
        if hops > cutoff:
            return f"the shortest way from {start} to {end} has {hops} links, more than {cutoff}"
        return f"every way from {start} to {end} of at most {cutoff} links passes through a disk"


def _order(route: Route) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    return len(route), tuple(step.end for step in route), tuple(step.link for step in route)


def _after(pending: tuple[str, ...], step: Step) -> tuple[str, ...]:
    """What is still to be passed once `step` is crossed; a link counts before the place behind."""
    for name in (step.link, step.end):
        if pending and pending[0] == name:
            pending = pending[1:]
    return pending


def expand(route: Route, edges: Edges, kind: str) -> nx.MultiDiGraph[Any]:
    """The route with the memory kinds spelled out: stops (place, kind), edges named by strategy.

    Parameters
    ----------
    route
        The links in order.
    edges
        The table of the model: for a step and the memory kind in front of it, every strategy that
        can cross it, with the memory kind behind it. This module knows no strategy.
    kind
        Memory kind of the bytes at the route's start.

    Notes
    -----
    An edge's key is the strategy, its `step` the `Step`. Stops that do not lead to the end of the
    route are part of the graph; `choices` leaves them out.
    """
    import networkx as nx

    graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
    reached = [kind]
    if route:
        graph.add_node((route[0].start, kind))
    for step in route:
        following: list[str] = []
        for start_kind in reached:
            for strategy, end_kind in edges(step, start_kind):
                stops = (step.start, start_kind), (step.end, end_kind)
                graph.add_edge(*stops, key=strategy, step=step)
                if end_kind not in following:
                    following.append(end_kind)
        reached = following
    return graph


def choices(route: Route, edges: Edges, kind: str) -> list[tuple[Choice, ...]]:
    """Every way to cross the whole route, in the order in which `edges` lists the strategies."""
    paths: list[tuple[Choice, ...]] = [()]
    for step in route:
        paths = [
            (*path, Choice(step, strategy, before, after))
            for path in paths
            for before in [path[-1].end_kind if path else kind]
            for strategy, after in edges(step, before)
        ]
    return paths if route else []
