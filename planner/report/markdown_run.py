"""A run as Markdown: predicted beside measured."""

from __future__ import annotations

from planner.report.markdown_estimate import memory_section
from planner.report.markdown_parts import Section, Table
from planner.report.run import headline
from planner.report.words import error_mark, error_words, hop_words
from planner.results import FlowRun, Run
from planner.units import format_rate, format_size, format_time
from planner.wording import counted


def run_headline(run: Run) -> str:
    """The page's own sentence of the only flow; else of the makespan."""
    if len(run.flows) == 1:
        said = headline(run.flows[0]).rstrip(".")
    else:
        took, expected = format_time(run.makespan_s), format_time(run.predicted_makespan_s)
        said = f"all flows took {took}; predicted {expected}: {error_words(run.error_factor)}"
    if run.environment.backend == "null":
        return f"{said} (a virtual clock, nothing was moved)"
    return f"{said} (emulated: HBM stands in RAM)" if run.environment.emulated else said


def run_sections(run: Run) -> list[Section]:
    """Flows, objectives, remarks; hops, memory and the place folded."""
    from planner.report.markdown import note_section, objective_section

    return [
        Section("flows", _flow_table(run)),
        *objective_section(run.objectives, unknown="not measured"),
        *note_section([*(f"waived: {w}" for w in run.waived), *run.warnings]),
        Section("hops", _hop_table(run), "Hops, predicted beside measured"),
        *memory_section(run.estimate.nodes),
        Section("facts of the run", _facts(run), "Where and how it was measured"),
    ]


def _flow_table(run: Run) -> Table:
    rows = [row for flow in run.flows for row in _flow_rows(flow)]
    error = _error(run.error_factor)
    times = format_time(run.predicted_makespan_s), format_time(run.makespan_s)
    if len(run.flows) > 1:
        rows.append(["makespan", "", *times, error])
    return Table(["Flow", "Size", "Predicted", "Measured", "Error"], "lrrrl", rows)


def _flow_rows(flow: FlowRun) -> list[list[str]]:
    steady = f"{format_time(flow.steady_s)} ± {format_time(flow.spread_s)}"
    return [
        [
            flow.name,
            format_size(flow.size_bytes),
            format_time(flow.predicted_s),
            format_time(flow.duration_s),
            _error(flow.error_factor),
        ],
        [
            f"{flow.name}, steady",
            "",
            format_time(flow.predicted_steady_s),
            steady,
            _error(flow.steady_error_factor),
        ],
    ]


def _error(factor: float) -> str:
    return f"{error_words(factor)} {error_mark(factor)}".strip()


def _hop_table(run: Run) -> Table:
    rows = [
        [
            flow.name,
            hop_words(hop.hop),
            hop.hop.strategy,
            format_time(hop.predicted_s),
            format_time(hop.busy_s),
            _error(hop.error_factor) if hop.predicted_s > 0 and hop.busy_s > 0 else "",
            format_rate(hop.rate_bytes_per_s) if hop.busy_s > 0 else "",
        ]
        for flow in run.flows
        for hop in flow.hops
    ]
    titles = ["Flow", "Hop", "Strategy", "Predicted", "Measured", "Error", "Rate"]
    return Table(titles, "lllrrlr", rows)


def _facts(run: Run) -> list[str]:
    where = run.environment
    states = dict.fromkeys(flow.cache for flow in run.flows if flow.cache != "none")
    verified = all(flow.verified for flow in run.flows)
    facts = [
        f"{where.backend} backend on {where.machine}, {where.date}",
        f"{counted(run.samples, 'sample')} after {run.warmup} warm-up",
        f"cache {', '.join(states)}" if states else "",
        "data verified" if verified else "data not verified",
        *where.gpus,
        f"kernel {where.kernel}" + (f", driver {where.driver}" if where.driver else ""),
    ]
    return [fact for fact in facts if fact]
