"""The error tree: exit codes, and what each error carries to the reader."""

from __future__ import annotations

import pytest

from planner import errors
from planner.errors import ExitCode, Fault, InputError, PlanError, PlannerError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PlannerError, 1),
        (errors.InputError, 3),
        (errors.PlanError, 3),
        (errors.MachineError, 3),
        (errors.InfeasibleError, 4),
        (errors.UnavailableError, 5),
        (errors.ExecutionError, 6),
        (errors.VerificationError, 6),
    ],
)
def test_each_error_knows_its_exit_code(error: type[PlannerError], code: int) -> None:
    assert error("it broke").exit_code == code


def test_every_error_is_one_of_ours() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(classes) == 8
    assert all(issubclass(value, PlannerError) for value in classes)


def test_exit_codes_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "BUG": 1,
        "USAGE": 2,
        "INPUT": 3,
        "INFEASIBLE": 4,
        "UNAVAILABLE": 5,
        "FAILED": 6,
        "OBJECTIVE": 10,
        "REGRESSION": 11,
        "PREDICTION": 12,
        "INTERRUPTED": 130,
    }


def test_an_error_keeps_message_and_hint() -> None:
    error = PlannerError("no route", hint="add a link")
    assert (error.message, error.hint, str(error)) == ("no route", "add a link", "no route")


def test_a_wrong_input_is_a_value_error_with_faults_in_order() -> None:
    faults = [Fault("p.yaml", line, 1, "", "bad") for line in (1, 2)]
    error = PlanError("p.yaml has 2 faults", faults=faults)
    assert isinstance(error, InputError)
    assert isinstance(error, ValueError)
    assert error.faults == tuple(faults)


def test_position_of_a_fault_is_clickable_or_the_file_alone() -> None:
    assert Fault("p.yaml", 9, 15, "flows.w.size", "bad").position() == "p.yaml:9:15"
    assert Fault("--set w=1", 0, 0, "w", "bad").position() == "--set w=1"
