"""The page `docs/accuracy.md`, made from the results of `benchmarks/accuracy.py` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.scatter import scatter
from planner.units import format_size, format_time

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORST = 10
SMALL = 1 << 20
"""Bytes below which a copy is mostly latency: 1 MiB takes 20 us on the wire and 6 to start."""
NOISY = 0.03
SHARE = 0.5
"""A cause is named where it makes up half of the error or more."""

Point = Mapping[str, Any]
Result = Mapping[str, Any]

INTRO = """\
# Accuracy

Predicted against measured, over plans that the calibration did not visit: sizes off its grid,
every strategy, both directions, cold and cached files, many small pieces, opposite directions and
several flows at once, kernels beside copies, steady and first runs. `benchmarks/accuracy.py` makes
the figures, and this page from them.

The matrix is measured twice in one process. The *floor* is the second pass against the first: what
the machine itself does not repeat, no prediction can tell. The error is |measured / predicted - 1|;
a point whose own samples spread by more than 3 % is judged by its distance from the predicted
interval (quartiles of what was calibrated), 0 inside, and marked `interval`.
"""


def write_page(results: Mapping[str, Result], docs: Path = DOCS) -> None:
    """Write `accuracy.md` and a plot for each result; `results` are keyed by the file's name."""
    for name, result in results.items():
        (docs / plot_name(name)).write_text(scatter(result["points"]), encoding="utf-8")
    (docs / "accuracy.md").write_text(document(results), encoding="utf-8")


def plot_name(result: str) -> str:
    """The plot's file beside the page: `accuracy-h200-1.svg` for `accuracy-h200-1.json`."""
    return Path(result).stem + ".svg"


def document(results: Mapping[str, Result]) -> str:
    """The page as Markdown: a section for each machine."""
    sections = [_section(name, result) for name, result in results.items()]
    return "\n".join([INTRO, *sections])


def _section(name: str, result: Result) -> str:
    points = result["points"]
    steady = [p for p in points if not p["first_run"]]
    first = [p for p in points if p["first_run"]]
    emulated = " GPUs are emulated in RAM here." if result.get("emulated") else ""
    hardware = result.get("hardware") or {}
    about = ", ".join(
        str(part)
        for part in (hardware.get("gpu"), f"driver {result.get('driver')}", hardware.get("cpu"))
        if part
    )
    lines = [
        f"## {name.removeprefix('accuracy-').removesuffix('.json')}",
        "",
        f"{about}; {result['date'][:10]}; `{result['command']}`.{emulated}",
        "",
        f"![predicted against measured]({plot_name(name)})",
        "",
        *_table(result["summary"], steady),
        "",
        f"### The {min(WORST, len(steady))} worst steady points",
        "",
        *_worst(steady),
        "",
        f"### The {min(WORST, len(first))} worst first runs",
        "",
        *_worst(first),
        "",
    ]
    if result.get("waived"):
        lines += ["### Not run here", "", *_reasons(result["waived"]), ""]
    if result.get("failed"):
        lines += ["### Failed", "", *_reasons(result["failed"]), ""]
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _table(summary: Mapping[str, Any], steady: Sequence[Point]) -> list[str]:
    """Median, 90th percentile and worst: all, first runs, the floor, and each strategy."""
    rows = [
        ("**steady runs**", summary),
        ("first runs", summary["first_runs"]),
        ("floor of the steady runs", summary["floor"]),
        ("steady runs, none judged by its interval", summary["all_as_points"]),
        ("first runs, none judged by its interval", summary["first_runs_as_points"]),
    ]
    if summary.get("several_gpus", {}).get("points"):
        rows.insert(1, ("steady runs that meet several GPUs", summary["several_gpus"]))
    lines = [
        "| | points | median | p90 | worst | worst factor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for label, row in rows:
        lines.append(_row(label, row, ""))
    for name, row in summary["by_strategy"].items():
        factors = [p["error_factor"] for p in steady if p["strategy"] == name]
        worst = max(factors, key=lambda f: abs(f - 1))
        lines.append(_row(f"`{name}`".replace("|", "\\|"), row, f"{worst:.2f}x"))
    by_interval = summary["judged_by_interval"]
    return [*lines, "", f"{by_interval} steady points were judged by their interval."]


def _row(label: str, row: Mapping[str, Any], factor: str) -> str:
    shares = " | ".join(_percent(row[key]) for key in ("median", "p90", "worst"))
    return f"| {label} | {row['points']} | {shares} | {factor} |"


def _worst(points: Sequence[Point]) -> list[str]:
    """The points that are furthest off, with what the result itself says of the cause."""
    ordered = sorted(points, key=lambda p: (-p["error"], -abs(p["error_factor"] - 1)))[:WORST]
    lines = [
        "| plan | strategy | size | predicted | measured | factor | floor | judged | cause |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for p in ordered:
        strategy = f"`{p['strategy']}`".replace("|", "\\|")
        cells = [
            f"{p['plan']}: {p['flow']}",
            strategy,
            format_size(p["size_bytes"]),
            format_time(p["predicted_s"]),
            format_time(p["measured_s"]),
            f"{p['error_factor']:.2f}x",
            _percent(p["floor"]),
            p["judged"],
            cause(p),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def cause(point: Point) -> str:
    """Why a point is off, as far as its own figures tell.

    Looked for in this order: noise (a second pass that is off by half of the error or more, samples
    that spread), a setup step that makes up half of the missing seconds, latency, the hop whose
    busy time is furthest off, and what lies between the hops.
    """
    off = abs(point["error_factor"] - 1)
    floor, missing = point["floor"], point["measured_s"] - point["predicted_s"]
    if floor is not None and floor >= SHARE * off:
        return f"the machine does not repeat it: second pass off by {floor:.1%}"
    if point["spread"] > NOISY:
        return f"samples spread by {point['spread']:.1%}"
    if point["first_run"]:
        step = _setup_at_fault(point["setup"], missing)
        if step is not None:
            return step
    if point["size_bytes"] < SMALL:
        return (
            f"latency: {format_time(abs(missing))} on a copy of {format_time(point['predicted_s'])}"
        )
    hop = max(point["hops"], key=lambda h: abs(h["error_factor"] - 1), default=None)
    if hop is None or abs(hop["error_factor"] - 1) < SHARE * off:
        return f"between the stages: no hop alone is off by half of it{_shape(point)}"
    return (
        f"{hop['strategy']} on {hop['hop']}: busy {format_time(hop['busy_s'])} where "
        f"{format_time(hop['predicted_s'])} were predicted{_shape(point)}"
    )


def _setup_at_fault(steps: Sequence[Mapping[str, Any]], missing: float) -> str | None:
    """The setup step that makes up half of the missing (or spare) seconds, if one does."""
    worst = max(steps, key=lambda s: abs(s["measured_s"] - s["predicted_s"]), default=None)
    if worst is None or abs(worst["measured_s"] - worst["predicted_s"]) < SHARE * abs(missing):
        return None
    return (
        f"setup, {worst['name']}: {format_time(worst['measured_s'])} where "
        f"{format_time(worst['predicted_s'])} were predicted"
    )


def _shape(point: Point) -> str:
    """The ring, where there is one."""
    if point["workers"] < 2 and point["depth"] < 2:
        return ""
    chunk = format_size(point["chunk_bytes"])
    return f" ({point['workers']} workers x {chunk} x {point['depth']})"


def _reasons(waived: Mapping[str, str]) -> list[str]:
    """Reasons, each once, with the plans that it kept from running."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in waived.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"- {', '.join(names)}: {reason}" for reason, names in by_reason.items()]
