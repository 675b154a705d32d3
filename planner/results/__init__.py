"""What `planner` emits: an `Estimate` (predicted) and a `Run` (measured), versioned, as JSON.

Keys carry their unit (`_s` seconds, `_bytes`, `_bytes_per_s`), numbers are numbers, lists keep the
order of the plan. Within a major format number fields are only added, and readers ignore fields
that they do not know; a break raises the number in `format`.
"""

from __future__ import annotations

from planner.results.check import CheckedMachine, CheckResult
from planner.results.estimate import (
    Bottleneck,
    Cause,
    ComputeEstimate,
    Estimate,
    FlowEstimate,
    HopEstimate,
    NodeUse,
    Rejected,
    ResourceUse,
    WhatIf,
)
from planner.results.judged import ObjectiveResult, Verdict, VerdictPart
from planner.results.run import ComputeRun, Environment, FlowRun, HopRun, PartRun, Run
from planner.results.timeline import MemoryLayer, MemoryTrack, Timeline, TimelineRow
from planner.schedule import CacheState, FlowSchedule, Hop, Result, SetupStep, SplitPart

__all__ = [
    "FORMATS",
    "Bottleneck",
    "CacheState",
    "Cause",
    "CheckResult",
    "CheckedMachine",
    "ComputeEstimate",
    "ComputeRun",
    "Environment",
    "Estimate",
    "FlowEstimate",
    "FlowRun",
    "FlowSchedule",
    "Hop",
    "HopEstimate",
    "HopRun",
    "MemoryLayer",
    "MemoryTrack",
    "NodeUse",
    "ObjectiveResult",
    "PartRun",
    "Rejected",
    "ResourceUse",
    "Result",
    "Run",
    "SetupStep",
    "SplitPart",
    "Timeline",
    "TimelineRow",
    "Verdict",
    "VerdictPart",
    "WhatIf",
]

FORMATS: dict[str, str] = {
    "planner.estimate/1": "planner.results.estimate",
    "planner.run/1": "planner.results.run",
    "planner.check/1": "planner.results.check",
    "planner.diff/1": "planner.results.diff",
    "planner.history/1": "planner.results.history",
    "planner.sweep/1": "planner.results.sweep",
    "planner.topo/1": "planner.results.topo",
    "planner.doctor/1": "planner.results.doctor",
}
"""Every format that is emitted, and its home; those not imported above load when they are needed:
an estimate's start shall not wait for them."""
