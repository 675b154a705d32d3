"""What is said of other shapes is true of every combination of them, with setup."""

from __future__ import annotations

import re
from itertools import product

import pytest

from planner.model.estimate import estimate as predict
from planner.model.flat import MOST_TRIED, NEAR
from planner.model.shapes import CHUNKS, DEPTHS, WORKERS
from planner.review.answers import estimate
from planner.units import format_size, parse_size
from tests.helpers.machines import GB, flat_table, one_gpu
from tests.helpers.plans import load, plan_of

WORDS = re.compile(r"(.+?) chunks, (.+?) workers?, depth (.+)")


def ranges(flat: str | None) -> tuple[list[int], list[int], list[int]]:
    """The chunks, workers and depths of the grid that are named."""
    found = WORDS.fullmatch(flat or "")
    assert found is not None, flat
    sizes = [int(parse_size(text.replace(" ", ""))) for text in found[1].split(" – ")]
    counts = [int(text) for text in found[2].split(" – ")]
    depths = [int(text) for text in found[3].split(" – ")]
    return _within(CHUNKS, sizes), _within(WORKERS, counts), _within(DEPTHS, depths)


def _within(grid: tuple[int, ...], ends: list[int]) -> list[int]:
    return [one for one in grid if ends[0] <= one <= ends[-1]]


@pytest.mark.parametrize(("plan", "flow"), [("llm_load", 0), ("checkpoint_save", 0)])
def test_every_combination_that_is_named_takes_at_most_one_per_cent_longer(
    plan: str, flow: int
) -> None:
    path = f"plans/{plan}.yaml"
    told = estimate(path).flows[flow]
    combinations = list(product(*ranges(told.flat)))
    assert len(combinations) > 1
    pins = {hop.strategy for hop in told.schedule.hops}
    for chunk, workers, depth in combinations:
        settings = [f"chunk={format_size(chunk).replace(' ', '')}"]
        settings += [f"workers={workers}", f"depth={depth}"]
        pinned = estimate(path, settings=settings).flows[flow]
        assert {hop.strategy for hop in pinned.schedule.hops} == pins
        assert pinned.duration_s <= told.duration_s * (1 + NEAR) * (1 + 1e-4), settings


def test_the_next_number_of_workers_would_take_longer() -> None:
    # 16 workers of 4 MiB are as quick once set up, but their ring takes a third longer to set up.
    told = estimate("plans/llm_load.yaml").flows[0]
    most = ranges(told.flat)[1][-1]
    more = WORKERS[WORKERS.index(most) + 1]
    pinned = estimate("plans/llm_load.yaml", settings=[f"workers={more}"]).flows[0]
    assert pinned.steady_s <= told.steady_s * (1 + NEAR)
    assert pinned.duration_s > told.duration_s * (1 + NEAR)


def test_setup_that_many_repeats_share_narrows_nothing() -> None:
    # One run pays for its ring by itself: 1 GB/s of registration, 96 MiB are 0.1 s. A hundred runs
    # of 0.4 s do not feel it.
    machine = one_gpu(setup={"register": 1e9}, copy={"file": flat_table(20e9, scales=True)})
    once = predict(plan_of({"a": load(size=4 * GB)}), machine).flows[0]
    often = predict(plan_of({"a": load(size=4 * GB, repeat=1000)}), machine).flows[0]
    assert len(list(product(*ranges(often.flat)))) > len(list(product(*ranges(once.flat))))


def test_only_so_many_shapes_are_looked_at() -> None:
    # A disk that limits whatever is done makes every shape as good.
    slow = predict(plan_of({"a": load(size=20 * GB, cache="cold")}), one_gpu()).flows[0]
    assert len(list(product(*ranges(slow.flat)))) > MOST_TRIED // 8
