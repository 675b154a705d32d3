"""Predicted against measured, over plans that the calibration did not visit.

    python benchmarks/accuracy.py [--full | --machine FILE] [--budget 300] [--document]

Calibrates, predicts every plan of `benchmarks/matrix.py`, then executes them all, twice, in one
process: the second pass against the first is the repeatability floor, the best that any prediction
could do. Each flow gives two points, its steady time and its first run with the setup.

A point whose own samples spread by more than 3 % is judged by its distance from the predicted
interval, and says so. Without a GPU the host backend runs, on smaller sizes. Results are written
to `benchmarks/results/accuracy-MACHINE.json` as they come; `--document` writes `docs/accuracy.md`
from them, also by itself: `accuracy.py --document --of FILE`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.accuracy_page import write_page
from benchmarks.matrix import COLD_BYTES, SEED, WARM_BYTES, Case, cases
from benchmarks.record import RESULTS, Clock, distribution, header, machine_label, write
from planner.engine.backends import Backend, open_backend
from planner.engine.calibrate import calibrate
from planner.engine.execute import execute, require
from planner.engine.measure import middle, spread
from planner.engine.pagecache import warm
from planner.engine.pattern import Pattern
from planner.engine.scratch import Scratch, folder_of
from planner.errors import PlannerError
from planner.machine.load import load_machine
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.machine.shift import knows_spread, shifted
from planner.model.estimate import estimate
from planner.model.strategies import EXECUTABLE
from planner.plan.schema import FileSource, Plan
from planner.results import Estimate, FlowEstimate, FlowRun, Run, SetupStep
from planner.units import format_time

NOISY = 0.03
"""Samples that spread by more cannot tell whether a prediction is right to 3 %."""
POINT_S = 0.3
"""Seconds of samples of one plan in one pass; its buffers take as long again at most."""
MOST_SAMPLES = 21
"""Copies below a millisecond vary by a tenth from one to the next; the middle of seven still did by
some per cent from pass to pass."""
COMPARED = 4e9
"""Bytes a second at which a sample is compared with its source, at least."""
BETWEEN_S = 2e-3
"""What else a sample takes: its engines are woken, its target cleared."""
VERIFIED = 1 << 26
"""Bytes up to which every sample is compared with its source; larger ones cost too much time here,
and the tests compare them."""
SAVE_EVERY_S = 10.0
EMULATED_SCALE = 0.1
"""Of sizes where the GPU is emulated: copies run at some GB/s there."""

Files = Mapping[str, FileSource]


@dataclass
class Prediction:
    """A case, planned: its plan and estimate, or why it cannot be run here.

    `bounds` are the same schedules with every rate at its upper and at its lower quartile, none
    where no spread is known.
    """

    case: Case
    plan: Plan | None = None
    estimate: Estimate | None = None
    bounds: tuple[Estimate, ...] = ()
    waived: str = ""


@dataclass
class Series:
    """What both passes measured of one point: steady samples, or one first run a pass."""

    case: Case
    flow: FlowEstimate
    predicted: float
    interval: tuple[float, float] | None
    first: bool = False
    whole: bool = False
    passes: dict[int, list[float]] = field(default_factory=dict)
    hops: list[dict[str, Any]] = field(default_factory=list)
    setup: list[dict[str, Any]] = field(default_factory=list)
    cache: str = "none"

    def row(self) -> dict[str, Any]:
        """The point as it is written down."""
        middles = [middle(samples) for samples in self.passes.values()]
        every = [second for samples in self.passes.values() for second in samples]
        measured = middle(middles) if self.first else middle(every)
        own = abs(middles[-1] - middles[0]) / sum(middles) if self.first else spread(every)
        share = own if self.first else own / measured
        floor = abs(middles[-1] / middles[0] - 1) if len(middles) > 1 else None
        hop = self.flow.schedule.hops[0]
        factor = measured / self.predicted
        by_interval = share > NOISY and self.interval is not None
        return {
            "plan": self.case.name,
            "gpus": sorted({*self.case.gpus, *gpus_of(self.flow)}),
            "family": self.case.family,
            "flow": "makespan" if self.whole else self.flow.name,
            "strategy": strategy_of(self.flow),
            "size_bytes": self.flow.size_bytes * self.flow.repeat,
            "chunk_bytes": hop.chunk_bytes,
            "depth": hop.depth,
            "workers": hop.workers,
            "cache": self.cache,
            "first_run": self.first,
            "predicted_s": self.predicted,
            "measured_s": measured,
            "error_factor": factor,
            "floor": floor,
            "spread": share,
            "interval_s": self.interval,
            "judged": "interval" if by_interval else "point",
            "error": judged_error(measured, self.predicted, self.interval if by_interval else None),
            "passes_s": middles,
            "samples": len(every),
            "hops": self.hops,
            "setup": self.setup,
            "written": written(self.case),
        }


def judged_error(measured: float, predicted: float, interval: tuple[float, float] | None) -> float:
    """|measured / predicted - 1|; with an interval its distance from it, 0 inside.

    >>> judged_error(1.1, 1.0, None), judged_error(1.1, 1.0, (0.9, 1.2))
    (0.10000000000000009, 0.0)
    """
    if interval is None:
        return abs(measured / predicted - 1)
    low, high = min(interval), max(interval)
    return max(0.0, measured / high - 1, 1 - measured / low if low > 0 else 0.0)


def strategy_of(flow: FlowEstimate) -> str:
    """Strategies of the hops: `buffered+pinned`; several ways at once with `|` between."""
    schedule = flow.schedule
    ways = [part.hops for part in schedule.parts] or [schedule.hops]
    return " | ".join("+".join(hop.strategy for hop in hops) for hops in ways)


def gpus_of(flow: FlowEstimate) -> set[str]:
    """The GPUs that a flow meets on any of its ways."""
    hops = [*flow.schedule.hops, *(hop for part in flow.schedule.parts for hop in part.hops)]
    return {name for hop in hops for name in (hop.start, hop.end) if name.startswith("gpu")}


def written(case: Case) -> dict[str, Any]:
    """The plan as it is written, to be run again."""
    body: dict[str, Any] = {"flows": {name: dict(flow) for name, flow in case.flows.items()}}
    if case.compute:
        body["compute"] = {name: dict(block) for name, block in case.compute.items()}
    return body


def plan_of(case: Case, files: Files) -> Plan:
    """The plan of a case, its disk flows reading the shared files from the start."""
    flows: dict[str, Any] = {}
    for name, words in case.flows.items():
        flow = dict(words)
        if case.file and flow["from"].startswith("disk"):
            size = min(flow["size"], files[case.file].size_bytes)
            source = files[case.file].model_copy(update={"size_bytes": size})
            flow |= {"size": size, "files": (source,)}
        flows[name] = flow
    compute = {name: dict(block) for name, block in case.compute.items()}
    return Plan.model_validate({"name": case.name, "flows": flows, "compute": compute})


def predict(
    listed: Sequence[Case], machine: Machine, device: Backend, files: Files
) -> list[Prediction]:
    """Every case planned for this machine before anything is measured."""
    found = []
    days = [shifted(machine, "high"), shifted(machine, "low")] if knows_spread(machine) else []
    for case in listed:
        try:
            plan = plan_of(case, files)
            answer = estimate(plan, machine, only=EXECUTABLE, single_ways=not case.split)
            require(device, machine, answer)
        except PlannerError as error:
            found.append(Prediction(case, waived=reason_of(error)))
            continue
        chosen = {flow.name: flow.schedule for flow in answer.flows}
        bounds = tuple(estimate(plan, day, schedules=chosen) for day in days)
        found.append(Prediction(case, plan, answer, bounds))
    return found


def reason_of(error: Exception) -> str:
    r"""Why a plan cannot be run here: of all ways, what keeps the one that was asked for.

    >>> reason_of(ValueError("no way\n  peer: the plan pins gds\n  gds: there is no link"))
    'gds: there is no link'
    """
    first, *ways = str(error).splitlines() or [type(error).__name__]
    own = [line.strip() for line in ways if "the plan pins" not in line]
    # Detours over other places, and GPUDirect Storage that nobody asked for, say less.
    own.sort(key=lambda line: (line.startswith("gds:"), line.partition(":")[0].count("+")))
    return own[0] if own else first


def series_of(prediction: Prediction) -> list[Series]:
    """The points of a case: each flow steady and first, and the makespan of what is in step."""
    case, answer, bounds = prediction.case, prediction.estimate, prediction.bounds
    if answer is None:
        return []
    found = []
    for k, flow in enumerate(answer.flows):
        if flow.repeat == 1:
            interval = span([bound.flows[k].steady_s for bound in bounds])
            found.append(Series(case, flow, flow.steady_s, interval))
        interval = span([bound.flows[k].first_s for bound in bounds])
        found.append(Series(case, flow, flow.first_s, interval, first=True))
    if case.whole:
        interval = span([makespan_without_setup(bound) for bound in bounds])
        predicted = makespan_without_setup(answer)
        found.append(Series(case, answer.flows[0], predicted, interval, whole=True))
    return [one for one in found if one.predicted > 0]


def span(ends: Sequence[float]) -> tuple[float, float] | None:
    """An interval from its ends, `None` where there are none."""
    return (min(ends), max(ends)) if ends else None


def makespan_without_setup(answer: Estimate) -> float:
    """Seconds of a plan whose first flow begins it, once that flow is set up."""
    setup = sum(step.duration_s for step in answer.flows[0].setup if not step.overlapped)
    return answer.makespan_s - setup


class Matrix:
    """All cases on one backend, pass after pass."""

    def __init__(
        self, machine: Machine, device: Backend, predictions: Sequence[Prediction]
    ) -> None:
        self.machine, self.device = machine, device
        self.predictions = [p for p in predictions if p.estimate is not None]
        self.waived = {p.case.name: p.waived for p in predictions if p.estimate is None}
        self.failed: dict[str, str] = {}
        self.series = {p.case.name: series_of(p) for p in self.predictions}

    def measure(self, turn: int, clock: Clock, until_s: float) -> Iterator[str]:
        """One pass in an order of its own; yields the name of each case that is done.

        A later pass measures again what the first one did.
        Cases that load the disk come after the others: what they leave behind (dirty pages, a
        throttled disk) would disturb whoever comes next.
        """
        order = [p for p in self.predictions if not turn or self.measured(p)]
        random.Random(SEED + turn).shuffle(order)  # noqa: S311 - a seeded order is the point
        order.sort(key=lambda p: not p.case.quiet)
        for prediction in order:
            if clock.spent() > until_s:
                return
            if not prediction.case.quiet:
                os.sync()  # what the case before has written would be on its way to the disk
            try:
                run = self._run(prediction)
            except Exception as error:  # noqa: BLE001 - one plan's failure must not lose the others
                self.failed[prediction.case.name] = f"{type(error).__name__}: {reason_of(error)}"
                continue
            if run is not None:
                keep(self.series[prediction.case.name], turn, run)
            yield prediction.case.name

    def measured(self, prediction: Prediction) -> bool:
        """Whether the case has been measured."""
        return any(one.passes for one in self.series[prediction.case.name])

    def _run(self, prediction: Prediction) -> Run | None:
        plan, answer = prediction.plan, prediction.estimate
        if plan is None or answer is None or prediction.case.name in self.failed:
            return None
        largest = max(flow.size_bytes * flow.repeat for flow in answer.flows)
        verify = largest <= VERIFIED
        each = answer.makespan_s + BETWEEN_S + (largest / COMPARED if verify else 0.0)
        samples = max(2, min(MOST_SAMPLES, int(POINT_S / each)))
        return execute(
            plan,
            self.machine,
            estimate=answer,
            backend=self.device,
            samples=samples,
            verify=verify,
        )

    def rows(self) -> list[dict[str, Any]]:
        """The points that were measured, in the order of the matrix."""
        every = (one for series in self.series.values() for one in series)
        return [one.row() for one in every if one.passes and all(map(min, one.passes.values()))]


def keep(series: Sequence[Series], turn: int, run: Run) -> None:
    """Put what a run measured where it belongs."""
    flows = {flow.name: flow for flow in run.flows}
    for one in series:
        flow = flows[one.flow.name]
        if one.whole:
            one.passes[turn] = list(run.makespan_samples_s)
        elif one.first:
            one.passes[turn] = [flow.first_s]
            one.setup = compared(one.flow.setup, flow.setup)
        else:
            one.passes[turn] = list(flow.samples_s)
        one.cache, one.hops = flow.cache, hops_of(flow)


def hops_of(flow: FlowRun) -> list[dict[str, Any]]:
    """Each hop's busy time beside what was predicted."""
    return [
        {
            "hop": f"{hop.hop.start} -> {hop.hop.end}",
            "strategy": hop.hop.strategy,
            "resource": hop.resource,
            "predicted_s": hop.predicted_s,
            "busy_s": hop.busy_s,
            "error_factor": hop.error_factor,
        }
        for hop in flow.hops
    ]


