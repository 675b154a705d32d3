"""Results to compare, made by hand: estimates that are a factor apart, runs with given samples."""

from __future__ import annotations

from collections.abc import Sequence

from planner.results import Estimate, ObjectiveResult, Run
from tests.helpers import results

QUIET = (1.0, 1.01, 0.99, 1.0, 1.02)
"""Steady samples of a quiet computer, as factors."""


def estimate(
    factor: float = 1.0, *, objectives: tuple[ObjectiveResult, ...] = (), name: str = "weights"
) -> Estimate:
    """An estimate whose flow takes `factor` times 2.06 s: all times grow alike."""
    base = results.flow_estimate(name)
    flow = base.model_copy(
        update={
            "duration_s": base.duration_s * factor,
            "first_s": base.first_s * factor,
            "steady_s": base.steady_s * factor,
            "finish_s": base.finish_s * factor,
            "hops": tuple(
                hop.model_copy(update={"busy_s": hop.busy_s * factor}) for hop in base.hops
            ),
        }
    )
    return results.estimate(flow, objectives=objectives)


def run(
    samples: Sequence[float] = QUIET,
    *,
    factor: float = 1.0,
    verified: bool | None = True,
    objectives: tuple[ObjectiveResult, ...] = (),
) -> Run:
    """A run with these steady samples, in seconds times `factor`; the first run takes 0.05 s more.

    Its prediction is 2.06 s; the error factor is as the times have it.
    """
    own = tuple(sample * factor for sample in samples)
    middle = sorted(own)[len(own) // 2]
    first = own[0] + 0.05
    flow = results.flow_run(verified=verified).model_copy(
        update={
            "samples_s": own,
            "steady_s": middle,
            "first_s": first,
            "duration_s": first,
            "error_factor": first / 2.06,
        }
    )
    made = results.run(flow, objectives=objectives)
    return made.model_copy(
        update={
            "samples": len(own),
            "makespan_s": first,
            "makespan_samples_s": own,
            "error_factor": first / 2.06,
        }
    )
