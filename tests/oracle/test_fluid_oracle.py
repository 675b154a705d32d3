"""The fluid simulation against SimGrid 4.1 and against exact fractions, flow by flow."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from planner.model.simulate import FluidFlow, Helper, Resource, simulate
from tests.helpers.brute_fluid import brute_fluid
from tests.helpers.fluid_cases import HELPERS, fluid_inputs, stored_case, use_helper

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
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
