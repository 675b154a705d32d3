"""A second thread brings a mapping's pages in before they are registered, where that is faster."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.engine import populate
from planner.engine.backends.host import HostBackend
from planner.engine.memory import PAGE, Mapping
from planner.engine.populate import Populator
from planner.machine.schema import Machine
from planner.model.strategies.pinned import helps
from tests.helpers.machines import affine, every_way
from tests.helpers.schedules import KIB, noise_file, run_way
from tests.helpers.variants import changed

CHUNK = 4 * KIB
PAGES = 64


def _helped() -> Machine:
    """`every_way`, where registering takes half of the time with a second thread's help."""
    return changed(every_way(), {"nodes.host0.register_helped": affine(80e9, 0.5e-6)})


def _mapped(address: int) -> int:
    """Bytes that the page table has of the mapping at an address."""
    text = Path("/proc/self/smaps").read_text(encoding="ascii")
    found = re.search(rf"(?m)^{address:x}-.*?^Rss:\s+(\d+) kB", text, re.DOTALL)
    assert found is not None
    return int(found[1]) * 1024


def test_pages_come_in_and_the_rest_is_left(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(PAGES * PAGE))
    mapping = Mapping(str(file), 0, PAGES * PAGE)
    start = mapping.region.address
    try:
        mapping.forget()
        assert _mapped(start) == 0
        if not populate.populate(start + 100, PAGE):  # a part of two pages
            pytest.skip("the kernel is older than 5.14")
        # The kernel may bring more in than it is asked for, but not less.
        assert _mapped(start) >= 2 * PAGE
        mapping.forget()
        helper = Populator([(start, PAGES * PAGE // 2), (start + PAGES * PAGE // 2, PAGE)])
        for _ in range(2):  # again after it has ended
            helper.start()
            helper.end()
            mapping.forget()
        helper.end()
    finally:
        mapping.close()
    # What is no memory any more is nobody's fault here.
    assert not populate.populate(0, PAGE)


def test_it_ends_with_the_stretch_that_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    helper = Populator([(1, 1), (2, 1), (3, 1)])

    def one(address: int, _size: int) -> bool:
        seen.append(address)
        helper._over = True  # what `end` says from another thread
        return True

    monkeypatch.setattr(populate, "populate", one)
    helper.start()
    helper.end()
    assert seen == [1]


@pytest.mark.parametrize(
    ("cores", "machine", "wanted"),
    [(2, _helped, True), (1, _helped, False), (2, every_way, False)],
)
def test_it_helps_where_that_was_found_faster(
    cores: int,
    machine: Callable[[], Machine],
    wanted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, int]] = []
    plain = HostBackend.register

    def register(self: HostBackend, address: int, size: int, *, read_only: bool = False) -> None:
        done.append(("register", address))
        plain(self, address, size, read_only=read_only)

    def brings(address: int, _size: int) -> bool:
        done.append(("populate", address))
        return True

    def through(self: Populator) -> None:
        if self._thread is not None:
            self._thread.join()  # such small chunks are registered before anybody can help
        end(self)

    end = Populator.end
    monkeypatch.setattr(HostBackend, "register", register)
    monkeypatch.setattr(populate, "populate", brings)
    monkeypatch.setattr(Populator, "end", through)
    file = noise_file(tmp_path / "a", 3 * CHUNK + 1)
    run = run_way(
        "load chunks",
        file.size_bytes,
        machine(),
        shape=(CHUNK, 2, 1),
        files=[file.model_dump()],
        samples=2,
        budget={"cores": cores},
    )
    assert run.flows[0].verified is True
    brought = [address for what, address in done if what == "populate"]
    chunks = [address for what, address in done if what == "register"]
    # Every chunk but the first, in each of the samples.
    first, later = chunks[0], sorted(set(chunks[1:4]))
    assert len(chunks) == 8
    assert first not in brought
    assert (sorted(set(brought)) == later) == wanted
    assert bool(brought) == wanted


def test_slower_help_is_no_help() -> None:
    assert helps(_helped(), "disk0", 2)
    assert helps(_helped(), "host0", 2)
    slow = changed(every_way(), {"nodes.host0.register_helped": affine(30e9, 1e-6)})
    assert not helps(slow, "disk0", 2)
    assert not helps(every_way(), "gpu0", 2)
