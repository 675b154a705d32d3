"""EXPLAIN and EXPLAIN ANALYZE for data movement.

>>> import planner
>>> estimate = planner.estimate("plans/llm_load.yaml")      # doctest: +SKIP
>>> estimate.makespan_s, estimate.bottleneck.resource       # doctest: +SKIP

The names below are the whole public surface. Each is imported when it is first used, so that
`import planner` takes no library with it: no numpy, no networkx, no GPU.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from planner._version import VERSION

__version__: Final = VERSION

_HOME: Final = {
    "Diff": "planner.results.diff",
    "Doctor": "planner.results.doctor",
    "Estimate": "planner.results",
    "ExecutionError": "planner.errors",
    "ExitCode": "planner.errors",
    "Fault": "planner.errors",
    "FlowSchedule": "planner.results",
    "InfeasibleError": "planner.errors",
    "InputError": "planner.errors",
    "LoadReport": "planner.engine.serving.report",
    "Loader": "planner.engine.serving.loader",
    "Machine": "planner.machine.schema",
    "MachineError": "planner.errors",
    "Plan": "planner.plan.schema",
    "PlanError": "planner.errors",
    "PlannerError": "planner.errors",
    "Run": "planner.results",
    "Topo": "planner.results.topo",
    "Tensor": "planner.engine.serving.tensors",
    "TensorMap": "planner.engine.serving.tensors",
    "TransferFuture": "planner.engine.serving.future",
    "Sweep": "planner.results.sweep",
    "UnavailableError": "planner.errors",
    "Verdict": "planner.results",
    "VerificationError": "planner.errors",
    "calibrate": "planner.engine.calibrate",
    "check": "planner.review.answers",
    "diff": "planner.review.sides",
    "doctor": "planner.review.doctor",
    "estimate": "planner.review.answers",
    "execute": "planner.review.answers",
    "load": "planner.engine.load",
    "load_machine": "planner.machine.load",
    "load_plan": "planner.plan.load",
    "release": "planner.engine.load",
    "sweep": "planner.review.sweep",
    "topo": "planner.review.topo",
    "transfer": "planner.engine.load",
}
"""Where each public name is defined."""

__all__ = [
    "Diff",
    "Doctor",
    "Estimate",
    "ExecutionError",
    "ExitCode",
    "Fault",
    "FlowSchedule",
    "InfeasibleError",
    "InputError",
    "LoadReport",
    "Loader",
    "Machine",
    "MachineError",
    "Plan",
    "PlanError",
    "PlannerError",
    "Run",
    "Sweep",
    "Tensor",
    "TensorMap",
    "Topo",
    "TransferFuture",
    "UnavailableError",
    "Verdict",
    "VerificationError",
    "__version__",
    "calibrate",
    "check",
    "diff",
    "doctor",
    "estimate",
    "execute",
    "load",
    "load_machine",
    "load_plan",
    "release",
    "sweep",
    "topo",
    "transfer",
]

if TYPE_CHECKING:
    from planner.engine.calibrate import calibrate as calibrate
    from planner.engine.load import load as load, release as release, transfer as transfer
    from planner.engine.serving.future import TransferFuture as TransferFuture
    from planner.engine.serving.loader import Loader as Loader
    from planner.engine.serving.report import LoadReport as LoadReport
    from planner.engine.serving.tensors import Tensor as Tensor, TensorMap as TensorMap
    from planner.errors import (
        ExecutionError as ExecutionError,
        ExitCode as ExitCode,
        Fault as Fault,
        InfeasibleError as InfeasibleError,
        InputError as InputError,
        MachineError as MachineError,
        PlanError as PlanError,
        PlannerError as PlannerError,
        UnavailableError as UnavailableError,
        VerificationError as VerificationError,
    )
    from planner.machine.load import load_machine as load_machine
    from planner.machine.schema import Machine as Machine
    from planner.plan.load import load_plan as load_plan
    from planner.plan.schema import Plan as Plan
    from planner.results import (
        Estimate as Estimate,
        FlowSchedule as FlowSchedule,
        Run as Run,
        Verdict as Verdict,
    )
    from planner.results.diff import Diff as Diff
    from planner.results.doctor import Doctor as Doctor
    from planner.results.sweep import Sweep as Sweep
    from planner.results.topo import Topo as Topo
    from planner.review.answers import check as check, estimate as estimate, execute as execute
    from planner.review.doctor import doctor as doctor
    from planner.review.sides import diff as diff
    from planner.review.sweep import sweep as sweep
    from planner.review.topo import topo as topo


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
