"""How the engine tells somebody how far it is; it never prints anything itself."""

from __future__ import annotations

from typing import Final, Protocol

POLL_S: Final = 0.25
"""Seconds between two looks at the counters. Drawing at 10 Hz cost a transfer 5 to 18 % of its
rate (measured on a 2-core guest, 2026-11-29), so the engine asks for no more than 4 Hz."""


class Progress(Protocol):
    """Told by the thread that called the engine, never by a worker, at most every `POLL_S`."""

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
        """A sample of a flow begins: all its repeats together, and how long they should take."""

    def advance(self, flow: str, done_bytes: int) -> None:
        """So many of the sample's bytes have left their source."""

    def finish(self, flow: str, seconds: float) -> None:
        """The sample of the flow took so long."""

    def note(self, text: str) -> None:
        """What happens outside the timed parts: writing a scratch file, verifying, and so on."""


class Quiet:
    """Nobody listens."""

    def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
        """Ignore it."""

    def advance(self, flow: str, done_bytes: int) -> None:
        """Ignore it."""

    def finish(self, flow: str, seconds: float) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""
