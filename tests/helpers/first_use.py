"""Whether memory that is missing after a test leaks: the test is run once more to find out.

What a library or the driver takes at the first use of something is kept for good and taken once: of
kernels on each device, of peer copies, of managed memory. No list of first uses is ever complete,
least of all with several devices. A leak is missing after the second run, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

from tests.helpers.machines import MIB

SLACK: Final = 4 * MIB
"""What the driver may keep for itself (its pages are 2 MiB) after everything was given back."""
SLOW_S: Final = 30.0
"""A test that takes longer is not run again; it may keep so much:"""
ONCE: Final = 256 * MIB

_kept = pytest.StashKey[list[int]]()
_again = pytest.StashKey[bool]()
_told = pytest.StashKey[list[str]]()


def judge(item: pytest.Item, left: Sequence[int], took_s: float) -> None:
    """Note what is missing after a first run, by device; fail where it is missing once more."""
    if max(left) <= SLACK:
        return
    what = f"bytes still allocated by device: {list(left)}"
    assert not item.stash.get(_again, False), f"{what}, after a second run, too"
    if took_s > SLOW_S:
        assert max(left) <= ONCE, what
        tell(item.config, f"{item.nodeid}: {what}; it is too slow to be run again")
        return
    item.stash[_kept] = list(left)


def run(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The test, and once more where only the memory tells against it."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    kept = item.stash.get(_kept, None)
    if kept is not None and all(report.passed for report in reports):
        item.stash[_again] = True
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        again = (
            "but not its second: kept for good" if all(r.passed for r in reports) else "and second"
        )
        tell(item.config, f"{item.nodeid}: {kept} bytes by device after its first run, {again}")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def tell(config: pytest.Config, line: str) -> None:
    """Keep a line for the end."""
    config.stash.setdefault(_told, []).append(line)


def told(config: pytest.Config) -> list[str]:
    """All lines."""
    return config.stash.get(_told, [])
