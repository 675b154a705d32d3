"""Host memory has the size, the place and the end that it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planner.engine.memory import (
    HUGE,
    PAGE,
    HostBuffer,
    Mapped,
    Mapping,
    Ring,
    copy_memory,
    round_up,
)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 1_000_000])
def test_a_buffer_has_exactly_its_bytes(size: int) -> None:
    buffer = HostBuffer(size)
    assert len(buffer.view) == size == buffer.array.size
    assert buffer.address % PAGE == 0
    buffer.touch(4)
    buffer.fill(0x5A, 4)
    assert bytes(buffer.view) == b"\x5a" * size
    buffer.close()


@pytest.mark.parametrize("lead", [0, 1, 123, 4095])
def test_a_lead_is_kept_and_has_a_page_to_spare_at_either_end(lead: int) -> None:
    buffer = HostBuffer(10_000, lead=lead)
    assert buffer.address % PAGE == lead
    # One block before and one behind the bytes can be written.
    wide = buffer.around(-lead, round_up(lead + 10_000, PAGE))
    wide[:] = b"\x01" * len(wide)
    assert bytes(buffer.view) == b"\x01" * 10_000
    wide.release()
    buffer.close()


def advised(address: int) -> bool:
    """Whether the kernel was asked for huge pages there: `hg` among the flags of the mapping."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            low, high = (int(part, 16) for part in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            return "hg" in rest.split()
    return False


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").is_dir(), reason="a kernel without huge pages"
)
@pytest.mark.parametrize("lead", [None, 0, 123])
@pytest.mark.parametrize("size", [1, PAGE, HUGE + 1])
def test_huge_memory_begins_where_a_huge_page_does(size: int, lead: int | None) -> None:
    buffer = HostBuffer(size, lead=lead, huge=True)
    # A lead lies behind the page to spare, and that at the start.
    before = 0 if lead is None else PAGE + lead
    assert (buffer.address - before) % HUGE == 0
    assert advised(buffer.address)
    # The last huge page is whole: as many bytes as the buffer needs lie within the mapping.
    room = round_up(before + size, HUGE) - before
    wide = buffer.around(0, room)
    assert len(wide) == room
    buffer.fill(7, 2)
    assert set(buffer.array.tolist()) == {7}
    wide.release()
    buffer.close()


def test_the_smallest_ring_has_a_huge_page() -> None:
    ring = Ring(workers=1, depth=1, slot=PAGE)
    assert ring.size == PAGE
    assert ring.buffer.address % HUGE == 0
    ring.close()


def test_copies_go_between_addresses() -> None:
    one, other = HostBuffer(100), HostBuffer(100)
    one.fill(7)
    copy_memory(other.address + 10, one.address, 50)
    assert bytes(other.view) == b"\0" * 10 + b"\x07" * 50 + b"\0" * 40
    one.close()
    other.close()


def test_the_slots_of_a_ring_are_pages_of_their_own() -> None:
    ring = Ring(workers=3, depth=2, slot=5000)
    addresses = [address for worker in range(3) for address in ring.addresses(worker)]
    # 5000 bytes take two pages: 8192 from one slot to the next, 6 slots.
    assert [a - addresses[0] for a in addresses] == [8192 * k for k in range(6)]
    assert ring.size == 6 * 8192
    for worker in range(3):
        ring.touch(worker)
        for view, address in zip(ring.views(worker), ring.addresses(worker), strict=True):
            view[:] = bytes([worker + 1]) * 5000
            assert ring.buffer.array[address - addresses[0]] == worker + 1
            view.release()
    ring.close()


def test_files_are_mapped_where_their_bytes_lie(tmp_path: Path) -> None:
    data = np.arange(20_000, dtype=np.uint16).tobytes()
    path = tmp_path / "data"
    path.write_bytes(data)
    maps = [Mapping(str(path), 5000, 3000), Mapping(str(path), 0, 10)]
    for one in maps:
        one.touch()
        assert one.region.address % PAGE == 0
        assert one.region.address <= one.address
    mapped = Mapped(maps)
    # Bytes 2990 to 3005 of the flow: ten of the first file's end, five of the second's start.
    pieces = list(mapped.pieces(2990, 3005))
    assert [(low, length) for low, _, length in pieces] == [(2990, 10), (3000, 5)]
    target = HostBuffer(15)
    for low, address, length in pieces:
        copy_memory(target.address + low - 2990, address, length)
    assert bytes(target.view) == data[7990:8000] + data[:5]
    target.close()
    for one in maps:
        one.close()
    assert str(path) not in Path("/proc/self/maps").read_text(encoding="utf-8")
