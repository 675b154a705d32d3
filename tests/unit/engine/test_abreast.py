"""Threads that begin together end together, also where not all of them come."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from planner.engine.calibration.abreast import abreast

PATIENCE_S = 20.0


@pytest.mark.parametrize("count", [1, 3])
def test_all_begin_at_once(count: int) -> None:
    ready = Barrier(count)

    def work(number: int) -> int:
        ready.wait(PATIENCE_S)
        return number**2

    assert abreast(work, count, ready) == [0, 1, 4][:count]


def test_one_that_fails_before_it_is_ready_lets_the_others_go() -> None:
    ready, left = Barrier(3), threading.active_count()

    def work(number: int) -> int:
        if number == 2:
            raise RuntimeError("no such device")
        return ready.wait(PATIENCE_S)

    # Who waited only knows that somebody did not come; what is told is why.
    with pytest.raises(RuntimeError, match="no such device"):
        abreast(work, 3, ready)
    assert threading.active_count() == left


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("can't start new thread")])
def test_those_who_came_are_let_go_where_one_does_not(
    error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt while threads are started, or no more threads to be had."""
    submit, ready, left = ThreadPoolExecutor.submit, Barrier(4), threading.active_count()

    def at_most_two(pool: ThreadPoolExecutor, *given: Any) -> Any:
        if given[-1] == 2:
            raise error
        return submit(pool, *given)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", at_most_two)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            abreast(lambda _: ready.wait(), 4, ready)
        except BaseException as raised:  # noqa: BLE001 - looked at below
            caught.append(raised)

    one = threading.Thread(target=run, daemon=True)
    one.start()
    one.join(PATIENCE_S)
    assert not one.is_alive()
    assert isinstance(caught[0], KeyboardInterrupt | RuntimeError)
    assert threading.active_count() == left
