"""Copies of what another flow brings: taken there whole (tree), or chunk by chunk as it comes in.

A tree's copy is a flow of its own from one GPU to the next, which waits for its source. A chain's
copy is made by the workers of the flow that it is taken from: the `Follower` only tells of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from planner.engine.backends.base import Backend, Server
from planner.engine.ends import Ends
from planner.engine.flow import FlowRunner
from planner.engine.flow_sample import FlowSample
from planner.engine.lines import Copy
from planner.engine.pace import FREE, Gate, Pace
from planner.engine.places import DevicePlace
from planner.engine.precedence import Ranked
from planner.errors import UnavailableError
from planner.machine.schema import Hbm, Machine
from planner.results import FlowEstimate, FlowSchedule


@dataclass
class Follower:
    """A copy that the workers of `root` make; see `FlowRunner`, for which it stands."""

    root: FlowRunner
    copy: Copy
    ends: Ends
    repeat: int = 1
    pinned_bytes: int = 0

    def sample(self, pace: Pace = FREE) -> FlowSample:
        """What the copy took, told repeat by repeat once the flow that it follows is through."""
        for turn in range(self.repeat):
            pace.enter(turn)
            pace.leave()
        copy, moves, start = self.copy, tuple(self.copy.moves), self.root.begun
        if not moves:
            return FlowSample(start, start, tuple(copy.setup), 0.0, 0.0, (), self.repeat)
        first, end = moves[0].end, moves[-1].end
        steady = first - moves[0].start
        if self.repeat > 1:
            steady = (end - first) / (self.repeat - 1)
        return FlowSample(start, end, tuple(copy.setup), steady, first - start, moves, self.repeat)

    @property
    def backend(self) -> Backend:
        """What the root's workers use."""
        return self.root.backend

    def open(self) -> None:
        """Nothing to make ready: the root has it."""

    def servers(self) -> frozenset[Server]:
        """None of its own: it begins behind the root."""
        return frozenset()

    def rewind(self) -> None:
        """Nothing to undo."""

    def refresh(self) -> None:
        """Nothing to renew."""

    def progress(self) -> int:
        """Bytes that have been passed on, as far as those of the flow that brings them have."""
        return self.root.progress()

    def close(self) -> None:
        """Give the ends back; the memory is the root's to free."""
        self.ends.close()


def sources_first(flows: Sequence[FlowEstimate]) -> list[int]:
    """The flows' numbers in an order in which whatever is copied comes before its copies."""
    at = {flow.name: i for i, flow in enumerate(flows)}

    def depth(flow: FlowEstimate) -> int:
        source = flow.schedule.copy_of
        return 0 if source is None else 1 + depth(flows[at[source]])

    return sorted(range(len(flows)), key=lambda i: (depth(flows[i]), i))


def copied_ends(machine: Machine, source: Ends, schedule: FlowSchedule, kept: int) -> Ends:
    """The ends of a copy: from where its source brings the bytes, to a GPU's own memory."""
    node = machine.nodes[schedule.hops[-1].end]
    if not isinstance(source.target, DevicePlace) or not isinstance(node, Hbm):
        raise UnavailableError(
            f"flow {schedule.flow}: only what lies in a GPU's memory can be copied on to another"
        )
    # The same memory, but its buffers come in turn as the copy goes, not as its source does.
    view = DevicePlace(source.target.gpu, kept=source.target.kept, every=source.target.every)
    return Ends(view, DevicePlace(node.device, kept=kept), source.expected)


def follow(root: FlowRunner, schedule: FlowSchedule, ends: Ends) -> Follower:
    """Have the workers of `root` pass their chunks on to the copy, behind those it has already."""
    place = ends.target
    if len(schedule.hops) != 1 or not isinstance(place, DevicePlace):
        raise UnavailableError(
            f"flow {schedule.flow}: chunks are passed on from GPU to GPU in one copy each"
        )
    copy = Copy(schedule.flow, schedule.hops[0], place)
    root.copies.append(copy)
    return Follower(root, copy, ends, root.repeat)


def with_sources(gates: Mapping[str, Gate], flows: Sequence[FlowEstimate]) -> dict[str, Gate]:
    """The gates, where each repeat of a copy also waits for that of what it is taken from."""
    found = dict(gates)
    for flow in flows:
        waits = (flow.schedule.copy_of, flow.schedule.behind)
        copies = tuple(name for name in waits if name is not None)
        if copies:
            found[flow.name] = replace(found[flow.name], copies=copies)
    return found


def sampled(runner: FlowRunner | Follower, lean: bool, pace: Pace) -> FlowSample:  # noqa: FBT001
    """One sample of a flow, known to the other classes while it lasts.

    Where the budget does not hold the rings of all flows at once (`lean`), a ring goes when its
    flow ends, as the model counts it, and is made anew for the next sample.
    """
    ranked: object = runner.backend
    around: AbstractContextManager[None] = nullcontext()
    if isinstance(runner, FlowRunner) and runner.terms.marks is not None:
        around = runner.terms.marks.around(runner.schedule.flow)
    if isinstance(ranked, Ranked):
        ranked.begin()
    try:
        with around:
            return runner.sample(pace)
    finally:
        if isinstance(ranked, Ranked):
            ranked.end()
        if lean and isinstance(runner, FlowRunner):
            for transfer in runner.transfers:
                transfer.close()