def compared(predicted: Sequence[SetupStep], measured: Sequence[SetupStep]) -> list[dict[str, Any]]:
    """Setup steps by name: predicted and measured seconds; a step may be on one side only."""
    names = dict.fromkeys(step.name for step in (*predicted, *measured))

    def of(steps: Sequence[SetupStep], name: str) -> float:
        return sum(step.duration_s for step in steps if step.name == name and not step.overlapped)

    return [
        {"name": name, "predicted_s": of(predicted, name), "measured_s": of(measured, name)}
        for name in names
    ]


def summary(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors of steady runs, of first runs, by strategy, and the floor beside them."""
    steady = [p for p in points if not p["first_run"]]
    first = [p for p in points if p["first_run"]]
    strategies = dict.fromkeys(p["strategy"] for p in steady)
    several = [p["error"] for p in steady if len(p["gpus"]) > 1]
    return {
        **distribution([p["error"] for p in steady]),
        "first_runs": distribution([p["error"] for p in first]),
        "several_gpus": distribution(several),
        "floor": distribution([p["floor"] for p in steady if p["floor"] is not None]),
        "judged_by_interval": sum(p["judged"] == "interval" for p in steady),
        "all_as_points": distribution([abs(p["error_factor"] - 1) for p in steady]),
        "first_runs_as_points": distribution([abs(p["error_factor"] - 1) for p in first]),
        "by_strategy": {
            name: distribution([p["error"] for p in steady if p["strategy"] == name])
            for name in sorted(strategies)
        },
    }


@contextlib.contextmanager
def shared_files(machine: Machine, scale: float) -> Iterator[dict[str, FileSource]]:
    """The two files that all disk flows read; removed on every way out."""
    disks = [node for node in machine.nodes.values() if isinstance(node, Disk)]
    folder = folder_of(disks[0].path if disks else tempfile.gettempdir())
    with contextlib.ExitStack() as undo:
        found = {}
        for number, (name, size) in enumerate((("warm", WARM_BYTES), ("cold", COLD_BYTES))):
            scratch = Scratch(folder, f"accuracy-{name}", int(size * scale), Pattern(number))
            undo.callback(scratch.close)
            found[name] = scratch.write(sync=True)
        warm([found["warm"]])
        yield found


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """What machine is judged, in which time, and where the result goes."""
    parser.add_argument("--machine", help="a machine file of this computer, instead of calibrating")
    parser.add_argument("--full", action="store_true", help="calibrate fully, not quickly")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "host"))
    parser.add_argument("--emulate-gpus", type=int, help="GPUs to stand in for without a device")
    parser.add_argument("--budget", type=float, help="seconds in all, calibration included")
    parser.add_argument("--out", type=Path)


def machine_to_judge(options: argparse.Namespace) -> tuple[Machine, float | None]:
    """The machine, and the seconds that its calibration took (`None` for one from a file)."""
    if options.machine:
        return load_machine(options.machine), None
    begun = perf_counter()
    more: dict[str, Any] = {"full": True} if options.full else {}
    if options.emulate_gpus:
        more["emulate_gpus"] = options.emulate_gpus
    return calibrate(backend=options.backend, **more), perf_counter() - begun


def measure(options: argparse.Namespace) -> Path:
    """Calibrate, predict, measure twice; returns where the result lies."""
    clock = Clock(options.budget)
    machine, calibrated_s = machine_to_judge(options)
    scale = options.scale or (EMULATED_SCALE if machine.emulated else 1.0)
    gpus = sum(isinstance(node, Hbm) for node in machine.nodes.values())
    cores = next(node.cores for node in machine.nodes.values() if isinstance(node, Ram))
    path = options.out or RESULTS / f"accuracy-{machine_label(machine)}.json"
    words = options.only.split(",")
    wanted = [c for c in cases(gpus, scale, cores) if any(word in c.family for word in words)]
    if options.several_gpus:
        wanted = [case for case in wanted if len(case.gpus) > 1 or case.split]
    device = open_backend(options.backend)
    with contextlib.closing(device), shared_files(machine, scale) as files:
        begun = perf_counter()
        matrix = Matrix(machine, device, predict(wanted, machine, device, files))
        body = header(machine) | {
            "calibrated_s": calibrated_s,
            "predicted_s": perf_counter() - begun,
            "scale": scale,
        }
        print(
            f"{len(matrix.predictions)} of {len(wanted)} plans can be run here; calibrated in "
            f"{format_time(calibrated_s or 0.0)}, predicted in {format_time(body['predicted_s'])}"
        )
        _passes(matrix, clock, body, path)
    return path


def _passes(matrix: Matrix, clock: Clock, body: dict[str, Any], path: Path) -> None:
    """Both passes, what there is written down every few seconds."""
    saved, begun = perf_counter(), clock.spent()
    for turn in (0, 1):
        left = (clock.seconds or float("inf")) - begun
        done = 0
        for _name in matrix.measure(turn, clock, begun + left * (turn + 1) / 2):
            done += 1
            if perf_counter() - saved > SAVE_EVERY_S:
                _save(matrix, body, path)
                saved = perf_counter()
        print(f"pass {turn + 1}: {done} plans, {clock.spent():.0f} s in all", flush=True)
    body["measured_s"] = clock.spent() - begun
    _save(matrix, body, path)


def _save(matrix: Matrix, body: dict[str, Any], path: Path) -> None:
    rows = matrix.rows()
    body |= {"summary": summary(rows), "waived": matrix.waived, "failed": matrix.failed}
    body["points"] = rows
    write(path, body)


def show(result: Mapping[str, Any]) -> None:
    """The summary for people."""
    found = result["summary"]

    def line(label: str, row: Mapping[str, Any]) -> None:
        if row["points"]:
            print(
                f"{label:44} {row['points']:>4} points  median {row['median']:6.1%}"
                f"  p90 {row['p90']:6.1%}  worst {row['worst']:6.1%}"
            )

    line("steady runs", found)
    line("first runs", found["first_runs"])
    if "several_gpus" in found:  # older results lack it
        line("steady runs that meet several GPUs", found["several_gpus"])
    line("floor: second pass against first", found["floor"])
    line("steady runs, none by its interval", found["all_as_points"])
    for name, row in found["by_strategy"].items():
        line(f"  {name}", row)
    print(f"{found['judged_by_interval']} judged by interval, {len(result['waived'])} plans waived")
    for name, reason in result["failed"].items():
        print(f"failed: {name}: {reason}")


def main() -> int:
    """Measure, or only write the page of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_machine_options(parser)
    parser.add_argument("--scale", type=float, help="factor on every size")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="families with one of these (a,b) in the name"
    )
    parser.add_argument(
        "--several-gpus", action="store_true", help="only plans that may meet two GPUs or more"
    )
    parser.add_argument("--document", action="store_true", help="write docs/accuracy.md")
    parser.add_argument(
        "--of", type=Path, nargs="+", metavar="FILE", help="of these results; nothing is run"
    )
    options = parser.parse_args()
    paths = options.of or [measure(options)]
    results = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    for result in results.values():
        show(result)
    if options.document:
        write_page(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
