"""Where calibrations and the history of runs are kept, told without loading what makes them."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`PLANNER_CACHE_DIR`, else `planner` in the XDG cache folder."""
    given = os.environ.get("PLANNER_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "planner"


def state_folder() -> Path:
    """`PLANNER_STATE_DIR`, else `planner` in the XDG state folder: what outlives a cache."""
    given = os.environ.get("PLANNER_STATE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "planner"
