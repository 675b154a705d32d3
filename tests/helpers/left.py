"""What a test must not leave behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import active_count


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """No thread is left, and no file below `folder` that is open or mapped."""
    threads, interval = active_count(), sys.getswitchinterval()
    yield
    assert active_count() == threads
    assert sys.getswitchinterval() == interval
    assert str(folder) not in Path("/proc/self/maps").read_text(encoding="utf-8")
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert str(folder) not in " ".join(str(link.readlink()) for link in links)
