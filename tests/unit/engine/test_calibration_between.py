"""What a calibration says lies between two GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.engine.calibration.assemble import Found, link_of
from planner.engine.calibration.rounds import Cell
from planner.machine.discover import Discovery, discover
from planner.machine.discover_details import read_details
from planner.machine.discover_pairs import GpuPair
from planner.machine.schema import Link
from tests.helpers import seen
from tests.helpers.nvml import FakeNvml

GB = 10**9
MIB = 1 << 20
HOPPER = {"nvmlDeviceGetArchitecture": 9}


def driver(**changes: Any) -> Sequence[GpuPair]:
    """What a management library says of every two GPUs."""
    return read_details(lambda: FakeNvml(**({"answers": HOPPER} | changes))).pairs


def about(*buses: str) -> Discovery:
    """As many GPUs as addresses, numbered in that order; PCIe 5 x16 each."""
    gpus = tuple(seen.gpu(k, bus=bus.lower()) for k, bus in enumerate(buses))
    return replace(discover(Path("/nowhere")), gpus=gpus)


def copies(kind: str, rate: float, gpus: tuple[int, int] = (0, 1)) -> list[Cell]:
    """Lone copies both ways that take 10 us and what their bytes take."""
    i, j = gpus
    return [
        Cell((f"{kind}{a}-{b}", "alone", size), None, clean=[10e-6 + size / rate])
        for a, b in ((i, j), (j, i))
        for size in (MIB, 64 * MIB, 256 * MIB)
    ]


def link(
    cells: list[Cell],
    pairs: Sequence[GpuPair] = (),
    *,
    emulated: bool = False,
    gpus: Discovery | None = None,
) -> Link:
    found = Found(
        "here", gpus or about("00000000:0A:00.0", "00000000:0B:00.0"), [0, 1], emulated, pairs
    )
    found.cells = cells
    made = link_of(found, "nvlink0")
    assert made is not None
    return made


def test_nvlinks_are_named_with_their_generation_and_number() -> None:
    made = link(copies("peer", 390 * GB), driver(ends=[["switch"] * 18, ["switch"] * 18]))
    assert (made.kind, made.generation, made.width) == ("nvlink", 4, 18)
    assert made.peer_access is True


def test_gpus_without_nvlink_reach_each_other_over_pcie() -> None:
    # The driver names the ends of no link, and says that NVLink does not join the two.
    none = driver(ends=[[], []], by_nvlink=5)
    made = link(copies("peer", 26 * GB), none)
    assert (made.kind, made.generation, made.width) == ("pcie", None, None)
    assert made.peer_access is True
    apart = link(copies("apart", 20 * GB), none)
    assert (apart.kind, apart.peer_access) == ("pcie", False)


@pytest.mark.parametrize(
    ("rate", "kind"),
    [
        # PCIe 5 x16 carries 63 GB/s: what is faster goes by another wire.
        (55 * GB, "pcie"),
        (100 * GB, "nvlink"),
    ],
)
def test_where_the_driver_hides_nvlinks_the_rate_tells(rate: float, kind: str) -> None:
    for pairs in (driver(ends=None), ()):
        made = link(copies("peer", rate), pairs)
        assert (made.kind, made.width) == (kind, None)


def test_of_gpus_that_nobody_describes_the_fastest_pcie_decides() -> None:
    # 16 lanes of generation 6: 121 GB/s.
    bare = replace(about(), gpus=())
    assert link(copies("peer", 110 * GB), gpus=bare).kind == "pcie"
    assert link(copies("peer", 130 * GB), gpus=bare).kind == "nvlink"


def test_emulated_gpus_have_no_wire_between_them() -> None:
    assert link(copies("peer", 10 * GB), emulated=True).kind == "interconnect"
