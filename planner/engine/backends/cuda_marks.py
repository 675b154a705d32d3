"""NVTX ranges, which profilers show beside what the GPU does: flows, hops and chunks by name.

Only a run that was asked for ranges (`execute --nvtx`) makes them, whether a profiler is attached
or not; CuPy, whose NVTX they are, is imported for such a run alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planner.errors import UnavailableError


class Marks:
    """Pushes and pops named ranges of the calling thread."""

    def __init__(self, push: Callable[[str], object], pop: Callable[[], object]) -> None:
        self.push, self.pop = push, pop

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """A range as long as the block."""
        self.push(name)
        try:
            yield
        finally:
            self.pop()


def nvtx() -> Marks:
    """Ranges by CuPy's NVTX.

    Raises
    ------
    UnavailableError
        If CuPy is missing or was built without NVTX.

    """
    try:
        from cupy.cuda import nvtx as found
    except ImportError as error:
        raise UnavailableError(
            f"NVTX ranges need CuPy: {error}", hint="install the extra cuda12 or cuda13"
        ) from error
    return Marks(found.RangePush, found.RangePop)
