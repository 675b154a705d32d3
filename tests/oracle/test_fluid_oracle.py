"""The fluid simulation against SimGrid 4.1 and against exact fractions, flow by flow."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks import oracle
from benchmarks.fluid_input import cluster_case
from planner.model.sharing import max_min
from planner.model.simulate import FluidFlow, Helper, Resource, simulate
from tests.helpers.brute_fluid import brute_fluid
from tests.helpers.fluid_cases import HELPERS, ORACLE, fluid_inputs, stored_case, use_helper

# Flows at once (s, tiny3), one after another (stag), after a latency (lat), weighted (weight).
CASES = ("tiny3", "s20", "s200", "s2000", "stag20", "stag200", "lat20", "lat200", "weight200")


@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("case", CASES)
def test_every_flow_of_a_stored_case_finishes_when_simgrid_says(
    case: str, helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_helper(helper, monkeypatch)
    resources, flows, expected = stored_case(case)

    result = simulate(resources, flows, helper=helper)

    assert len(result.finish) == len(expected)
    assert list(result.finish) == pytest.approx(expected, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("helper", HELPERS)
@given(fluid_inputs())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_small_cases_agree_with_exact_fractions(
    helper: Helper,
    monkeypatch: pytest.MonkeyPatch,
    given_input: tuple[list[Resource], list[FluidFlow]],
) -> None:
    use_helper(helper, monkeypatch)
    resources, flows = given_input
    exact = brute_fluid(resources, flows)

    result = simulate(resources, flows, helper=helper)

    # The last two subtract times that are up to 1e3 times as large as the difference.
    for name, bound in (("ready", 1e-12), ("begin", 1e-12), ("finish", 1e-12), ("busy", 1e-10)):
        expected = [float(time) for time in getattr(exact, name)]
        assert list(getattr(result, name)) == pytest.approx(expected, rel=bound, abs=1e-13), name
    assert list(result.load) == pytest.approx([float(time) for time in exact.load], rel=1e-12)


@pytest.mark.parametrize("helper", ["numpy", "numba"])
def test_helpers_agree_on_every_field(helper: Helper, monkeypatch: pytest.MonkeyPatch) -> None:
    use_helper(helper, monkeypatch)
    resources, flows, _ = stored_case("lat200")

    one = simulate(resources, flows, helper="python", record=True)
    other = simulate(resources, flows, helper=helper, record=True)

    for name in ("ready", "begin", "finish", "busy", "load"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9, abs=0.0), name
    assert other.bottleneck == one.bottleneck
    assert other.events == one.events
    assert one.rates is not None
    assert other.rates is not None
    assert [change.flow for change in other.rates] == [change.flow for change in one.rates]
    for mine, theirs in zip(other.rates, one.rates, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=0.0)


def any_input(draw: random.Random) -> tuple[list[Resource], list[FluidFlow]]:
    """30 resources and 120 flows with numbers over several powers of ten, without round ones."""
    resources = [Resource(f"r{i}", 10 ** draw.uniform(-2, 2)) for i in range(30)]
    flows = [
        FluidFlow(
            f"f{i}",
            10 ** draw.uniform(-2, 2),
            {r: 10 ** draw.uniform(-1, 1) for r in draw.sample(range(30), draw.randint(1, 6))},
            cap=10 ** draw.uniform(-2, 2) if draw.random() < 0.3 else math.inf,
            weight=10 ** draw.uniform(-1, 1),
            start=draw.choice([0.0, draw.expovariate(0.1)]),
        )
        for i in range(120)
    ]
    return resources, flows


@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("seed", range(5))
def test_at_every_instant_the_rates_are_the_max_min_of_what_moves(
    seed: int, helper: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_helper(helper, monkeypatch)
    resources, flows = any_input(random.Random(seed))  # noqa: S311
    capacities = [resource.capacity for resource in resources]

    changes = simulate(resources, flows, helper=helper, record=True).rates

    assert changes is not None
    rates = [0.0] * len(flows)
    for change, after in zip(changes, [*changes[1:], None], strict=True):
        rates[change.flow] = change.rate
        if after is not None and after.time == change.time:
            continue
        moving = [i for i, rate in enumerate(rates) if rate > 0.0]
        expected = max_min(
            capacities,
            [flows[i].charges for i in moving],
            [flows[i].weight for i in moving],
            [flows[i].cap for i in moving],
        )
        assert [rates[i] for i in moving] == pytest.approx(expected.tolist(), rel=1e-11)


def test_generated_inputs_are_those_of_the_stored_cases() -> None:
    for name, count, seed in (("s200", 200, 2), ("s2000", 2000, 3)):
        stored = json.loads((ORACLE / f"{name}.json").read_text())
        made = cluster_case(count, seed=seed)
        assert made["links"] == stored["links"]
        assert made["flows"] == stored["flows"]


def test_the_check_of_cases_reports_each_and_fails_on_a_wrong_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = ORACLE / "tiny3.json"
    case = json.loads(good.read_text())
    case["oracle"]["finish"][0] *= 1 + 1e-8
    case["name"] = "wrong"
    bad = tmp_path / "wrong.json"
    bad.write_text(json.dumps(case))

    monkeypatch.setattr("sys.argv", ["oracle.py", str(good), "--helper", "python"])
    assert oracle.main() == 0
    monkeypatch.setattr("sys.argv", ["oracle.py", str(good), str(bad)])
    assert oracle.main() == 1

    alone, first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert alone["case"] == first["case"] == "tiny3"
    assert alone["flows"] == 20
    assert alone["worst_relative_error"] < 1e-12
    assert alone["cpu_s"] >= 0.0
    assert second["case"] == "wrong"
    assert second["worst_relative_error"] == pytest.approx(1e-8, rel=1e-6)
