"""What a call took: predicted beside measured, for a program's log."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from planner.engine.serving.shape import Shape
from planner.units import format_rate, format_size, format_time


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How a load or a transfer went.

    Attributes
    ----------
    size_bytes, seconds
        What moved, and how long the whole call took, all of the setup below included.
    transfer_s
        Until the last arrival, from when the device was open: on a cold start its context is made
        beside the first reads.
    setup_s
        Seconds of each step of the setup. Most of them overlap the first reads.
    predicted_s, setup_predicted_s
        What the calibration says of the transfer and, where this call made the ring, of the setup
        beside it; `None` without a calibration.
    schedule
        Workers, depth, chunk, and where the choice came from.
    buffered_bytes, direct_bytes
        What was read through the page cache and around it.
    pinned_bytes
        The ring that is kept for the next call.
    misaligned
        Tensors whose place in the file does not suit their dtype: each access copies them.
    notes
        What a reader should know: no calibration, no O_DIRECT, and so on.

    """

    size_bytes: int
    seconds: float
    transfer_s: float
    schedule: Shape
    setup_s: dict[str, float] = field(default_factory=dict)
    predicted_s: float | None = None
    setup_predicted_s: float | None = None
    buffered_bytes: int = 0
    direct_bytes: int = 0
    pinned_bytes: int = 0
    misaligned: int = 0
    emulated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes per second of the transfer; 0 where nothing moved."""
        return self.size_bytes / self.transfer_s if self.transfer_s > 0 else 0.0

    @property
    def error_factor(self) -> float | None:
        """`transfer_s` divided by what was predicted, the setup of a first run included."""
        if not self.predicted_s:
            return None
        return self.transfer_s / (self.predicted_s + (self.setup_predicted_s or 0.0))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values; keys carry their unit."""
        return {
            **asdict(self),
            "rate_bytes_per_s": self.rate_bytes_per_s,
            "error_factor": self.error_factor,
        }

    def __str__(self) -> str:
        text = f"{format_size(self.size_bytes)} in {format_time(self.seconds)}"
        if self.size_bytes:
            moved = format_time(self.transfer_s)  # what the factor divides
            text += f"; moved in {moved}, {format_rate(self.rate_bytes_per_s)}"
        if self.predicted_s is not None and self.error_factor is not None:
            predicted_s = self.predicted_s + (self.setup_predicted_s or 0.0)  # as in the factor
            text += f" (predicted {format_time(predicted_s)}, {self.error_factor:.2f}×)"
        return text
