"""What the contest of loaders has measured: who goes on, the rows, and how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peer_loaders import Cache, Setting
from benchmarks.peer_process import Child, Nobody
from planner.engine.measure import middle
from planner.units import format_rate, format_size, format_time

SLOW_S, SLOWEST_S = 2.0, 4.0
"""A loader that takes so long is loaded twice, or once, unless it is among the fastest: what reads
from the disk takes that long with every loader."""
LEAD = 4
"""The fastest of the others, who take part in every round."""
LIKE_OTHERS = "every view made"
"""The setting of the project that, like the others, makes all tensors within the time."""


@dataclass(frozen=True)
class Peak:
    """The most memory that was pinned at once in a load: bytes, or the reason why they are unknown.

    `cache` is the state of the file that was loaded.
    """

    bytes: int | None = None
    reason: str = ""
    cache: str | None = None

    @classmethod
    def of(cls, found: dict[str, Any], cache: str) -> Peak:
        """From what a watched process said of its load."""
        if "failed" in found:
            return cls(None, f"while it was counted {found['failed']}", cache)
        return cls(found["pinned_bytes"], found["pinned_reason"], cache)


@dataclass
class Entrant:
    """A loader in one job: its process, and what it measured."""

    setting: Setting
    child: Child | Nobody
    seconds: list[float] = field(default_factory=list)
    peak: Peak = field(default_factory=Peak)
    verified: bool = True
    reason: str = ""
    states: set[str] = field(default_factory=set)
    expected: float = 0.0
    again: bool = False
    """Whether its process is a new one: its first load then says nothing new."""

    def renew(self, child: Child) -> None:
        """Load by another process from now on."""
        self.child, self.again = child, bool(self.seconds)

    @property
    def names(self) -> tuple[str, str]:
        """Loader and setting."""
        return self.setting.loader, self.setting.setting

    @property
    def steady(self) -> float | None:
        """The median behind the first load; of the first, where there is no other."""
        return middle(self.seconds[1:] or self.seconds) if self.seconds else None

    def wants(self, turn: int, cache: Cache) -> bool:
        """Whether it takes part in this round though it is not among the fastest."""
        if self.reason or not self.seconds:
            return not self.reason
        slowest = max(self.seconds)
        if slowest > SLOWEST_S or (slowest > SLOW_S and cache == "cold"):
            return turn < 1
        return turn < 2 or slowest <= SLOW_S

    def took(self, found: dict[str, Any]) -> None:
        """Take up what its process said of a load."""
        if "failed" in found:
            self.reason = found["failed"]
            return
        if self.again:
            self.again = False
        else:
            self.seconds.append(found["seconds"])
        if not found["verified"]:
            self.verified = False
            wrong = ", ".join(found["wrong"]) or f"{found['tensors']} tensors came"
            self.reason = f"differs from the file: {wrong}"

    def row(self, file: str, size: int, tensors: int, cache: str) -> dict[str, Any]:
        """The row as it is written down."""
        median = self.steady
        return {
            "loader": self.setting.loader,
            "version": self.child.version,
            "setting": self.setting.setting,
            "file": file,
            "size_bytes": size,
            "tensors": tensors,
            "cache": "/".join(sorted(self.states)) or cache,
            "seconds": median,
            "first_s": self.seconds[0] if self.seconds else None,
            "samples_s": self.seconds,
            "rate_bytes_per_s": size / median if median else None,
            "peak_pinned_bytes": self.peak.bytes,
            "pinned_cache": self.peak.cache,
            "pinned_reason": self.peak.reason,
            "verified": self.verified if self.seconds else None,
            "reason": self.reason,
        }


def waves(entrants: Sequence[Entrant], most: int) -> list[list[Entrant]]:
    """Groups of `most` at the most that load at the same time, the project's own in each.

    The best settings come first.
    """
    own = [entrant for entrant in entrants if entrant.setting.loader == "planner"]
    others = [entrant for entrant in entrants if entrant.setting.loader != "planner"]
    others.sort(key=lambda entrant: entrant.setting.kind != "best")
    room = max(1, most - len(own))
    starts = range(0, max(1, len(others)), room)
    return [[*own, *others[start : start + room]] for start in starts]


def leading(entrants: Sequence[Entrant]) -> list[Entrant]:
    """The project's own, and the fastest of the others so far."""
    there = [entrant for entrant in entrants if entrant.seconds and not entrant.reason]
    others = [entrant for entrant in there if entrant.setting.loader != "planner"]
    others.sort(key=lambda entrant: min(entrant.seconds))
    return [e for e in there if e.setting.loader == "planner"] + others[:LEAD]


def standings(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each file and state the project beside the best of all others.

    The project is taken with every view made, as the others make their tensors, where that was
    measured; `lazy_s` is what the call takes that makes them when they are asked for.
    """
    found = []
    for file, cache in dict.fromkeys((row["file"], row["cache"]) for row in rows):
        there = [r for r in rows if (r["file"], r["cache"]) == (file, cache) and r["verified"]]
        own = [row for row in there if row["loader"] == "planner"]
        others = [row for row in there if row["loader"] != "planner"]
        if not own or not others:
            continue
        ours = next((row for row in own if row["setting"] == LIKE_OTHERS), own[0])
        lazy = next((row for row in own if row["setting"] != LIKE_OTHERS), None)
        best = min(others, key=lambda row: row["seconds"])
        first = min(others, key=lambda row: row["first_s"])
        found.append(
            {
                "file": file,
                "cache": cache,
                "seconds": ours["seconds"],
                "lazy_s": lazy["seconds"] if lazy else None,
                "best_other": f"{best['loader']}, {best['setting']}",
                "best_other_s": best["seconds"],
                "times_as_fast": best["seconds"] / ours["seconds"],
                "first_s": ours["first_s"],
                "best_other_first": f"{first['loader']}, {first['setting']}",
                "best_other_first_s": first["first_s"],
                "times_as_fast_first": first["first_s"] / ours["first_s"],
            }
        )
    return found


def show(rows: Sequence[dict[str, Any]], title: str) -> None:
    """A table for people, the fastest first."""
    print(title)
    for row in sorted(rows, key=lambda row: row["seconds"] or float("inf")):
        name = f"  {row['loader']} {row['version'] or ''}, {row['setting']}"
        if row["seconds"] is None:
            print(f"{name:66} {row['reason'][:120]}")
            continue
        pinned = row["peak_pinned_bytes"]
        held = row["pinned_reason"][:40] if pinned is None else f"{format_size(pinned)} pinned"
        print(
            f"{name:66} {format_time(row['seconds']):>9} {format_rate(row['rate_bytes_per_s']):>10}"
            f"  first {format_time(row['first_s']):>9}  {held}  {row['reason'][:120]}",
            flush=True,
        )


def show_standings(found: Sequence[dict[str, Any]]) -> None:
    """A line for each file and state."""
    for row in found:
        print(
            f"{row['file']}, {row['cache']}: {row['times_as_fast']:.2f} times as fast as "
            f"{row['best_other']}; first {row['times_as_fast_first']:.2f} times"
        )
