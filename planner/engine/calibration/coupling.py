"""What a copy engine at work on the ring leaves of the copy capacity, from runs of the pipeline.

C(W, R) is measured without DMA. A joint run tells how fast the pipeline really is, and the factor
`beside_dma` is what makes the model's own formula give the same time. It holds everything that the
copies alone do not show: memory traffic of the DMA, and on a computer without a GPU the processor
that the emulated copy engine takes away from the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Literal

from planner.engine.calibration.proved import Side, proved
from planner.engine.calibration.scope import FEW_CORES
from planner.engine.calibration.statistics import typical
from planner.machine.rising import rising
from planner.machine.schema import CopyName, Machine, Ram
from planner.machine.tables import BRIEF, CopyTable, on_line
from planner.machine.topology import Topology
from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.strategies import Kind, Shape
from planner.model.strategies.copying import BRIEF_CHUNK
from planner.model.ways import ways
from planner.native import FEWEST

LEAST: Final = 0.02
"""The smallest factor looked for: an emulated engine on one core leaves no less than a fiftieth."""
MOST: Final = 4.0
"""The largest: joint runs beat copies alone only by noise, or where the ring is cached better."""
LINK: Final = 0.05
"""A run within a twentieth of what the link alone allows says nothing of the copies: jitter between
them and the engine alone costs that much (2 to 4 % with 8 to 16 workers on one H200)."""
TURNS: Final = 4
"""Turns in which shares and times at the locks settle: each moves the other by a tenth of its
own."""
TURN_MOST: Final = 1e-3
"""Seconds of a turn looked for: handing a chunk to another thread and back takes some 100 us on
two busy cores."""
HANDING_ON: Final = 30e-6
"""Seconds of a turn at the least where one thread hands on what the C library's threads read: 31 us
by fourteen workers with chunks of 1 MiB, by little more than the calls themselves (one H200,
measured 2026-11-30). Runs that are as fast as the link show none, and chunks so small that only
this limits them would seem to cost nothing."""
LATE_MOST: Final = 2e-3
"""Seconds looked for in which a single slot stands idle until it is seen to: some 250 us where one
thread hands chunks on (two H200s, measured 2026-11-30)."""
ONE_SLOT: Final = 0.94
"""The most of its pace that a ring keeps with one slot a worker where two bounds are equal. Runs
that show a loss show 0.86 to 0.93 (five calibrations of H200 machines, measured 2026-11-30 and
2026-12-01). One that shows none was lucky, or the model was too slow for two slots as well; the
rings that were chosen for it then reached 48 GB/s where 52.5 were predicted."""
STEPS: Final = 60
"""The most steps of a search; a third of them halve the interval."""
CLOSE: Final = 1e-7
"""How near a search comes to the share, in parts of it: far below any noise."""

Sought = Literal["turn", "brief", "late"]
OUTWARD: Final[frozenset[CopyName]] = frozenset({"save", "save_memory"})
"""Copies out of a ring that the GPU filled."""
READ_APART: Final[CopyName] = "file"
"""What many workers do not copy themselves: the C library reads, one thread hands chunks on."""

PATHS: Final[Mapping[CopyName, tuple[str, ...]]] = {
    "file": ("buffered", "pinned"),
    "memory": ("staged",),
    "save": ("pinned", "buffered"),
    "save_memory": ("staged",),
}
"""The strategies, hop by hop, of the pipeline that each kind of copy stage takes part in."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A measured run of a pipeline: `size` bytes by `shape` took `seconds`."""

    copy: CopyName
    shape: Shape
    size: int
    seconds: float
    spread: float | None = None


