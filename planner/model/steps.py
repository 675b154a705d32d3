"""Which flows and compute blocks go in step, repeat by repeat."""

from __future__ import annotations

from collections.abc import Mapping


def pairs_in_step(parts: Mapping[str, tuple[int, tuple[str, ...]]]) -> set[tuple[str, str]]:
    """The pairs (earlier, later) whose repeats wait for each other one by one.

    `parts` gives each name its repeats and what it is after. A pair goes in step if both repeat
    equally often, more than once, and nothing that waits for the whole of the earlier stands
    between them: the earlier could never end then.
    """
    followers: dict[str, list[str]] = {name: [] for name in parts}
    equal = set()
    for name, (repeat, after) in parts.items():
        for other in after:
            followers[other].append(name)
            if repeat == parts[other][0] > 1:
                equal.add((other, name))
    return {pair for pair in sorted(equal) if not _around(*pair, followers, equal)}


def _around(
    start: str, end: str, followers: Mapping[str, list[str]], equal: set[tuple[str, str]]
) -> bool:
    """Whether a path leads from start to end that waits for the whole of something."""
    seen: set[tuple[str, bool]] = set()
    waiting = [(start, False)]
    while waiting:
        at, whole = waiting.pop()
        for name in followers[at]:
            state = (name, whole or (at, name) not in equal)
            if state == (end, True):
                return True
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return False
