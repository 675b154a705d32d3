"""The contest of ways and shapes: which schedules run, and what is said of them."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import choice
from benchmarks.choice import GOOD, HOPELESS, LEAST_ROUNDS, SMALLEST, Trial, compete, summary
from benchmarks.choice_plans import plan_of, plans
from benchmarks.kept_buffers import Pool
from benchmarks.record import Clock
from planner.engine.backends.host import HostBackend
from planner.engine.memory import HUGE
from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.plan.schema import FileSource

MIB = 1 << 20
SOURCE = FileSource(path="/nowhere/file", offset=0, size_bytes=10**9)


@pytest.fixture(scope="module")
def h200() -> Machine:
    return load_machine("h200-sxm-1")


@pytest.fixture
def device() -> Iterator[HostBackend]:
    with contextlib.closing(HostBackend()) as backend:
        yield backend


def trial(name: str, size: int, machine: Machine, device: HostBackend) -> Trial:
    return Trial(name, plan_of(name, plans(size)[name], SOURCE), machine, device)


def test_there_are_twenty_plans_of_one_size() -> None:
    listed = plans(10**9)
    assert len(listed) == 20
    sizes = {words["size"] for words in listed.values()}
    assert sizes == {10**9, 250_000_000}  # a quarter where every run waits for the disk


def test_every_way_runs_at_its_own_shape(h200: Machine, device: HostBackend) -> None:
    found = trial("memory", 10**9, h200, device)
    found.others()
    labels = [entry.label for entry in found.entries]
    assert len(labels) == len(set(labels)) >= 3
    assert {"pageable by host0, gpu0", "staged by host0, gpu0"} <= set(labels)
    assert found.entries[0].kind == "chosen"


def test_random_shapes_keep_the_budgets(h200: Machine, device: HostBackend) -> None:
    found = trial("memory, 32 MiB pinned", 10**9, h200, device)
    found.others()
    for entry in found.entries:
        entry.seconds = [entry.prediction.flows[0].duration_s]  # as if the prediction were right
    found.inner(12)
    inner = [entry for entry in found.entries if entry.kind == "inner"]
    assert inner
    # Of the two best ways, the one with chunks to choose; `registered` is one copy.
    best = min(e.prediction.flows[0].duration_s for e in found.entries if e.kind != "inner")
    for entry in inner:
        hop = entry.schedule.hops[0]
        assert hop.workers * hop.depth * hop.chunk_bytes <= 32 * MIB
        assert 1 <= hop.workers <= 16
        assert hop.chunk_bytes % 4096 == 0
        # The search goes by powers of two; what lies between may be a little faster.
        assert best <= GOOD * entry.prediction.flows[0].duration_s
    assert max(e.prediction.flows[0].duration_s for e in inner) <= HOPELESS * max(
        e.prediction.flows[0].duration_s for e in found.entries if "staged" in e.label
    )


def test_a_plan_too_small_for_any_shape_goes_without(h200: Machine, device: HostBackend) -> None:
    found = trial("memory", SMALLEST - 1, h200, device)
    found.others()
    way = next(entry.schedule for entry in found.entries if "staged" in entry.label)
    ring = {"chunk_bytes": 64 << 10, "depth": 2, "workers": 2}  # so there is a shape to choose
    hops = tuple(hop.model_copy(update=ring) for hop in way.hops)
    assert found.add(way.model_copy(update={"hops": hops}), "way")
    for entry in found.entries:
        entry.seconds = [entry.prediction.flows[0].duration_s]
    found.inner(12)
    row = found.row()
    assert row["inner"] == 0
    assert row["factor"] is not None


def test_what_is_drawn_is_all_that_fits(h200: Machine, device: HostBackend) -> None:
    # Room for two smallest chunks and a half: one slot up to all of it, or two of a half, by one
    # worker or by two. The range of chunks is log2(2.5) = 1.32 wide for one and log2(1.25) = 0.32
    # for two, so one slot is drawn in 1.32 / (1.32 + 2 * 0.32) = 67 % of the turns.
    room = SMALLEST * 5 // 2
    found = trial("memory", room, h200, device)
    drawn = [found.drawn_shape() or {} for _ in range(1000)]
    rings = Counter((shape["workers"], shape["depth"]) for shape in drawn)
    assert set(rings) == {(1, 1), (1, 2), (2, 1)}
    assert rings[1, 1] == pytest.approx(670, abs=60)  # four times the spread of 15
    for shape in drawn:
        assert shape["chunk_bytes"] >= SMALLEST
        assert shape["workers"] * shape["depth"] * shape["chunk_bytes"] <= room
    assert max(shape["chunk_bytes"] for shape in drawn) > 0.95 * room


def test_a_plan_is_run_and_judged(h200: Machine, device: HostBackend) -> None:
    found = trial("memory", 3_000_001, h200, device)
    compete(found, 2, 2, Clock(None))
    row = found.row()
    assert row["failed"] == {}
    # The best is the fastest of those in the final rounds, and the chosen one is among them.
    assert row["factor"] >= 1.0
    finals = [entry["measured_s"] for entry in row["entries"] if entry["finalist"]]
    assert row["best"]["measured_s"] == min(finals)
    assert row["chosen"]["measured_s"] / min(finals) == row["factor"]
    assert len(row["chosen"]["samples_s"]) == 2


def test_a_plan_without_time_runs_all_ways_and_the_fewest_rounds(
    h200: Machine, device: HostBackend
) -> None:
    found = trial("memory", 3_000_001, h200, device)
    compete(found, 5, 9, Clock(0.0))
    row = found.row()
    assert (row["inner"], row["rounds"]) == (0, LEAST_ROUNDS)
    assert {entry["kind"] for entry in row["entries"]} == {"chosen", "way"}
    assert row["factor"] >= 1.0


def test_a_plan_that_breaks_is_waived_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, h200: Machine
) -> None:
    size = 3_000_001
    three = dict(list(plans(size).items())[8:11])
    monkeypatch.setattr(choice, "plans", lambda _size: three)
    monkeypatch.setattr(choice, "machine_to_judge", lambda _options: (h200, None))
    others = Trial.others

    def breaks(self: Trial) -> None:
        if self.name == "memory, 4 times":
            raise RuntimeError("out of luck")
        others(self)

    monkeypatch.setattr(Trial, "others", breaks)
    out = tmp_path / "choice.json"
    words = ["--backend", "host", "--inner", "8", "--rounds", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["choice.py", "--size", str(size) + "B", *words])
    assert choice.main() == 0
    body = json.loads(out.read_text())
    assert [row["plan"] for row in body["rows"]] == ["memory", "memory, 2 cores"]
    assert all(row["inner"] > 0 for row in body["rows"])  # without a budget nothing is left out
    assert body["waived"] == {"memory, 4 times": "RuntimeError: out of luck"}


def test_buffers_come_back_and_are_unmapped_in_the_end() -> None:
    pool = Pool()
    one = pool.take(5000)
    one.touch(2)
    one.pinned = True
    one.close()
    again = pool.take(5000)
    assert again is one
    assert not again.pinned
    assert pool.take(5000) is not one
    assert pool.take(5000, lead=3).address % 4096 == 3
    assert pool.take(5000, huge=True).address % HUGE == 0
    again.close()
    pool.close()
    with pytest.raises(ValueError, match="released"):
        _ = one.view[0]


def test_the_summary_counts_good_choices() -> None:
    rows = [{"factor": f, "inner": 30} for f in (1.0, 1.02, 1.05)] + [{"factor": None, "inner": 0}]
    assert summary(rows) == {
        "plans": 3,
        "within_3_percent": 2,
        "worst": 1.05,
        "inner_points": 90,
    }
