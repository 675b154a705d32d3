"""How a change reads: always A → B, and what it means spelled out, never a bare sign."""

from __future__ import annotations

from typing import Final

from planner.report.style import Tone
from planner.report.words import distance
from planner.results import Hop
from planner.results.diff import Diff, Difference, FlowChange, HopChange, Scalar, TimeChange
from planner.units import format_rate, format_size, format_time

KEY: Final = "Key: + added  - removed  ~ changed"
MARKS: Final = {"added": "+", "removed": "-", "changed": "~", "unchanged": " "}
"""What stands before a line that says how something changed."""
_TONES: Final[dict[str, Tone]] = {"faster": "good", "slower": "bad"}
_ROUGH: Final = 1.1
"""From here two decimals of a factor tell enough; below, three."""
_FORMATS: Final = {
    "rate": format_rate,
    "size": format_size,
    "size_bytes": format_size,
    "chunk": format_size,
    "rings": format_size,
    "readers.requests": format_size,
    "capacity": format_size,
    "limit": format_size,
    "pinned": format_size,
    "pinned_limit": format_size,
    "cache": format_size,
    "latency": format_time,
    "gap": format_time,
    "time": format_time,
    "start": format_time,
    "memlock": format_size,
    "sector": format_size,
    "window": format_size,
    "touch_fresh": format_rate,
    "touch_recycled": format_rate,
    "touch_worker": format_rate,
    "register": format_rate,
    "register_ring": format_rate,
    "unregister": format_rate,
    "unregister_file": format_rate,
    "register_file": format_rate,
    "register_memory": format_rate,
    "host_alloc": format_rate,
    "map_touch": format_rate,
    "cipher": format_rate,
    "forward": format_rate,
    "backward": format_rate,
    "register_latency": format_time,
    "unregister_latency": format_time,
    "host_alloc_latency": format_time,
    "map_latency": format_time,
    "setup.workers": format_time,
    "worker": format_time,
    "lane": format_time,
    "ready": format_time,
    "ready_ring": format_time,
    "wake": format_time,
    "issue": format_time,
    "turn": format_time,
    "lead": format_time,
    "late": format_time,
    "context": format_time,
    "round_trip": format_time,
    "idle": format_time,
    "overhead": format_time,
    "per_chunk": format_time,
    "per_piece": format_time,
    "seconds": format_time,
}
"""How a number in a plan or a machine is written, by the last key of its path, or the last two."""


def direction_words(change: TimeChange) -> str:
    """`1.97× faster`, `no difference beyond noise`, `unchanged`."""
    match change.direction:
        case None:
            return "added" if change.before_s is None else "removed"
        case "same":
            return "unchanged"
        case "noise":
            return "no difference beyond noise"
        case direction:
            before, after = change.before_s or 0.0, change.after_s or 0.0
            if before <= 0 or after <= 0:
                return direction
            factor = distance(before / after)
            text = f"{factor:.2f}" if factor >= _ROUGH else f"{factor:.3f}"
            return f"slightly {direction}" if text == "1.000" else f"{text}× {direction}"


def direction_tone(change: TimeChange) -> Tone:
    """Green for faster, red for slower."""
    return _TONES.get(change.direction or "", "plain")


def change_words(change: TimeChange) -> str:
    """`2.060 s → 1.046 s`, or the one time there is."""
    return arrow(
        *(None if s is None else format_time(s) for s in (change.before_s, change.after_s))
    )


def arrow(before: str | None, after: str | None) -> str:
    """`before → after`; one alone where the other is missing."""
    if before is None or after is None:
        return before or after or ""
    return f"{before} → {after}"


def signed_time(change: TimeChange) -> str:
    """`−1.014 s`, `+12.00 ms`."""
    seconds = change.difference_s
    if seconds is None or change.direction == "same":
        return ""
    return f"{'−' if seconds < 0 else '+'}{format_time(abs(seconds))}"


def signed_share(change: TimeChange) -> str:
    """`−49.2 %`."""
    if change.share is None or change.direction == "same":
        return ""
    text = f"{abs(change.share) * 100:.1f} %"
    return "" if text == "0.0 %" else f"{'−' if change.share < 0 else '+'}{text}"


def noise_words(change: TimeChange) -> str:
    """`± 12.00 ms`: half the interval of differences that the samples leave possible."""
    if change.noise_s is None or change.direction == "same":
        return ""
    low, high = change.noise_s
    return f"± {format_time((high - low) / 2)}" if high > low else ""


def settings_words(hop: HopChange) -> str:
    """`depth 8 → 16, chunk 4 MiB → 16 MiB`."""
    if hop.before is None or hop.after is None:
        only = hop.before or hop.after
        return _schedule_words(only) if only else ""
    pairs = [(name, _setting(hop.before, name), _setting(hop.after, name)) for name in hop.settings]
    return ", ".join(f"{name} {before} → {after}" for name, before, after in pairs)


def _schedule_words(hop: Hop) -> str:
    chunk = format_size(hop.chunk_bytes)
    return f"{hop.strategy}, chunk {chunk}, depth {hop.depth}, workers {hop.workers}"


def _setting(hop: Hop, name: str) -> str:
    if name == "chunk":
        return format_size(hop.chunk_bytes)
    value = getattr(hop, name)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def value_words(path: str, value: Scalar) -> str:
    """A value of a plan or a machine, in the unit that its key has."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    keys = path.split(".")
    shown = _FORMATS.get(".".join(keys[-2:])) or _FORMATS.get(keys[-1])
    if shown is None:
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    try:
        # A list is told as text: each of its numbers has the unit.
        numbers = [float(part) for part in str(value).split(", ")]
    except ValueError:
        return str(value)
    return ", ".join(
        shown(round(one) if shown is format_size else one)  # type: ignore[arg-type]
        for one in numbers
    )


def difference_words(found: Difference) -> str:
    """`6.8 GB/s → 13.4 GB/s`; nothing for a whole part that came or went."""
    before, after = (value_words(found.path, v) for v in (found.before, found.after))
    if found.kind == "changed":
        return "changed" if before == after else f"{before} → {after}"
    value = found.after if found.kind == "added" else found.before
    return "" if value is None else (after if found.kind == "added" else before)


def headline(diff: Diff) -> str:
    """The change that a reader asks for: of the only flow, else of the makespan."""
    if len(diff.flows) == 1:
        name, change = diff.flows[0].name, diff.flows[0].duration
    else:
        name, change = "makespan", diff.makespan
    return f"{name} {change_words(change)} ({direction_words(change)})"


def route_words(flow: FlowChange) -> str:
    """`disk0 → host0 → gpu0`, or both ways where they differ."""
    before, after = (" → ".join(route) for route in (flow.route_before, flow.route_after))
    if before == after or not before or not after:
        return before or after
    return f"{before}, then {after}"
