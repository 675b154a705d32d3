"""The compute blocks of a plan: stand-ins for work that keep their GPU busy for as long."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from planner.engine.backends import Backend
from planner.engine.measure import Interval
from planner.engine.pace import Pace
from planner.engine.waits import OneAtATime, Stop
from planner.machine.schema import Hbm, Machine
from planner.model.needs import gpu_rate
from planner.plan.schema import Plan


class Blocks:
    """All blocks of a plan, made ready before anything is timed.

    Those of one GPU run one after another, in the order in which they become ready.
    """

    def __init__(self, plan: Plan, machine: Machine, device: Backend, stop: Stop) -> None:
        self._plan, self._machine, self._device = plan, machine, device
        self._spinners: dict[str, Callable[[float], None]] = {}
        self._processors = {block.gpu: OneAtATime(stop) for block in plan.compute.values()}
        for name, block in plan.compute.items():
            node = machine.nodes[block.gpu]
            if isinstance(node, Hbm):
                device.attach(node.device)
                self._spinners[name] = device.compute(node.device, stop.check)

    def work(self, name: str) -> Callable[[Pace], list[Interval]]:
        """What a block does in one sample; gives start and end of each run."""
        block = self._plan.compute[name]
        seconds = block.time
        if seconds is None:
            seconds = (block.bytes or 0) / gpu_rate(self._machine, block.gpu)
        node, span, spin = self._machine.nodes[block.gpu], seconds, self._spinners[name]
        processors = self._processors[block.gpu]

        def run(pace: Pace) -> list[Interval]:
            if isinstance(node, Hbm):
                self._device.attach(node.device)
            runs = []
            for turn in range(block.repeat):
                pace.enter(turn)
                with processors:
                    start = perf_counter()
                    spin(span)
                    runs.append((start, perf_counter()))
                pace.leave()
            return runs

        return run
