"""How long the prediction of a cold start takes, by the number of GPUs that start.

    python benchmarks/cold_start.py

One class of equal flows stands for all GPUs, so the time should hardly grow; written out (up to
some hundred GPUs) every flow is simulated by itself. CPU seconds, best of three.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from planner.machine.load import load_machine
from planner.machine.replicate import written_out
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.load import load_plan
from planner.plan.schema import Plan

PLANS = Path(__file__).resolve().parents[1] / "plans"
HOSTS = (1, 8, 64, 1024, 12_500)
WRITTEN_OUT = 8
"""Hosts up to which the machine is written out too: 64 flows take some seconds."""
ROUNDS = 3


def cluster(hosts: int) -> tuple[Plan, Machine]:
    """The plan and the machine of `plans/cluster_cold_start.yaml` with other numbers of hosts."""
    plan = load_plan(PLANS / "cluster_cold_start.yaml").plan
    machine = load_machine(plan.machine, directory=PLANS)
    replicate = {**machine.replicate, "node": f"0..{hosts - 1}"}
    flow = plan.flows["start"]
    every = {**flow.for_each, "node": tuple(range(hosts))}
    flows = {"start": flow.model_copy(update={"for_each": every})}
    return (
        plan.model_copy(update={"flows": flows}),
        machine.model_copy(update={"replicate": replicate}),
    )


def seconds(plan: Plan, machine: Machine) -> tuple[float, float]:
    """CPU seconds of one prediction, and the makespan that it predicts."""
    best, makespan = float("inf"), 0.0
    for _ in range(ROUNDS):
        started = time.process_time()
        makespan = estimate(plan, machine).makespan_s
        best = min(best, time.process_time() - started)
    return best, makespan


def main() -> None:
    """Print one line for each number of hosts."""
    write = sys.stdout.write
    write(f"{'hosts':>7} {'flows':>8} {'as a class':>12} {'written out':>12} {'makespan':>12}\n")
    for hosts in HOSTS:
        plan, machine = cluster(hosts)
        own, makespan = seconds(plan, machine)
        out = f"{seconds(plan, written_out(machine))[0]:10.3f} s" if hosts <= WRITTEN_OUT else "-"
        write(f"{hosts:>7} {hosts * 8:>8} {own:>10.3f} s {out:>12} {makespan:>10.3f} s\n")


if __name__ == "__main__":
    main()