def need(machine: Machine, copy: CopyName, size: int, *, gpu: str = "gpu0") -> Need:
    """The need of which the pipeline of `copy` is one way: to or from the GPU, disk or memory."""
    ends: dict[CopyName, tuple[str, Kind, str, Kind]] = {
        "file": ("disk0", "file", gpu, "device"),
        "memory": ("host0", "pageable", gpu, "device"),
        "save": (gpu, "device", "disk0", "file"),
        "save_memory": (gpu, "device", "host0", "pageable"),
    }
    start, first, end, last = ends[copy]
    host = machine.nodes["host0"]
    cores = host.cores if isinstance(host, Ram) else 1
    return Need(copy, start, end, size, first, last, pinned_budget=1 << 62, cores=cores)


def movement(machine: Machine, copy: CopyName, size: int, *, gpu: str = "gpu0") -> Movement:
    """The pipeline of `copy` on the machine; raises `ValueError` if it has none."""
    for way in ways(Topology(machine), need(machine, copy, size, gpu=gpu)):
        if way.names == PATHS[copy] and len(way.movements) == 1 and way.lacks() is None:
            return way.movements[0]
    raise ValueError(f"{machine.name} has no pipeline of {copy} copies")


def with_table(machine: Machine, copy: CopyName, table: CopyTable) -> Machine:
    """The machine with another table of one kind of copy."""
    nodes = dict(machine.nodes)
    for name, node in nodes.items():
        if isinstance(node, Ram) and copy in node.copy_rates:
            rates = {**node.copy_rates, copy: table}
            nodes[name] = node.model_copy(update={"copy_rates": rates})
    return machine.model_copy(update={"nodes": nodes})


def table_of(machine: Machine, copy: CopyName) -> CopyTable:
    """The table of a kind of copy."""
    host = machine.nodes["host0"]
    if not isinstance(host, Ram):
        raise TypeError("host0 is the host's memory")
    return host.copy_rates[copy]


def _timer(machine: Machine, joint: Joint) -> Callable[[CopyTable], float]:
    """Seconds that the model gives for a joint run, by the table; its way is looked for once."""
    way = movement(machine, joint.copy, joint.size)

    def time(table: CopyTable) -> float:
        changed = with_table(machine, joint.copy, table)
        crossings = tuple(replace(crossing, machine=changed) for crossing in way.crossings)
        return Movement(crossings, way.strategies).seconds(joint.shape)

    return time


def predicted(machine: Machine, joint: Joint, table: CopyTable) -> float:
    """Seconds that the model gives for a joint run with this table."""
    return _timer(machine, joint)(table)


def factor(machine: Machine, joint: Joint, otherwise: float = 1.0) -> float:
    """The share of C that makes the model's time equal the measured one.

    Where the link limits, the run says nothing of the copies: it is `otherwise`, or what the run
    proves to be there, if that is more.
    """
    table = table_of(machine, joint.copy).model_copy(update={"one_slot": 1.0})
    timed = _timer(machine, joint)

    def time(share: float) -> float:
        shares = tuple(share for _ in table.workers)
        return timed(table.model_copy(update={"beside_dma": shares}))

    proved = joint.size / joint.seconds / table.rate(joint.shape.workers, joint.shape.ring)
    if joint.seconds <= time(MOST) * (1 + LINK):
        return max(otherwise, proved)
    return _solve(time, joint.seconds, MOST)


def _solve(time: Callable[[float], float], seconds: float, most: float) -> float:
    """The share up to `most` at which `time(share)`, which falls with it, is `seconds`."""
    # The rate of a pipeline grows about as the share does, so a straight line through the rates at
    # both ends meets the wanted one in a few steps; halving follows it over bends and edges.
    low, high, wanted = LEAST, most, 1 / seconds
    below, above = 1 / time(low) - wanted, 1 / time(high) - wanted
    if above <= 0:
        return high
    if below >= 0:
        return low
    for step in range(STEPS):
        middle = (low + high) / 2 if step % 3 == 2 else low - below * (high - low) / (above - below)
        off = 1 / time(middle) - wanted
        if off < 0:
            low, below = middle, off
        else:
            high, above = middle, off
        if high - low < CLOSE * high or off == 0:
            break
    return high


