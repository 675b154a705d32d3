"""The compiled simulation; the same answer as `_fluid_events` with `_fluid_repair`.

Only imported when used, since numba is optional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numba

from planner.model._fluid_events import Trace
from planner.model._fluid_numba_events import Log, play
from planner.model._fluid_numba_world import World, build_world
from planner.model._fluid_problem import Problem

Play = Callable[[World, bool], tuple[int, Log]]


def run(problem: Problem, *, record: bool) -> Trace:
    """Play all events; `finish` stays nan for a flow that never does."""
    world = build_world(problem)
    events, log = _play(world, record)
    flows = world.flows
    return Trace(
        flows["ready"].tolist(),
        flows["begin"].tolist(),
        flows["finish"].tolist(),
        flows["bottleneck"].tolist(),
        world.resources["busy"].tolist(),
        events,
        log,
    )


def _with_cache() -> Play:
    """The compiled `play`, kept between processes where numba finds a folder that it may write.

    numba's cache looks at the file of the kept function only. The fingerprint of the others comes
    in by a closure, so it is part of the key, and an edit of any of them compiles anew.
    """
    sources = sorted(Path(__file__).parent.glob("_fluid_*.py"))
    fingerprint = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()

    def entry(world: World, record: bool) -> tuple[int, Log]:  # noqa: FBT001
        if len(fingerprint) == 0:
            return 0, [(0.0, 0, 0.0)]
        return play(world, record)

    try:
        return cast("Play", numba.njit(cache=True)(entry))
    except RuntimeError:  # no folder: neither beside this file nor in the user's cache
        return cast("Play", numba.njit(entry))


_play = _with_cache()
