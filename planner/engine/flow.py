"""One flow of a run: its movements one after another, as often as it repeats."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from planner.engine.backends.base import Backend
from planner.engine.ends import THREADS, Ends
from planner.engine.memory import HostBuffer, Mapped, Mapping
from planner.engine.places import DevicePlace, HostPlace, MappedPlace, Place
from planner.engine.strategies import stages_of
from planner.engine.team import Team
from planner.engine.transfer import Moved, Transfer
from planner.engine.waits import Stop
from planner.machine.schema import Hbm, Machine
from planner.results import FlowSchedule, Hop, SetupStep


@dataclass(frozen=True, slots=True)
class FlowSample:
    """One sample: when it began and ended, what was set up, and the runs of each movement."""

    start: float
    end: float
    setup: tuple[SetupStep, ...]
    steady_s: float
    first_s: float
    moves: tuple[Moved, ...]


@dataclass
class FlowRunner:
    """Everything of a flow that stays from one sample to the next."""

    backend: Backend
    machine: Machine
    schedule: FlowSchedule
    ends: Ends
    stop: Stop
    repeat: int = 1
    team: Team | None = None
    transfers: list[Transfer] = field(default_factory=list)
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    done_bytes: int = 0

    def sample(self) -> FlowSample:
        """Set up what is missing, then move everything `repeat` times."""
        start = perf_counter()
        setup = self._set_up()
        ready = perf_counter()
        moves: list[Moved] = []
        firsts = ready
        self.done_bytes = 0
        for turn in range(self.repeat):
            moves = []
            for transfer in self.transfers:
                setup += self._before(transfer)
                moves.append(transfer.run())
            self.done_bytes += self.schedule.size_bytes
            if turn == 0:
                firsts = perf_counter()
        end = perf_counter()
        setup_s = sum(step.duration_s for step in setup)
        first_s = firsts - start
        steady_s = (end - firsts) / (self.repeat - 1) if self.repeat > 1 else first_s - setup_s
        after = self._give_back()
        return FlowSample(
            start,
            end,
            (*setup, *after),
            steady_s,
            first_s + sum(step.duration_s for step in after),
            tuple(moves),
        )

    def progress(self) -> int:
        """Bytes that have left their source in this sample."""
        now = sum(t.moved() for t in self.transfers[:1])
        return max(
            self.done_bytes, min(self.done_bytes + now, self.schedule.size_bytes * self.repeat)
        )

    @property
    def pinned_bytes(self) -> int:
        """Bytes of all rings."""
        return sum(transfer.pinned_bytes for transfer in self.transfers)

    def _set_up(self) -> list[SetupStep]:
        """The team and, for each movement, its places; rings are made right before they are used."""
        if self.team is not None:
            return []
        steps: list[SetupStep] = []
        groups = grouped(self.schedule.hops)
        start = perf_counter()
        workers = max((hop.workers for hop in self.schedule.hops), default=1)
        self.team = Team(workers, self.stop, self.schedule.flow)
        gpus = _gpus(self.machine, self.schedule.hops)
        self.team.run(lambda _number: [self.backend.attach(gpu) for gpu in gpus] and None)
        steps.append(SetupStep(name="start the workers", duration_s=perf_counter() - start))
        place: Place = self.ends.source
        for k, hops in enumerate(groups):
            last = k == len(groups) - 1
            if hops[0].strategy == "mmap" and isinstance(place, MappedPlace):
                steps += self._map(place)
                continue
            target = self.ends.target if last else self._between(groups, k, steps)
            stages = [stage for hop in hops for stage in stages_of(self.machine, hop)]
            transfer = Transfer(
                self.backend,
                self.team,
                self.stop,
                hops,
                stages,
                (place, target),
                self.schedule.size_bytes,
                self.schedule.flow,
            )
            self.transfers.append(transfer)
            place = target
        return steps

    def _between(self, groups: Sequence[Sequence[Hop]], k: int, steps: list[SetupStep]) -> Place:
        """The buffer in which all bytes rest between two movements."""
        end = groups[k][-1].end
        node = self.machine.nodes[end]
        size = self.schedule.size_bytes
        if isinstance(node, Hbm):
            return DevicePlace(node.device)
        start = perf_counter()
        direct = groups[k][-1].strategy == "direct"
        lead = self.ends.files[0].offset % 4096 if direct and self.ends.files else None
        buffer = HostBuffer(size, lead=lead)
        self.undo.callback(buffer.close)
        buffer.touch(THREADS)
        touched = perf_counter()
        steps.append(
            SetupStep(name="touch the buffer", duration_s=touched - start, size_bytes=size)
        )
        if groups[k + 1][0].strategy == "pinned":
            self._register(buffer.address, size)
            buffer.pinned = True
            done = perf_counter()
            steps.append(
                SetupStep(name="register the buffer", duration_s=done - touched, size_bytes=size)
            )
        return HostPlace(buffer)

    def _register(self, address: int, size: int, *, read_only: bool = False) -> None:
        self.backend.register(address, size, read_only=read_only)
        self.undo.callback(self.backend.unregister, address)

    def _map(self, place: MappedPlace) -> list[SetupStep]:
        """Map the files and register the mappings in place."""
        start = perf_counter()
        maps = [
            Mapping(source.path, source.offset, source.size_bytes)
            for source in place.ranges.sources
            if source.size_bytes
        ]
        for one in maps:
            self.undo.callback(one.close)
            one.touch()
            self._register(one.region.address, one.region.size, read_only=True)
        place.mapped = Mapped(maps)
        return [
            SetupStep(
                name="map and register the file",
                duration_s=perf_counter() - start,
                size_bytes=self.schedule.size_bytes,
            )
        ]

    def _before(self, transfer: Transfer) -> list[SetupStep]:
        """What a movement needs right before its first run: ring, device memory, registration."""
        steps: list[SetupStep] = []
        if transfer.hands:
            if transfer.hops[0].strategy == "registered":
                self._register_place(transfer, steps, timed=False)
            return steps
        target = transfer.target
        if isinstance(target, DevicePlace) and target.buffer is None:
            start = perf_counter()
            target.buffer = self.backend.allocate(target.gpu, self.schedule.size_bytes)
            self.undo.callback(self.backend.release, target.buffer)
            steps.append(
                SetupStep(
                    name=f"allocate {transfer.hops[-1].end}",
                    duration_s=perf_counter() - start,
                    size_bytes=self.schedule.size_bytes,
                )
            )
        if transfer.hops[0].strategy == "registered":
            self._register_place(transfer, steps, timed=True)
        steps += transfer.prepare()
        return steps

    def _register_place(self, transfer: Transfer, steps: list[SetupStep], *, timed: bool) -> None:
        """Register the caller's own memory at one end of a `registered` copy."""
        for place in (transfer.source, transfer.target):
            if isinstance(place, HostPlace) and not place.buffer.pinned and place.buffer.size:
                start = perf_counter()
                self.backend.register(place.buffer.address, place.buffer.size)
                place.buffer.pinned = True
                self.undo.callback(self.backend.unregister, place.buffer.address)
                if timed:
                    steps.append(
                        SetupStep(
                            name="register the buffer",
                            duration_s=perf_counter() - start,
                            size_bytes=place.buffer.size,
                        )
                    )

    def _give_back(self) -> list[SetupStep]:
        """Unregister the caller's memory after the first sample: it belongs to the cost of one load.

        Later samples find it registered again, outside of their time.
        """
        steps: list[SetupStep] = []
        for transfer in self.transfers:
            if transfer.hops[0].strategy != "registered" or transfer.given_back:
                continue
            transfer.given_back = True
            for place in (transfer.source, transfer.target):
                if isinstance(place, HostPlace) and place.buffer.pinned:
                    start = perf_counter()
                    self.backend.unregister(place.buffer.address)
                    seconds = perf_counter() - start
                    self.backend.register(place.buffer.address, place.buffer.size)
                    steps.append(
                        SetupStep(
                            name="unregister the buffer",
                            duration_s=seconds,
                            size_bytes=place.buffer.size,
                        )
                    )
        return steps

    def close(self) -> None:
        """Give rings, buffers, mappings and threads back, the last made first."""
        for transfer in reversed(self.transfers):
            transfer.close()
        self.transfers.clear()
        self.undo.close()
        if self.team is not None:
            self.team.close()
            self.team = None
        self.ends.close()


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
    found: list[int] = []
    for hop in hops:
        for name in (hop.start, hop.end):
            node = machine.nodes[name]
            if isinstance(node, Hbm) and node.device not in found:
                found.append(node.device)
    return found
