"""One flow of a run: its movements one after another, as often as it repeats."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from planner.engine.awake import Waker
from planner.engine.backends.base import Backend, Server
from planner.engine.durable import brought_to_disk, waits_for_disk
from planner.engine.ends import THREADS, Ends, lead_of
from planner.engine.flow_sample import FlowSample
from planner.engine.in_place import MANAGED, InPlace
from planner.engine.lines import (
    Copy,
    all_hops,
    gpus_of,
    grouped,
    map_files,
    near_gpu,
    only_movement,
    parted,
    pinned_in_place,
    registrable,
    source_for,
    with_copies,
    workers_of,
)
from planner.engine.memory import HostBuffer
from planner.engine.pace import FREE, Pace
from planner.engine.paid import between, merged, step_since
from planner.engine.places import DevicePlace, HostPlace, MappedPlace, Place
from planner.engine.route import Route, route_of
from planner.engine.team import Team
from planner.engine.terms import Terms
from planner.engine.transfer import Line, Moved, Transfer
from planner.engine.waits import Stop
from planner.machine.schema import Hbm, Machine
from planner.results import FlowSchedule, Hop, SetupStep


@dataclass
class FlowRunner:
    """Everything of a flow that stays from one sample to the next.

    `copies` are passed its chunks as they come in. Who is itself a copy waits for its `source` and
    counts from when that `begun`: its own thread may get going later.
    """

    backend: Backend
    machine: Machine
    schedule: FlowSchedule
    ends: Ends
    stop: Stop
    repeat: int = 1
    terms: Terms = field(default_factory=Terms)
    copies: list[Copy] = field(default_factory=list)
    source: FlowRunner | None = None
    begun: float = 0.0
    team: Team | None = None
    transfers: list[Transfer] = field(default_factory=list)
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    done_bytes: int = 0
    registered_bytes: int = 0

    def __post_init__(self) -> None:
        """What is special about reading in place has a part of its own."""
        # The caller's memory that is registered for this flow alone.
        self._lent: list[HostBuffer] = []
        self.in_place = InPlace(self.backend, self.schedule, self.ends, self.terms, self.undo)

    def open(self) -> None:
        """Make ready what is never timed."""
        self.in_place.open()

    def wake(self, waker: Waker) -> None:
        """Wake the engines of the first movement, where they are known; never timed."""
        if self.transfers:
            waker(self.transfers[0].engines())

    def servers(self) -> frozenset[Server]:
        """The engines of the first movement, where they are known."""
        known = self.transfers[0].engines() if self.transfers else ()
        return frozenset(engine.server for engine in known)

    def rewind(self) -> None:
        """Undo what a run has moved or registered for itself; never timed."""
        for transfer in self.transfers:
            transfer.give_back()
        self.in_place.rewind()

    def refresh(self) -> None:
        """Renew a source that was the target, too; never timed."""
        self.in_place.refresh()

    def sample(self, pace: Pace = FREE) -> FlowSample:
        """Set up what is missing, then move everything `repeat` times, each when the pace lets it.

        The first sample pays the setup: workers, ring, destination, registration. Memory that the
        caller owns is registered for one load, so giving it back is part of that cost.
        """
        fresh = self.team is None
        self.done_bytes, begun = 0, perf_counter()
        for gpu in self._gpus():
            self.backend.attach(gpu)
        for copy in self.copies:
            copy.begin()
        setup = self._start_team() if fresh else []
        moves: list[Moved] = []
        first_end, paused, waited = begun, 0.0, 0.0
        for turn in range(self.repeat):
            asked = perf_counter()
            pace.enter(turn)
            if turn == 0:
                waited = perf_counter() - asked
                self.begun = min(begun, self.source.begun) if self.source else begun
            self._turn(turn)
            if turn:
                pause = perf_counter()
                self.rewind()
                self.refresh()
                paused += perf_counter() - pause
            left = self._move(setup, moves, pace.leave)
            self.done_bytes += self.schedule.size_bytes
            if turn == 0 and moves:
                first_end = moves[-1].end
                if fresh and not self.copies:
                    setup += between(begun, first_end, waited, setup, moves)
            if not left:
                pace.leave()
        start = self.begun if setup or self.source or not moves else moves[0].start
        end = moves[-1].end if moves else start
        if self.repeat > 1:
            steady = (end - first_end - paused) / (self.repeat - 1)
        else:
            every = [*setup, *(step for copy in self.copies for step in copy.setup)]
            steady = max(0.0, end - start - sum(step.duration_s for step in every))
        after = [*self._unregister_once(), *self._give_back()] if fresh else []
        first_s = first_end - start + sum(step.duration_s for step in after)
        paid = merged([*setup, *after])
        return FlowSample(start, end, paid, steady, first_s, tuple(moves), self.repeat)

    def _move(
        self, setup: list[SetupStep], moves: list[Moved], leave: Callable[[], object]
    ) -> bool:
        """One repeat: what is missing for it, then all movements; returns whether it has left.

        Where nothing follows the last byte, whoever waits for it hears at once.
        """
        more = self.copies or self.in_place.touches or waits_for_disk(self.ends.target)
        early = bool(self.transfers) and not more
        for transfer in self.transfers:
            setup += self._before(transfer)
            ends = early and transfer is self.transfers[-1]
            moves.append(self._run(transfer, leave if ends else lambda: None))
        if moves:
            moves[-1] = self.in_place.after(self.transfers[-1], moves[-1])
            moves[-1] = brought_to_disk(self.ends.target, self.schedule.flow, moves[-1])
        return early

    def progress(self) -> int:
        """Bytes that have left their source in this sample."""
        now = self.transfers[0].moved() if self.transfers else 0
        total = self.schedule.size_bytes * self.repeat
        return min(total, max(self.done_bytes, min(self.done_bytes + now, total)))

    @property
    def pinned_bytes(self) -> int:
        """Bytes of all rings and of what was registered for this flow."""
        return self.registered_bytes + sum(transfer.pinned_bytes for transfer in self.transfers)

    def _turn(self, turn: int) -> None:
        """Have all places use the buffer of this repeat."""
        self.ends.turn(turn)
        if self.source and isinstance(self.ends.source, DevicePlace):
            self.ends.source.turn(turn)
        for copy in self.copies:
            copy.place.turn(turn)

    def _run(self, transfer: Transfer, arrived: Callable[[], object]) -> Moved:
        """One movement; what it passed on to copies is noted there."""
        last = transfer is self.transfers[-1]
        own, passed = parted(transfer.run(arrived), len(self.copies) if last else 0)
        for copy, moved in zip(self.copies if last else [], passed, strict=True):
            copy.moves.append(moved)
        return own

    def _gpus(self) -> list[int]:
        """The driver's indices of all GPUs on any way."""
        hops = (*all_hops(self.schedule), *(copy.hop for copy in self.copies))
        return gpus_of(self.machine, hops)

    def _start_team(self) -> list[SetupStep]:
        """Start the workers, and make the places between the movements."""
        start = perf_counter()
        workers = workers_of(self.schedule)
        team = self.team = Team(workers, self.stop, self.schedule.flow)
        gpus = self._gpus()

        def attach(_number: int) -> None:
            for gpu in gpus:
                self.backend.attach(gpu)

        team.run(attach)
        steps = [SetupStep(name="start the workers", duration_s=perf_counter() - start)]
        lines = self._shared(steps) if self.schedule.parts else self._in_turn(steps)
        self.transfers += [
            Transfer(self.backend, team, self.stop, line, self.terms) for line in lines
        ]
        return steps

    def _in_turn(self, steps: list[SetupStep]) -> list[Line]:
        """The movements of one way, one after another."""
        groups = grouped(self.schedule.hops)
        place: Place = self.ends.source
        lines = []
        for k, hops in enumerate(groups):
            if isinstance(place, MappedPlace) and place.mapped is None:
                whole = pinned_in_place(self.schedule.hops)
                steps.append(self._map(place, register=whole))
                if whole:
                    continue
            last = k == len(groups) - 1
            target = self.ends.target if last else self._between(groups, k, steps)
            route = near_gpu(self.backend, self.machine, route_of(self.machine, hops))
            lines.append(self._line((route,), place, target, last=last))
            place = target
        return lines

    def _line(
        self, routes: tuple[Route, ...], source: Place, target: Place, *, last: bool = True
    ) -> Line:
        """A movement; the last one is passed on to the copies."""
        if last and self.copies:
            if len(routes) > 1 or not isinstance(target, DevicePlace):
                raise TypeError("chunks are passed on from one way into a GPU only")
            passed, target = with_copies(self.machine, routes[0], target, self.copies)
            routes = (passed,)
        return Line(self.schedule.flow, self.schedule.size_bytes, routes, source, target)

    def _shared(self, steps: list[SetupStep]) -> list[Line]:
        """One movement over all ways of the flow."""
        routes = []
        for part in self.schedule.parts:
            hops = only_movement(self.schedule.flow, part)
            source = source_for(self.ends.source, self.schedule, part.hops[0], self.undo)
            if isinstance(source, MappedPlace) and source.mapped is None:
                steps.append(self._map(source, register=not part.hops[0].coupled))
            route = near_gpu(self.backend, self.machine, route_of(self.machine, hops))
            routes.append(replace(route, source=source))
        return [self._line(tuple(routes), self.ends.source, self.ends.target)]

    def _between(self, groups: Sequence[Sequence[Hop]], k: int, steps: list[SetupStep]) -> Place:
        """The place where all bytes rest between movement `k` and the next."""
        node = self.machine.nodes[groups[k][-1].end]
        if isinstance(node, Hbm):
            return DevicePlace(node.device)
        start = perf_counter()
        lead = lead_of(groups[k][-1].strategy, self.ends.files)
        size, following = self.schedule.size_bytes, groups[k + 1][0]
        if following.strategy in MANAGED:
            gpu = gpus_of(self.machine, [following])[0]
            buffer = self.backend.managed(gpu, size)
        else:
            buffer = HostBuffer(size, lead=lead, huge=lead is not None)
        self.undo.callback(buffer.close)
        buffer.touch(THREADS)
        steps.append(step_since("touch the buffer", start, buffer.size))
        around = {groups[k][-1].strategy, following.strategy}
        if around & {"pinned", "zero_copy"} and buffer.size:
            start = perf_counter()
            self._register(buffer.address, buffer.size)
            buffer.pinned = True
            steps.append(step_since("register the buffer", start, buffer.size))
        return HostPlace(buffer)

    def _register(self, address: int, size: int, *, read_only: bool = False) -> None:
        self.backend.register(address, size, read_only=read_only)
        self.undo.callback(self.backend.unregister, address)
        self.registered_bytes += size

    def _map(self, place: MappedPlace, *, register: bool) -> SetupStep:
        """Map the files; register the mappings in place unless that is done chunk by chunk."""
        start = perf_counter()
        for one in map_files(place, self.undo):
            if register:
                one.touch()
                self._register(one.region.address, one.region.size, read_only=True)
        name = "map and register the file" if register else "map the file"
        return step_since(name, start, self.schedule.size_bytes)

    def _before(self, transfer: Transfer) -> list[SetupStep]:
        """What a movement needs before its first run: device memory, registration, slots."""
        if transfer.ready:
            return []
        steps = self.in_place.before(transfer)
        line = transfer.line
        for name, place in line.devices():
            if not place.every:
                made = self._allocate(name, place)
                copy = next((copy for copy in self.copies if copy.place is place), None)
                (steps if copy is None else copy.setup).append(made)
        for buffer in registrable(transfer):
            start = perf_counter()
            self._register(buffer.address, buffer.size)
            self._lent.append(buffer)
            buffer.pinned = True
            steps.append(step_since("register the buffer", start, buffer.size))
        return steps + transfer.prepare()

    def _allocate(self, name: str, place: DevicePlace) -> SetupStep:
        start = perf_counter()
        size = self.schedule.size_bytes
        for _ in range(place.kept):
            memory = self.backend.allocate(place.gpu, size)
            self.undo.callback(self.backend.release, memory)
            place.add(memory)
        return step_since(f"allocate {name}", start, size * place.kept)

    def _unregister_once(self) -> list[SetupStep]:
        """Time the end of a registration, then have it again for the samples to come."""
        steps = []
        for buffer in self._lent:
            start = perf_counter()
            self.backend.unregister(buffer.address)
            steps.append(step_since("unregister the buffer", start, buffer.size))
            self.backend.register(buffer.address, buffer.size)
        return steps

    def _give_back(self) -> list[SetupStep]:
        """Time the end of what was registered chunk by chunk."""
        steps = []
        for transfer in self.transfers:
            start = perf_counter()
            if size := transfer.give_back():
                steps.append(step_since("unregister afterwards", start, size))
        return steps

    def close(self) -> None:
        """Give rings, buffers, mappings and threads back, the last made first."""
        with contextlib.ExitStack() as last:
            last.callback(self.ends.close)
            last.callback(self.undo.close)
            for transfer in self.transfers:
                last.callback(transfer.close)
            if self.team is not None:
                last.callback(self.team.close)
            self.transfers, self.team = [], None
