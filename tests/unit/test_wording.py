"""Words that messages share."""

from __future__ import annotations

import re

import pytest

from planner.errors import InputError, MachineError, PlanError
from planner.machine.load import load_machine
from planner.plan.load import loads_plan
from planner.wording import begun, counted, quoted

DIGITS = "9" * 5000
PLAN = "flows: { w: { from: host0, to: gpu0, size: 1GB, for_each: {n: 0..3} } }"


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers"), (11, "11 workers")]
)
def test_one_is_no_plural(number: int, told: str) -> None:
    assert counted(number, "worker") == told


def test_a_short_text_is_whole_and_a_long_one_begins() -> None:
    """80 characters are shown whole; of 81 the first 40, with the number of all."""
    assert begun("x" * 80) == "x" * 80
    assert quoted(" " + "x" * 80) == f'"{"x" * 80}"'
    assert begun("x" * 81) == f"{'x' * 40}…"
    assert quoted("x" * 81) == f'"{"x" * 40}…" (81 characters)'


@pytest.mark.parametrize(
    "keys",
    [
        f"size: {DIGITS}",
        f"size: 1GB, repeat: {DIGITS}",
        f"size: 1GB, cache: x{DIGITS}",
        f"size: 1GB, memory: {DIGITS}",
        f"size: 1GB, pieces: [{DIGITS}]",
        f"size: 1GB, for_each: {{n: 0..{DIGITS}}}",
        f"size: 1GB, budget: {{rate: {DIGITS}}}",
        f"size: 1GB, use: {{fraction: {DIGITS}}}",
    ],
)
def test_no_fault_repeats_thousands_of_digits(keys: str) -> None:
    with pytest.raises(PlanError) as caught:
        loads_plan(f"flows: {{ w: {{ from: host0, to: gpu0, {keys} }} }}")
    (fault,) = caught.value.faults
    assert len(fault.message) + len(fault.suggestion or "") < 200
    # The text itself has 5000, with the x or the 0.. in front 5001 or 5003.
    assert re.search(r"9…\" \(500[013] characters\)", fault.message)


@pytest.mark.parametrize("setting", [f"n={DIGITS}", f"flows.w.size={DIGITS}", DIGITS])
def test_no_setting_is_repeated_at_length(setting: str) -> None:
    with pytest.raises(PlanError) as caught:
        loads_plan(PLAN, settings=[setting])
    assert all(len(fault.file) + len(fault.message) < 250 for fault in caught.value.faults)


def test_a_count_of_nodes_with_thousands_of_digits_is_no_bug() -> None:
    with pytest.raises(PlanError) as caught:
        loads_plan(PLAN, settings=[f"nodes={DIGITS}"])
    assert [fault.message for fault in caught.value.faults] == [f"{quoted(DIGITS)} is not a count"]


def test_a_machine_whose_name_no_file_can_have_is_not_there() -> None:
    with pytest.raises(MachineError, match=r"there is no machine .* \(5000 characters\)") as caught:
        load_machine(DIGITS)
    assert isinstance(caught.value, InputError)
    assert len(caught.value.message) < 200