def coupled(machine: Machine, joints: Sequence[Joint], short: Sequence[Joint] = ()) -> Machine:
    """The machine with what joint runs say of every kind of copy that was run jointly.

    Runs with two slots and more settle `beside_dma` of their workers; counts between take the
    nearest smaller count's share. Where there are runs with smaller chunks too, what a chunk holds
    the locks beside DMA is settled with them, in turns, and so is the `lead` with `short` runs.
    A run with one slot then settles `one_slot`, or `late` where one thread hands chunks on.
    """
    machine = proved(machine, _served(machine, joints))
    for copy in dict.fromkeys(joint.copy for joint in joints):
        own = [joint for joint in joints if joint.copy == copy]
        double = [joint for joint in own if joint.shape.depth > 1]
        largest = max((joint.shape.chunk for joint in double), default=0)
        big = [joint for joint in double if joint.shape.chunk == largest]
        small = [joint for joint in double if joint.shape.chunk < largest]
        brief = [joint for joint in short if joint.copy == copy]
        for _ in range(TURNS if small else 2 if brief else 1):
            machine = with_table(machine, copy, _beside(machine, copy, big))
            if small:
                machine = with_table(machine, copy, _turn(machine, small))
            if brief:
                machine = with_table(machine, copy, _led(machine, brief))
        table = table_of(machine, copy)
        single = [joint for joint in own if joint.shape.depth == 1]
        if single:
            machine = with_table(machine, copy, table)
            table = _with_one_slot(machine, single[0], table)
        machine = with_table(machine, copy, _as_unsure(table, own))
    return machine


def _as_unsure(table: CopyTable, joints: Sequence[Joint]) -> CopyTable:
    """The table with the spread of the runs, where that is more than that of its own cells.

    The runs are what it predicts, and they were looked at over a longer time.
    """
    runs = typical(joint.spread for joint in joints)
    if runs is None or runs <= (table.spread or 0.0):
        return table
    return table.model_copy(update={"spread": runs})


def _served(machine: Machine, joints: Sequence[Joint]) -> dict[tuple[Side, int], float]:
    """Seconds that a chunk of each size took the link at the most, by direction and bytes.

    Of the whole run but its lead: what filling the ring takes is left in, a hundredth of a run.
    Chunks that went several in a call say nothing of one by itself.
    """
    found: dict[tuple[Side, int], float] = {}
    for joint in joints:
        if joint.copy == READ_APART and joint.shape.workers >= FEWEST:
            continue
        lead = movement(machine, joint.copy, joint.size).lead(joint.shape)
        seconds = (joint.seconds - lead) * joint.shape.chunk / joint.size
        key: tuple[Side, int] = (
            "backward" if joint.copy in OUTWARD else "forward",
            joint.shape.chunk,
        )
        found[key] = min(found.get(key, seconds), seconds)
    return found


def _beside(machine: Machine, copy: CopyName, joints: Sequence[Joint]) -> CopyTable:
    """The table with the shares that make the joint runs come out as measured."""
    table = table_of(machine, copy)
    shares: dict[int, float] = {}
    for joint in sorted(joints, key=lambda joint: joint.shape.workers):
        workers = joint.shape.workers
        # More workers do not disturb each other less than fewer ones, whose run shows it.
        fewer = min(1.0, _nearest(shares, workers)) if shares else 1.0
        shares[workers] = factor(machine, joint, fewer)
    if not shares:
        return table
    filled = tuple(_nearest(shares, workers) for workers in table.workers)
    return table.model_copy(update={"beside_dma": filled})


