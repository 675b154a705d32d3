"""An estimate says which of its figures stand in for others that were not measured."""

from __future__ import annotations

from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import Plan
from tests.helpers.machines import affine
from tests.helpers.variants import changed

ONE = load_machine("h200-sxm-1")


def told(machine: Machine, memory: str = "managed", strategy: str = "managed_host") -> list[str]:
    """What an estimate of one flow says was not measured."""
    flow = {"from": "host0", "to": "gpu0", "size": "64MB", "memory": memory, "strategy": strategy}
    use = {"fraction": "1%", "pattern": "random"}
    plan = Plan.model_validate({"name": "p", "flows": {"f": {**flow, "use": use}}})
    return [line for line in estimate(plan, machine).warnings if "was not measured" in line]


def test_registering_is_said_to_stand_in_for_mapping_managed_memory() -> None:
    (line,) = told(ONE)
    assert line == (
        "f: mapping managed memory was not measured: registering as much stands in for it"
    )
    without = changed(ONE, {"nodes.host0.setup.register": None})
    (line,) = told(without)
    assert line.startswith("f: mapping managed memory was not measured, and is left out")


def test_a_quick_calibration_is_told_what_would_measure_it() -> None:
    sources = {
        name: source.model_copy(update={"by": "planner calibrate"})
        for name, source in ONE.sources.items()
    }
    (line,) = told(ONE.model_copy(update={"sources": sources}))
    assert line.endswith("stands in for it (`planner calibrate --full` measures it)")


def test_nothing_is_said_where_it_was_measured_or_is_not_done() -> None:
    assert told(changed(ONE, {"nodes.host0.managed_map": affine(30e9, 1e-3)})) == []
    assert told(ONE, "pageable") == []  # what is copied there is touched behind the advice
    assert told(ONE, strategy="prefetch") == []
