"""Progress on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from planner.cli.console import Console


@contextmanager
def progress_on(console: Console) -> Iterator[Any]:
    """A progress that draws on `console`, or `None` where none is wanted."""
    del console
    yield None
