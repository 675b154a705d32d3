"""The shape of each call: planned where the machine is known, within the budget always."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.engine.serving.planned import Planner, Source
from planner.engine.serving.shape import Shape, default_budget, rule_of_thumb, within
from planner.errors import InputError
from planner.units import UnitError, parse_size

if TYPE_CHECKING:
    from planner.machine.schema import Machine

UNCALIBRATED: Final = (
    "this computer is not calibrated: a safe shape and no prediction; `planner calibrate` measures "
    "it once for all programs, machine=planner.calibrate() for one"
)
UNSUITED: Final = (
    "the machine that was given has no measured way to GPU {gpu}: a safe shape and no prediction"
)


class Chooser:
    """Shapes for one backend, with the machine and the budget of the loader behind those of a call.

    Each machine's answers are kept by the class of sizes.
    """

    def __init__(
        self, backend: str, machine: Machine | str | None, budget: int | str | None
    ) -> None:
        self._backend, self._machine = backend, machine
        self._budget = budget_bytes(budget)
        # By identity; the machine is held so that its identity stays its own.
        self._planners: dict[int | str | None, tuple[Any, Planner]] = {}
        self._rule: Shape | None = None

    def limit(self, budget: int | str | None) -> int:
        """Bytes that may be pinned in a call."""
        for found in (budget_bytes(budget), self._budget):
            if found is not None:
                return found
        return default_budget()

    def shape(
        self, gpu: int | None, size: int, kind: Source, machine: Machine | str | None, budget: int
    ) -> tuple[Shape, tuple[str, ...]]:
        """The shape for `size` bytes, within the budget, and what to say of it.

        Raises `InputError` for a machine that cannot be read, also where none is needed.
        """
        given = machine if machine is not None else self._machine
        known = self._planner(given)
        moves = gpu is not None and size > 0
        found = known.shape(gpu, size, kind) if gpu is not None and moves else None
        if found is not None:
            return within(found, budget), ()
        if self._rule is None:
            self._rule = rule_of_thumb()
        note = UNCALIBRATED if given is None else UNSUITED.format(gpu=gpu)
        return within(self._rule, budget), (note,) if moves else ()

    def _planner(self, given: Machine | str | None) -> Planner:
        key = given if given is None or isinstance(given, str) else id(given)
        if key not in self._planners:
            resolved: Any = given
            if isinstance(given, str):
                from planner.machine.load import load_machine

                resolved = load_machine(given)
            self._planners[key] = given, Planner(self._backend, resolved)
        return self._planners[key][1]


def budget_bytes(budget: object) -> int | None:
    """Bytes of a number or of `256MiB`; raises `InputError` for what is no size."""
    if budget is None:
        return None
    if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
        return budget
    if not isinstance(budget, str):
        raise InputError(f"the budget {budget!r} is no size", hint="write bytes, or like 256MiB")
    try:
        return parse_size(budget)
    except UnitError as error:
        raise InputError(f"the budget is no size: {error}") from error
