"""Many small pieces of a file: its range is read as it lies, whatever the pieces are."""

from __future__ import annotations

import pytest

from planner.engine import transfer
from planner.engine.ops import POOL
from planner.engine.strategies.base import Hands, Operation
from planner.engine.worker import operations_of
from tests.helpers.machines import MIB, one_gpu
from tests.helpers.schedules import run_way


def test_pieces_cost_nothing_while_bytes_move(monkeypatch: pytest.MonkeyPatch) -> None:
    count = [0]

    def counting(hands: Hands) -> list[Operation]:
        operations = operations_of(hands)
        read = operations[POOL]

        def counted(slot: int, chunk: int) -> None:
            count[0] += 1
            read(slot, chunk)

        operations[POOL] = counted
        return operations

    monkeypatch.setattr(transfer, "operations_of", counting)
    pieces = {"count": 100_000}
    run = run_way("load", 16 * MIB, one_gpu(), shape=(MIB, 2, 1), pieces=pieces)
    assert run.flows[0].verified is True
    # One read for each chunk of 1 MiB, however many of the 100,000 pieces lie in it.
    assert count[0] == 16