def _turn(machine: Machine, joints: Sequence[Joint]) -> CopyTable:
    """The table with the time of a turn at the locks that the runs with small chunks show.

    The middle of those that show one; where all are as fast as copies and link allow, 0, or the
    least that handing on takes. Where the workers meet themselves, beside an engine of its own, the
    runs whose chunks take all of a turn show it, and the smallest ones what share they take; those
    alone show a turn where the others are as fast as the link.
    """
    table, apart = table_of(machine, joints[0].copy), joints[0].copy == READ_APART
    handed = apart and max(joint.shape.workers for joint in joints) >= FEWEST
    tiny = [joint for joint in joints if joint.shape.chunk <= BRIEF_CHUNK]
    tell = joints if handed or machine.emulated else [j for j in joints if j not in tiny] or joints
    shown = [turn for joint in tell if (turn := _idle(machine, joint, table, "turn", TURN_MOST))]
    if not shown and len(tell) < len(joints):
        table = table.model_copy(update={"brief": BRIEF})
        shown = [turn for one in tiny if (turn := _idle(machine, one, table, "turn", TURN_MOST))]
        return table.model_copy(update={"turn": median(shown or [0.0])})
    table = table.model_copy(update={"turn": median(shown or [HANDING_ON if handed else 0.0])})
    if len(tell) == len(joints):
        return table
    shares = [share for joint in tiny if (share := _idle(machine, joint, table, "brief", 1.0))]
    return table.model_copy(update={"brief": max(LEAST, median(shares or [BRIEF]))})


def _led(machine: Machine, joints: Sequence[Joint]) -> CopyTable:
    """The table with what short runs take longer than their pipelines do at their pace.

    More workers do not take less: counts in the wrong order share what they take. Between the
    counts that were run it is on the line through its neighbours; more workers than the most are
    woken one after another.
    """
    table = table_of(machine, joints[0].copy)
    at_once = table.model_copy(update={"lead": tuple(0.0 for _ in table.workers)})
    ordered = sorted(joints, key=lambda joint: joint.shape.workers)
    ran = [joint.shape.workers for joint in ordered]
    seconds = rising(
        max(0.0, joint.seconds - predicted(machine, joint, at_once)) for joint in ordered
    )
    host = machine.nodes["host0"]
    wake = host.setup.wake if isinstance(host, Ram) else 0.0
    leads = tuple(
        on_line(ran, seconds, count) + max(0, count - ran[-1]) * wake for count in table.workers
    )
    return table.model_copy(update={"lead": leads})


def _idle(machine: Machine, joint: Joint, table: CopyTable, name: Sought, most: float) -> float:
    """What of that name, up to `most`, makes the run come out as measured.

    None where it is within jitter of what it takes without.
    """
    timed = _timer(machine, joint)

    def time(quick: float) -> float:
        # `_solve` wants a time that falls: `quick` is how much below the most they are.
        return timed(table.model_copy(update={name: most * (1 - quick)}))

    if joint.seconds <= time(1.0) * (1 + LINK):
        return 0.0
    return most * (1 - _solve(time, joint.seconds, 1.0))


def _nearest(shares: Mapping[int, float], workers: int) -> float:
    """The share of the largest measured count up to `workers`, else of the smallest."""
    below = [count for count in shares if count <= workers]
    return shares[max(below) if below else min(shares)]


def _with_one_slot(machine: Machine, joint: Joint, table: CopyTable) -> CopyTable:
    """The table with what a ring of one slot a worker loses."""
    if joint.copy == READ_APART and joint.shape.workers >= FEWEST:
        late = _idle(machine, joint, table, "late", LATE_MOST)
        return table.model_copy(update={"late": late})
    return table.model_copy(update={"one_slot": _one_slot(machine, joint, table), "late": 0.0})


def _one_slot(machine: Machine, joint: Joint, table: CopyTable) -> float:
    """The further share of a ring with one slot a worker, at most `ONE_SLOT`.

    With few cores it was seen to lose nothing at times: there it is at most 1.
    """
    timed = _timer(machine, joint)

    def time(share: float) -> float:
        return timed(table.model_copy(update={"one_slot": share}))

    sure = max(table.workers) > FEW_CORES
    return _solve(time, joint.seconds, ONE_SLOT if sure else 1.0)
