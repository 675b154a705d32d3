"""How GPUs are joined to each other, as the driver's management library tells it: no context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal

Near = Literal["one board", "one switch", "several switches", "one root", "one NUMA node", "far"]

_NEAR: Final[dict[int, Near]] = {
    0: "one board",
    10: "one switch",
    20: "several switches",
    30: "one root",
    40: "one NUMA node",
    50: "far",
}
"""nvmlGpuTopologyLevel_t: the nearest thing on PCIe that two GPUs have in common."""
SAME_ROOT: Final[tuple[Near, ...]] = ("one board", "one switch", "several switches", "one root")

_NVLINK_OF: Final = {4: 1, 5: 2, 6: 2, 7: 3, 9: 4, 10: 5}
"""NVLink generation by nvmlDeviceArchitecture_t: Pascal, Volta, Turing, Ampere, Hopper, Blackwell.
The library's own number of a link's version counts in another way since driver 450."""
_MOST_LINKS: Final = 36
_SWITCH: Final = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH."""
_READ: Final = 0
"""NVML_P2P_CAPS_INDEX_READ."""
_BY_NVLINK: Final = 2
"""NVML_P2P_CAPS_INDEX_NVLINK."""
_OK: Final = 0
"""NVML_P2P_STATUS_OK."""
_REFUSED: Final = {
    1: "the chipset does not support it",
    2: "the GPUs do not support it",
    3: "they lie under different root complexes",
    4: "it is switched off in the driver's settings",
    5: "the driver does not support it",
}
"""nvmlGpuP2PStatus_t."""

Ask = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NvLinks:
    """The NVLinks of one GPU: how many are up, of which generation, and where they lead.

    `ends` are the PCI addresses at the other end, `switch` for a switch, `None` where the driver
    does not say.
    """

    active: int
    generation: int | None
    ends: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuPair:
    """Two GPUs by their indices: the NVLinks between them, what they share on PCIe, peer access.

    `peer` tells whether one can be let into the memory of the other, `refused` why not. What is
    not known is `None`.
    """

    first: int
    second: int
    nvlinks: int | None = None
    generation: int | None = None
    near: Near | None = None
    peer: bool | None = None
    refused: str | None = None

    @property
    def same_root(self) -> bool:
        """Whether bytes between them need not pass the processor."""
        return self.near in SAME_ROOT


def links_of(library: Any, ask: Ask, handle: Any) -> NvLinks | None:
    """The NVLinks of one GPU; `None` where the driver does not say."""
    active, ends, known = 0, [], False
    for link in range(getattr(library, "NVML_NVLINK_MAX_LINKS", _MOST_LINKS)):
        state = ask("nvmlDeviceGetNvLinkState", handle, link)
        known = known or state is not None
        if not state:
            continue
        active += 1
        ends.append(_end(ask, handle, link))
    if not known:
        # A GPU that has none refuses the question; so does one whose driver hides them.
        return None
    generation = _NVLINK_OF.get(ask("nvmlDeviceGetArchitecture", handle) or 0)
    return NvLinks(active, generation, tuple(ends))


def _end(ask: Ask, handle: Any, link: int) -> str | None:
    if ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _SWITCH:
        return "switch"
    pci = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    bus = getattr(pci, "busId", None)
    if isinstance(bus, bytes):
        bus = bus.decode(errors="replace")
    return bus.lower() if bus else None


def pairs_of(
    ask: Ask,
    handles: Sequence[Any],
    buses: Sequence[str | None],
    links: Sequence[NvLinks | None],
) -> tuple[GpuPair, ...]:
    """Every two of the GPUs, in order."""
    return tuple(
        _pair(ask, handles, buses, links, i, j) for i, j in combinations(range(len(handles)), 2)
    )


def _pair(
    ask: Ask,
    handles: Sequence[Any],
    buses: Sequence[str | None],
    links: Sequence[NvLinks | None],
    i: int,
    j: int,
) -> GpuPair:
    status = ask("nvmlDeviceGetP2PStatus", handles[i], handles[j], _READ)
    over = ask("nvmlDeviceGetP2PStatus", handles[i], handles[j], _BY_NVLINK)
    one, other = links[i], links[j]
    level = ask("nvmlDeviceGetTopologyCommonAncestor", handles[i], handles[j])
    known = status is not None and status in (_OK, *_REFUSED)
    return GpuPair(
        i,
        j,
        nvlinks=joined(
            one,
            other,
            (buses[i], buses[j]),
            every=buses,
            capable=None if over is None else over == _OK,
        ),
        generation=one.generation if one else None,
        near=None if level is None else _NEAR.get(level),
        peer=status == _OK if known else None,
        refused=_REFUSED.get(status) if known else None,
    )


def joined(
    one: NvLinks | None,
    other: NvLinks | None,
    buses: tuple[str | None, str | None],
    *,
    every: Collection[str | None],
    capable: bool | None,
) -> int | None:
    """How many NVLinks lead from one GPU to the other.

    Links that end in a switch lead everywhere, as many as the one with fewer has. Where the driver
    hides the ends, or names what is no GPU (guests see of switches at most an address), all do if
    it says that the two reach each other by NVLink.

    Parameters
    ----------
    one, other
        The NVLinks of the two.
    buses
        The PCI addresses of the two.
    every
        The PCI addresses of all GPUs.
    capable
        Whether the driver says that NVLink joins the two; `None` where it says nothing.
    """
    if one is None or other is None:
        return None
    direct = sum(end is not None and end == buses[1] for end in one.ends)
    if direct:
        return direct
    switched = min(sum(end == "switch" for end in gpu.ends) for gpu in (one, other))
    if switched:
        return switched
    hidden = min(sum(end is None or end not in every for end in gpu.ends) for gpu in (one, other))
    return hidden if capable or not hidden else None if capable is None else 0
