"""What a program hands over wrongly is told like what a person writes wrongly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import arguments
from planner.engine.backends import open_backend
from planner.engine.calibrate import backend_name

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "plans" / "llm_load.yaml"


@pytest.mark.parametrize(
    ("function", "given", "told", "hint"),
    [
        (planner.execute, {"backend": "x"}, "backend is 'x'", "auto, cuda, host or null"),
        (planner.execute, {"cache": "x"}, "cache is 'x'", "warm or cold"),
        (planner.execute, {"max_error": "x"}, "max_error is 'x'", "like 1.25"),
        (planner.execute, {"max_error": 0.5}, "max_error is 0.5", "like 1.25"),
        (planner.execute, {"max_error": float("nan")}, "max_error is nan", "like 1.25"),
        (planner.execute, {"samples": "3"}, "samples is '3'", "from 1 up"),
        (planner.execute, {"samples": 0}, "samples is 0", "from 1 up"),
        (planner.execute, {"warmup": -1}, "warmup is -1", "from 0 up"),
        (planner.sweep, {"processes": 0, "axes": ["depth=1,2"]}, "processes is 0", "from 1 up"),
        (planner.sweep, {"axes": "depth=1,2"}, "axes is one text", "['depth=1,2']"),
        (planner.sweep, {"settings": "weights=1GB"}, "settings is one text", "weights=1GB"),
        (planner.estimate, {"settings": "weights=1GB"}, "settings is one text", "weights=1GB"),
        (planner.estimate, {"settings": [1]}, "settings is [1]", "…"),
        (planner.estimate, {"only": "weights"}, "only is one text", "['weights']"),
        (planner.check, {"settings": "weights=1GB"}, "settings is one text", "weights=1GB"),
    ],
)
def test_an_argument_that_is_wrong_is_an_input_error_with_a_way_to_mend_it(
    function: Callable[..., Any], given: dict[str, Any], told: str, hint: str
) -> None:
    with pytest.raises(planner.InputError) as caught:
        function(PLAN, **given)
    assert told in caught.value.message
    assert hint in (caught.value.hint or "")


def test_arguments_of_functions_that_take_no_plan() -> None:
    with pytest.raises(planner.InputError, match="backend is 'x'"):
        planner.calibrate(backend="x")
    with pytest.raises(planner.InputError, match="only is one text"):
        planner.doctor("h200-sxm-1", only="gpu")
    limit: Any = 5
    with pytest.raises(planner.InputError, match="fail_above") as caught:
        planner.diff(PLAN, PLAN, fail_above=limit)
    assert "5%" in str(caught.value)
    with pytest.raises(planner.InputError, match="no backend x"):
        open_backend("x")
    assert backend_name("host") == "host"


def test_a_loaded_plan_is_a_plan() -> None:
    loaded = planner.load_plan(PLAN, settings=["weights=27GB"])
    assert planner.estimate(loaded) == planner.estimate(PLAN, settings=["weights=27GB"])
    assert planner.execute(loaded, backend="null").estimate.flows[0].size_bytes == 27 * 10**9
    with pytest.raises(planner.InputError, match="settings change the text"):
        planner.estimate(loaded, settings=["weights=1GB"])
    nothing: Any = 7
    with pytest.raises(planner.InputError, match="int is no plan"):
        planner.estimate(nothing)


def test_what_is_right_passes() -> None:
    arguments.one_of("backend", "host", ("auto", "host"))
    arguments.whole("samples", 1, 1)
    arguments.factor("max_error", 1)
    arguments.texts("only", ())
