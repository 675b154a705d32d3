"""Access of GPUs to each other's memory: opened both ways, and closed again as it was found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from planner.engine.backends.cuda_lane import Owner
from planner.engine.backends.cuda_library import PEER_ALREADY_ON, PEER_NOT_ON, DriverError


class Peers:
    """What one backend has opened."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._driver = owner.driver
        self._opened: list[tuple[int, int]] = []

    def missing(self, gpus: Sequence[int]) -> str | None:
        """Which two of the GPUs cannot reach each other, or `None`."""
        for gpu in gpus:
            for other in gpus:
                if gpu != other and not self._driver.reaches(gpu, other):
                    return f"device {gpu} has no peer access to device {other}"
        return None

    def open(self, gpu: int, peer: int) -> None:
        """Enable it both ways; what was on before stays on afterwards."""
        for one, other in ((gpu, peer), (peer, gpu)):
            if self._enable(one, other):
                self._opened.append((one, other))

    def is_open(self, gpu: int, peer: int) -> bool:
        """Whether it is on, either way: the driver tells only whoever tries to enable it."""
        for one, other in ((gpu, peer), (peer, gpu)):
            if not self._driver.reaches(one, other):
                continue
            if not self._enable(one, other):
                return True
            self._disable(one, other)
        return False

    def close_between(self, gpu: int, peer: int) -> None:
        """Disable what was enabled here between the two."""
        for pair in ((gpu, peer), (peer, gpu)):
            if pair in self._opened:
                self._opened.remove(pair)
                self._disable(*pair)

    def close(self) -> None:
        """Disable what was enabled here."""
        with ExitStack() as last:  # which goes on where the driver refuses one
            while self._opened:
                last.callback(self._disable, *self._opened.pop())

    def _enable(self, gpu: int, peer: int) -> bool:
        """Enable one way; false where it was on already."""
        self._owner.attach(gpu)
        try:
            self._driver.enable_peer(peer)
        except DriverError as error:
            if error.status != PEER_ALREADY_ON:
                raise
            return False
        return True

    def _disable(self, gpu: int, peer: int) -> None:
        self._owner.attach(gpu)
        try:
            self._driver.disable_peer(peer)
        except DriverError as error:
            if error.status != PEER_NOT_ON:
                raise
