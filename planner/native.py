"""Which reads the C library's own threads do, so that one thread hands all chunks on.

The engine's rule (`engine/readers.py`, `engine/serving/intake.py`) and the model's use of it come
from here.
"""

from __future__ import annotations

from typing import Final

FEWEST: Final = 3
"""Workers from which on: two seldom meet at the interpreter's lock, and a thread less is to be
woken for them."""
LEAST_CHUNK: Final = 256 << 10
"""Bytes of a chunk from which on: asking for one and looking for it takes some 20 us of the one
thread, and less of many that read for themselves."""
MANY: Final = 8
"""Workers from which on even if every core has one. Fewer lose more by a thread too many than by
the interpreter's lock: four on two cores were 8 to 25 % slower so, while sixteen on sixteen cores
beside an H200 brought 52 GB/s in a trial and 45 on their own (measured 2026-11-30)."""
MOST_TOGETHER: Final = 4
"""Chunks that go to a copy engine in one call at the most: in a queue of 4 MiB each took 79.9 us
alone, 77.7 by two, 76.6 by four and 76.1 by eight. A cached file came to the GPU at 47.7 GB/s by
ten workers with two slots of 4 MiB and at 49.0 so, at 42.7 and 44.9 by twelve with 2 MiB (one H200,
measured 2026-12-01)."""
SHARE: Final = 6
"""Part of a ring's slots that go in one call at the most: they come back together, while the others
are read, on their way or next to go. In a simulation of rings of eight and ten workers a third left
the engine without work at times."""


def in_one_call(workers: int, depth: int) -> int:
    """Chunks that the one thread hands to an engine in one call, where it has them.

    With one slot each, workers would stand and wait for the others' chunks.
    """
    return max(1, min(MOST_TOGETHER, workers * depth // SHARE)) if depth > 1 else 1


def native(workers: int, chunk: int, cores: int, cap: int | None = None) -> bool:
    """Whether reads of this shape are the C library's, where it can do them and has these cores.

    Who hands on has a core as well, within the `cap` that a plan or a caller sets.
    """
    room = (workers < cores or workers >= MANY) and (cap is None or workers < cap)
    return workers >= FEWEST and chunk >= LEAST_CHUNK and room
