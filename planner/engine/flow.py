"""One flow of a run: its movements one after another, as often as it repeats."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from planner.engine.backends.base import Backend
from planner.engine.ends import THREADS, Ends, lead_of
from planner.engine.in_place import MANAGED, InPlace
from planner.engine.measure import Interval
from planner.engine.memory import HostBuffer, Mapped, Mapping
from planner.engine.pace import FREE, Pace
from planner.engine.places import DevicePlace, HostPlace, MappedPlace, Place
from planner.engine.strategies import stages_of_hops
from planner.engine.team import Team
from planner.engine.terms import Terms
from planner.engine.transfer import Line, Moved, Transfer
from planner.engine.waits import Stop
from planner.machine.schema import Hbm, Machine
from planner.results import FlowSchedule, Hop, SetupStep


@dataclass(frozen=True, slots=True)
class FlowSample:
    """One sample of a flow: from its first operation (or setup) to its last arrival.

    `steady_s` is one repeat without setup, the mean of the later ones where there are any;
    `first_s` the first repeat with the setup that the sample had. `moves` are the movements of all
    `repeat` repeats in order.
    """

    start: float
    end: float
    setup: tuple[SetupStep, ...]
    steady_s: float
    first_s: float
    moves: tuple[Moved, ...]
    repeat: int = 1

    def turns(self) -> list[Interval]:
        """Start and end of each repeat, without the setup before the first."""
        each = len(self.moves) // self.repeat
        if not each:
            return []
        firsts, lasts = self.moves[::each], self.moves[each - 1 :: each]
        return [(one.start, other.end) for one, other in zip(firsts, lasts, strict=True)]


@dataclass
class FlowRunner:
    """Everything of a flow that stays from one sample to the next."""

    backend: Backend
    machine: Machine
    schedule: FlowSchedule
    ends: Ends
    stop: Stop
    repeat: int = 1
    terms: Terms = field(default_factory=Terms)
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
        self.done_bytes = 0
        begun = perf_counter()
        for gpu in _gpus(self.machine, self.schedule.hops):
            self.backend.attach(gpu)
        setup = self._start_team() if fresh else []
        moves: list[Moved] = []
        first_end, paused = begun, 0.0
        for turn in range(self.repeat):
            pace.enter(turn)
            self.ends.turn(turn)
            if turn:
                pause = perf_counter()
                self.rewind()
                self.refresh()
                paused += perf_counter() - pause
            for transfer in self.transfers:
                setup += self._before(transfer)
                moves.append(transfer.run())
            if moves:
                moves[-1] = self.in_place.after(self.transfers[-1], moves[-1])
            self.done_bytes += self.schedule.size_bytes
            if turn == 0:
                first_end = moves[-1].end if moves else begun
            pace.leave()
        start = begun if setup or not moves else moves[0].start
        end = moves[-1].end if moves else start
        if self.repeat > 1:
            steady = (end - first_end - paused) / (self.repeat - 1)
        else:
            steady = max(0.0, end - start - sum(step.duration_s for step in setup))
        after = [*self._unregister_once(), *self._give_back()] if fresh else []
        first_s = first_end - start + sum(step.duration_s for step in after)
        return FlowSample(start, end, (*setup, *after), steady, first_s, tuple(moves), self.repeat)

    def progress(self) -> int:
        """Bytes that have left their source in this sample."""
        now = self.transfers[0].moved() if self.transfers else 0
        total = self.schedule.size_bytes * self.repeat
        return min(total, max(self.done_bytes, min(self.done_bytes + now, total)))

    @property
    def pinned_bytes(self) -> int:
        """Bytes of all rings and of what was registered for this flow."""
        return self.registered_bytes + sum(transfer.pinned_bytes for transfer in self.transfers)

    def _start_team(self) -> list[SetupStep]:
        """Start the workers, and make the places between the movements."""
        start = perf_counter()
        workers = max((hop.workers for hop in self.schedule.hops), default=1)
        team = self.team = Team(workers, self.stop, self.schedule.flow)
        gpus = _gpus(self.machine, self.schedule.hops)

        def attach(_number: int) -> None:
            for gpu in gpus:
                self.backend.attach(gpu)

        team.run(attach)
        steps = [SetupStep(name="start the workers", duration_s=perf_counter() - start)]
        groups = grouped(self.schedule.hops)
        place: Place = self.ends.source
        for k, hops in enumerate(groups):
            if isinstance(place, MappedPlace) and place.mapped is None:
                steps.append(self._map(place, register=not hops[0].coupled))
                if not hops[0].coupled:
                    continue
            last = k == len(groups) - 1
            target = self.ends.target if last else self._between(groups, k, steps)
            stages = stages_of_hops(self.machine, hops)
            size, flow = self.schedule.size_bytes, self.schedule.flow
            line = Line(flow, size, tuple(hops), stages, place, target)
            self.transfers.append(Transfer(self.backend, team, self.stop, line, self.terms))
            place = target
        return steps

    def _between(self, groups: Sequence[Sequence[Hop]], k: int, steps: list[SetupStep]) -> Place:
        """The place where all bytes rest between movement `k` and the next."""
        node = self.machine.nodes[groups[k][-1].end]
        if isinstance(node, Hbm):
            return DevicePlace(node.device)
        start = perf_counter()
        lead = lead_of(groups[k][-1].strategy, self.ends.files)
        size, following = self.schedule.size_bytes, groups[k + 1][0]
        if following.strategy in MANAGED:
            gpu = _gpus(self.machine, [following])[0]
            buffer = self.backend.managed(gpu, size)
        else:
            buffer = HostBuffer(size, lead=lead)
        self.undo.callback(buffer.close)
        buffer.touch(THREADS)
        steps.append(_step("touch the buffer", start, buffer.size))
        around = {groups[k][-1].strategy, following.strategy}
        if around & {"pinned", "zero_copy"} and buffer.size:
            start = perf_counter()
            self._register(buffer.address, buffer.size)
            buffer.pinned = True
            steps.append(_step("register the buffer", start, buffer.size))
        return HostPlace(buffer)

    def _register(self, address: int, size: int, *, read_only: bool = False) -> None:
        self.backend.register(address, size, read_only=read_only)
        self.undo.callback(self.backend.unregister, address)
        self.registered_bytes += size

    def _map(self, place: MappedPlace, *, register: bool) -> SetupStep:
        """Map the files; register the mappings in place unless that is done chunk by chunk."""
        start = perf_counter()
        maps = []
        for source in place.ranges.sources:
            if source.size_bytes:
                one = Mapping(source.path, source.offset, source.size_bytes)
                self.undo.callback(one.close)
                if register:
                    one.touch()
                    self._register(one.region.address, one.region.size, read_only=True)
                maps.append(one)
        place.mapped = Mapped(maps)
        name = "map and register the file" if register else "map the file"
        return _step(name, start, self.schedule.size_bytes)

    def _before(self, transfer: Transfer) -> list[SetupStep]:
        """What a movement needs before its first run: device memory, registration, ring."""
        if transfer.hands:
            return []
        steps = self.in_place.before(transfer)
        line = transfer.line
        if isinstance(line.target, DevicePlace) and line.target.buffer is None:
            start, target = perf_counter(), line.target
            for _ in range(target.kept):
                memory = self.backend.allocate(target.gpu, line.size)
                self.undo.callback(self.backend.release, memory)
                target.add(memory)
            steps.append(_step(f"allocate {line.hops[-1].end}", start, line.size * target.kept))
        for buffer in _registrable(transfer):
            start = perf_counter()
            self._register(buffer.address, buffer.size)
            self._lent.append(buffer)
            buffer.pinned = True
            steps.append(_step("register the buffer", start, buffer.size))
        return steps + transfer.prepare()

    def _unregister_once(self) -> list[SetupStep]:
        """Time the end of a registration, then have it again for the samples to come."""
        steps = []
        for buffer in self._lent:
            start = perf_counter()
            self.backend.unregister(buffer.address)
            steps.append(_step("unregister the buffer", start, buffer.size))
            self.backend.register(buffer.address, buffer.size)
        return steps

    def _give_back(self) -> list[SetupStep]:
        """Time the end of what was registered chunk by chunk."""
        steps = []
        for transfer in self.transfers:
            start = perf_counter()
            size = transfer.give_back()
            if size:
                steps.append(_step("unregister afterwards", start, size))
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


def _registrable(transfer: Transfer) -> list[HostBuffer]:
    """The caller's own memory at the ends of a copy that needs it registered."""
    if transfer.hops[0].strategy not in ("registered", "zero_copy"):
        return []
    ends = (transfer.line.source, transfer.line.target)
    buffers = [one for place in ends if isinstance(place, HostPlace) for one in place.every]
    return [buffer for buffer in buffers if buffer.size and not buffer.pinned]


def _step(name: str, start: float, size: int) -> SetupStep:
    return SetupStep(name=name, duration_s=perf_counter() - start, size_bytes=size)


def grouped(hops: Sequence[Hop]) -> list[list[Hop]]:
    """The hops of each movement: a coupled hop runs with the next."""
    groups: list[list[Hop]] = [[]]
    for hop in hops:
        groups[-1].append(hop)
        if not hop.coupled:
            groups.append([])
    return [group for group in groups if group]


def _gpus(machine: Machine, hops: Sequence[Hop]) -> list[int]:
    """The driver's indices of all GPUs on the way."""
    nodes = [machine.nodes[name] for hop in hops for name in (hop.start, hop.end)]
    return list(dict.fromkeys(node.device for node in nodes if isinstance(node, Hbm)))
