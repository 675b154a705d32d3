"""The timeline: a lane for each link and stage, predicted above measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from planner.model.slices import thinned
from planner.report.html.phases import Phases, phases
from planner.report.html.scales import short_time, ticks
from planner.report.words import hop_words, resource_words
from planner.results import Estimate, Run, Timeline, TimelineRow
from planner.review.study import Study
from planner.units import format_share, format_size, format_time

UNITS: Final = 100_000
"""Steps of the time axis: what is shorter than one is drawn one wide."""
_HIGH: Final = 20
_BANDS: Final = 10
_FLOWS: Final = 6
"""Flows up to which each has a lane of phases; with more they are told in the table."""
_MOST: Final = 2000
_ROWS: Final = 24
_FEW: Final = 240
_LEAST: Final = 4
"""Of more rows than `_ROWS` only so many slices are drawn, at least `_LEAST` of each row."""


@dataclass(frozen=True, slots=True)
class Track:
    """The slices of a lane, predicted or measured: paths of all its flows."""

    kind: str
    paths: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane with its label."""

    name: str
    about: str
    kind: str
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class LaneRow:
    """The same in figures: one hop of one flow."""

    lane: str
    flow: str
    hop: str
    predicted: str
    predicted_share: str
    measured: str
    measured_share: str
    size: str
    slices: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The whole drawing and what the script needs to explain it."""

    lanes: tuple[Lane, ...]
    phases: tuple[Phases, ...]
    ticks: tuple[tuple[str, str], ...]
    rows: tuple[LaneRow, ...]
    span: str
    units: int
    high: int
    stated: str
    data: str
    measured: bool


def timeline_chart(study: Study, estimate: Estimate, run: Run | None) -> Chart:
    """The lanes of a prediction, and below each what was measured."""
    study = _bounded(study)
    span = max(study.predicted.span_s, study.measured.span_s if study.measured else 0.0) or 1.0
    names = _Names(estimate)
    both = [("predicted", study.predicted)]
    if study.measured is not None:
        both.append(("measured", study.measured))
    lanes, data = [], []
    for lane in _lanes(both, estimate):
        tracks, kind = [], "hop"
        for word, timeline in both:
            rows = [row for row in timeline.rows if row.lane == lane]
            kind = rows[0].kind if rows else kind
            bands = _bands(rows)
            count = max(bands, default=0) + 1
            paths = tuple(
                _path(row, span, (band, count)) for row, band in zip(rows, bands, strict=True)
            )
            tracks.append(Track(word, paths, _told(word, rows, timeline.span_s)))
            data.append(
                [
                    {**_columns(row, names.of(row), span), "y": band}
                    for row, band in zip(rows, bands, strict=True)
                ]
            )
        lanes.append(Lane(*names.lane(lane), kind, tuple(tracks)))
    every = [row for _, timeline in both for row in timeline.rows]
    found = phases(study.predicted, estimate, span, UNITS) if len(estimate.flows) <= _FLOWS else ()
    return Chart(
        lanes=tuple(lanes),
        phases=found,
        ticks=tuple((f"{100 * t / span:.3f}%", short_time(t)) for t in ticks(span)),
        rows=tuple(_figures(both, names)),
        span=format_time(span),
        units=UNITS,
        high=_HIGH,
        stated=_stated(every, study.predicted),
        data=json.dumps(
            {"span": span, "units": UNITS, "tracks": data}, separators=(",", ":")
        ).replace("<", "\\u003c"),
        measured=run is not None and study.measured is not None,
    )


def _bounded(study: Study) -> Study:
    """The same with fewer slices where there are many rows: they take text beside."""
    rows = len(study.predicted.rows)
    if rows <= _ROWS or study.measured is None:
        return study
    return replace(
        study,
        predicted=_thinned(study.predicted, _FEW // rows),
        measured=_thinned(study.measured, _FEW // rows),
    )


def _thinned(timeline: Timeline, most: int) -> Timeline:
    rows = tuple(thinned(row, max(_LEAST, most)) for row in timeline.rows)
    return timeline.model_copy(update={"rows": rows})


def _lanes(both: Sequence[tuple[str, Timeline]], estimate: Estimate) -> list[str]:
    """The names of the lanes: setup first, then hops in the order of the plan, compute last."""
    order = {"setup": 0, "hop": 1, "compute": 2}
    rows = [row for _, timeline in both for row in timeline.rows]
    places = {flow.name: i for i, flow in enumerate(estimate.flows)}
    rows.sort(key=lambda r: (order[r.kind], places.get(r.flow, 0), r.hop or 0))
    return list(dict.fromkeys(row.lane for row in rows))


class _Names:
    """What rows and lanes are called on the page."""

    def __init__(self, estimate: Estimate) -> None:
        self.machine = estimate.machine
        self.hops = {flow.name: flow.hops for flow in estimate.flows}

    def of(self, row: TimelineRow) -> str:
        """The flow and its hop."""
        hop = self.hop(row)
        return f"{row.flow}: {hop}" if hop else row.flow

    def hop(self, row: TimelineRow) -> str:
        hops = self.hops.get(row.flow, ())
        if row.hop is None or row.hop >= len(hops):
            return row.kind
        hop = hops[row.hop].hop
        return f"{hop_words(hop)}, {hop.strategy}"

    def lane(self, lane: str) -> tuple[str, str]:
        """The name of a lane, and what it is."""
        if lane == "setup":
            return "setup", "paid once"
        words = resource_words(lane, self.machine)
        if words == lane:
            return lane, ""
        name, _, rest = words.partition(" (")
        return name, rest.rstrip(")")


def _bands(rows: Sequence[TimelineRow]) -> list[int]:
    """A band of the lane for each row: those that are under way together lie above each other."""
    free: list[float] = []
    found = [0] * len(rows)
    for i in sorted(range(len(rows)), key=lambda i: rows[i].start_s[:1]):
        start, end = (rows[i].start_s or (0.0,))[0], (rows[i].end_s or (0.0,))[-1]
        # A pipeline may be taken up a little before the one before has quite ended.
        slack = 1e-6 * (end - start)
        band = next((k for k, until in enumerate(free) if until <= start + slack), len(free))
        if band == len(free):
            if band >= _BANDS:
                band = min(range(_BANDS), key=lambda k: free[k])
            else:
                free.append(end)
        free[band] = max(free[band], end)
        found[i] = band
    return found


def _path(row: TimelineRow, span: float, band: tuple[int, int]) -> str:
    """Boxes as wide as their span and as high as busy: their area is the busy time."""
    parts = []
    number, count = band
    bottom = _HIGH * (number + 1) // count
    tall = bottom - _HIGH * number // count
    for start, end, busy in zip(row.start_s, row.end_s, row.busy_s, strict=True):
        x = round(start / span * UNITS)
        width = max(1, round(end / span * UNITS) - x)
        share = min(1.0, busy / (end - start)) if end > start else 1.0
        high = max(min(2, tall), round(tall * share))
        parts.append(f"M{x} {bottom}v-{high}h{width}v{high}z")
    return "".join(parts)


def _columns(row: TimelineRow, name: str, span: float) -> dict[str, Any]:
    """What the script needs: times in steps from one slice to the next, bytes, chunks."""
    fine = UNITS * 100 / span
    starts, last = [], 0
    lengths, busy = [], []
    for start, end, work in zip(row.start_s, row.end_s, row.busy_s, strict=True):
        at = round(start * fine)
        starts.append(at - last)
        last = at
        long, at_work = round((end - start) * fine), round(work * fine)
        lengths.append(long)
        busy.append(0 if at_work == long else at_work)
    sizes = list(row.size_bytes)
    chunks = list(row.chunks)
    return {
        "n": name,
        "s": starts,
        "l": lengths,
        "b": _short(busy),
        "z": _short(sizes),
        "c": _short(chunks),
    }


def _short(values: list[int]) -> list[int] | int:
    """One number where all are the same."""
    return values[0] if values and len(set(values)) == 1 else values


def _told(word: str, rows: Sequence[TimelineRow], span: float) -> str:
    """A track in words, for who does not see it."""
    busy = sum(b for row in rows for b in row.busy_s)
    if not rows:
        return f"{word}: nothing"
    share = min(1.0, busy / span) if span > 0 else 0.0
    count = sum(len(row.start_s) for row in rows)
    end = max(row.end_s[-1] for row in rows)
    return (
        f"{word}: busy {format_time(busy)}, {format_share(share)} of the time, in {count} slices "
        f"from {format_time(min(row.start_s[0] for row in rows))} to {format_time(end)}"
    )


def _figures(both: Sequence[tuple[str, Timeline]], names: _Names) -> list[LaneRow]:
    """One row a hop: what the slices add up to."""
    found: dict[tuple[str, str, int | None], dict[str, tuple[TimelineRow, float]]] = {}
    many = len(both[0][1].rows) > _ROWS
    for word, timeline in both:
        for row in timeline.rows:
            if many and row.kind == "setup":
                continue  # told with the times of its flow
            found.setdefault((row.lane, row.flow, row.hop), {})[word] = row, timeline.span_s
    lines = []
    for (lane, flow, _), cells in found.items():
        texts: dict[str, tuple[str, str]] = {}
        for word, (row, span) in cells.items():
            busy = sum(row.busy_s)
            share = format_share(min(1.0, busy / span)) if span > 0 else "–"
            texts[word] = format_time(busy), share
        row = next(iter(cells.values()))[0]
        size = sum(row.size_bytes)
        slices = " / ".join(str(len(cell[0].start_s)) for cell in cells.values())
        predicted = texts.get("predicted", ("–", "–"))
        measured = texts.get("measured", ("–", "–"))
        told = format_size(size) if size else "–"
        lines.append(LaneRow(lane, flow, names.hop(row), *predicted, *measured, told, slices))
    return lines


def _stated(rows: Sequence[TimelineRow], predicted: Timeline) -> str:
    """How many chunks became how many slices."""
    slices = sum(len(row.start_s) for row in rows)
    chunks = sum(n for row in rows for n in row.chunks)
    if predicted.origin == "outline":
        return f"{slices} slices: only when each hop is under way is known, not each chunk."
    if chunks == slices:
        return f"{slices} slices, one for each chunk or step."
    return f"{chunks:,} chunks and steps merged into {slices:,} slices (at most {_MOST:,})."
