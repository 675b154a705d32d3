"""How a flow is carried out: the choices that a schedule names, and what is paid once.

Part of what `planner.results` emits, and imported from there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CacheState = Literal["warm", "cold", "guest-cold", "partly", "none"]


class Result(BaseModel):
    """The base of everything emitted: frozen, and tolerant of fields from a newer minor version."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Hop(Result):
    """How one flow crosses one link; the unit of a schedule.

    `coupled` says that this hop and the next share one ring and run as one pipeline. `chunk_bytes`
    equal to the flow's size means one single copy. The ring of a pipeline has
    workers x depth x chunk bytes.
    """

    link: str
    start: str
    end: str
    strategy: str
    chunk_bytes: int = Field(ge=0)
    depth: int = Field(default=1, ge=1)
    workers: int = Field(default=1, ge=1)
    coupled: bool = False


class SplitPart(Result):
    """One of several ways taken at once, with its predicted share of a common queue of chunks."""

    share_bytes: int
    hops: tuple[Hop, ...]


class FlowSchedule(Result):
    """Every choice for one flow: its hops in order. `cache` is the state its file source is in.

    `parts` are all ways of a split flow, the largest (`hops`) first. `copy_of` names the flow at
    whose destination the bytes are fetched: whole (`fan: tree`), once the copy `behind` which it
    comes is made, or chunk by chunk (`chain`).
    """

    flow: str
    size_bytes: int
    hops: tuple[Hop, ...]
    cache: CacheState = "none"
    parts: tuple[SplitPart, ...] = ()
    copy_of: str | None = None
    fan: Literal["tree", "chain"] | None = None
    behind: str | None = None


class SetupStep(Result):
    """Something that is paid once before bytes move; an overlapped step hides behind the first."""

    name: str
    duration_s: float
    size_bytes: int | None = None
    overlapped: bool = False
