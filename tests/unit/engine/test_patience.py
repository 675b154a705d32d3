"""Ctrl-C again and again: nothing is given back while threads still use it."""

from __future__ import annotations

import os
import signal
from threading import Event, Thread

import pytest

from planner.engine.team import Team
from planner.engine.waits import Stop, patiently

PRESSED = 5


def pressing(done: Event, held: Event) -> None:
    """Press Ctrl-C several times, then let the work go on."""
    for _ in range(PRESSED):
        os.kill(os.getpid(), signal.SIGINT)
        held.wait(0.02)
    done.set()


def test_a_wait_is_waited_out() -> None:
    done = Event()
    presser = Thread(target=pressing, args=(done, Event()))

    def wait() -> None:
        if not presser.is_alive() and not done.is_set():
            presser.start()
        done.wait()

    patiently(wait)
    assert done.is_set()
    presser.join()


def test_a_team_has_ended_when_the_caller_goes_on() -> None:
    stop, done, ended = Stop(), Event(), Event()
    team = Team(2, stop, "test")
    presser = Thread(target=pressing, args=(done, Event()))

    def job(number: int) -> None:
        if number:
            presser.start()
            done.wait()
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        team.run(job)
    assert ended.is_set()
    assert stop.asked
    presser.join()
    team.close()
