"""What does not fit is said with the number that would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.errors import InfeasibleError
from planner.model.need import Need, Pins
from tests.helpers.machines import GB, MIB, affine, one_gpu
from tests.helpers.variants import UP, by, changed, every, load, reason, upload


@pytest.mark.parametrize(
    "names", [("buffered", "pinned"), ("mmap", "registered"), ("buffered", "registered")]
)
def test_what_pins_the_whole_flow_needs_the_budget_for_it(names: tuple[str, ...]) -> None:
    host = one_gpu(setup={"register": 1e18, "register_file": 10e9})
    topped = load(4 * GB, pinned_budget=3 * GB)
    told = [r.reason for r in every(host, topped).infeasible if r.strategies == names]
    assert "it pins 4 GB on host0, the budget is 3 GB" in told


def test_the_users_own_pinned_buffer_takes_nothing_of_the_budget() -> None:
    assert every(one_gpu(), upload(4 * GB, "pinned", pinned_budget=MIB)).best.way.names == (
        "pinned",
    )


def test_a_buffer_on_the_way_must_fit_into_the_host() -> None:
    small = one_gpu(limit=2 * GB)
    told = {r.reason for r in every(small, load(4 * GB)).infeasible}
    assert "host0 may hold 2 GB, not 4 GB" in told


def test_a_ring_that_fits_is_found_however_small_the_budget() -> None:
    for budget in (256 << 10, MIB, 5 * MIB, 40 * MIB):
        found = by(one_gpu(), load(4 * GB, pinned_budget=budget), "buffered", "pinned")
        assert 0 < found.ring <= budget


def test_pins_that_make_the_ring_too_big_are_answered_with_what_would_fit() -> None:
    # 8 workers x 2 slots of 64 MiB are 1 GiB. In 256 MiB the same slots have 16 MiB each.
    pins = Pins(strategy="pinned", chunk=64 * MIB, depth=2, workers=8)
    need = load(4 * GB, pinned_budget=256 * MIB, pins=pins)
    with pytest.raises(
        InfeasibleError,
        match=r"its ring needs at least 1 GiB pinned on host0, the budget is 256 MiB; "
        r"chunks of 16 MiB would fit",
    ):
        every(one_gpu(), need)


def test_no_workers_are_no_answer_to_pins_that_are_too_big() -> None:
    # 100 slots of 256 KiB, the smallest, are 25 MiB, and not one of 64 MiB fits into 16 MiB.
    pins = Pins(strategy="pinned", chunk=64 * MIB, depth=1, workers=100)
    need = load(16 * GB, pinned_budget=16 * MIB, pins=pins)
    with pytest.raises(InfeasibleError, match="the budget is 16 MiB") as caught:
        every(one_gpu(), need)
    assert "would fit" not in str(caught.value)


def test_a_chunk_larger_than_the_flow_is_refused_with_one_that_fits() -> None:
    """The ring of one slot would have 1 TB; the budget holds 1 GB, and the flow has no more."""
    pins = Pins(strategy="pinned", chunk=1000 * GB)
    need = load(GB, pinned_budget=2 * GB, pins=pins)
    told = {r.reason for r in every(one_gpu(), need).infeasible}
    assert any(
        "its ring needs at least 1 TB pinned on host0, the budget is 2 GB; chunks of 1 GB would fit"
        in reason
        for reason in told
    )


@pytest.mark.parametrize(
    ("size", "chunk", "workers", "told"),
    [
        (GB, 1000 * GB, 4, "its 1 GB fit into one chunk of 1 TB, too few for 4 workers"),
        # Two chunks are enough for two workers; a third has none.
        (8 * MIB, 4 * MIB, 3, "its 8 MiB are 2 chunks of 4 MiB, too few for 3 workers"),
        # 4 chunks of the smallest size, 256 KiB.
        (MIB, None, 5, "its 1 MiB are 4 chunks of 256 KiB, too few for 5 workers"),
    ],
)
def test_more_workers_than_chunks_are_no_matter_of_cores(
    size: int, chunk: int | None, workers: int, told: str
) -> None:
    pins = Pins(strategy="staged", chunk=chunk, workers=workers)
    need = upload(size, "pageable", pins=pins)
    with pytest.raises(InfeasibleError, match=told):
        every(one_gpu(), need)


def test_managed_memory_larger_than_the_gpu_is_refused_with_both_numbers() -> None:
    need = upload(33 * GB, "managed", pins=Pins(strategy="prefetch"))
    machine = changed(one_gpu(), {f"{UP}.curves.managed_prefetch": affine(8e9)})
    with pytest.raises(InfeasibleError, match="gpu0 holds 32 GB, the flow has 33 GB"):
        every(machine, need)


def test_what_is_registered_whole_must_fit_into_the_budget() -> None:
    told = reason(one_gpu(), upload(4 * GB, pinned_budget=GB), "registered")
    assert told == "it pins 4 GB on host0, the budget is 1 GB"


def test_a_disk_holds_whatever_it_is_sent() -> None:
    need = Need("s", "gpu0", "disk0", 4 * GB, "device", "file", GB, 8)
    assert every(one_gpu(), replace(need, pinned_budget=64 * MIB)).best.ring <= 64 * MIB
