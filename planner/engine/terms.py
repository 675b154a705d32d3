"""What a flow's movements are bound to besides their hops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.engine.budget import Buckets
from planner.engine.release import Range
from planner.engine.touch import Touching
from planner.model.touched import Use

if TYPE_CHECKING:
    from planner.engine.marked import Marker


@dataclass(frozen=True, slots=True)
class Terms:
    """How the GPU uses the flow, and what the flow may pin.

    `use` is `None` where the plan does not say it; `sector` are the bytes that a scattered read
    moves at the least; `pinned_budget` is `None` where nothing bounds it;
    `helped` says that a second thread brings in the pages of a mapping that is registered;
    `buckets` space its chunks where its rate is capped, `release` is
    told what was read where its pages shall go, `marks` gives ranges to a profiler. `cores` are
    what the plan lets the flow take, `None` where nothing bounds it.
    """

    use: Use | None = None
    sector: int = 32
    pinned_budget: int | None = None
    helped: bool = False
    buckets: Buckets = ()
    release: Callable[[Range], None] | None = None
    marks: Marker | None = None
    cores: int | None = None

    @property
    def touching(self) -> Touching:
        """How each chunk is touched: all of it, once, where the plan does not say."""
        return Touching(self.use or Use(), self.sector)
