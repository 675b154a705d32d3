"""What a link could carry by its standard: the bytes on the wire of a generation and a width."""

from __future__ import annotations

from typing import Final

PCIE_LANE: Final = {
    1: 2.5e9 / 10,
    2: 5e9 / 10,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""Bytes/s of one lane, one direction, by generation: transfers/s less the line's own code (8b/10b,
128b/130b, from 6 on flits of 242 in 256 bytes). Source: PCI Express Base Specification. Headers of
packets take more: what arrives is 80 to 90 % of it."""

NVLINK: Final = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
"""Bytes/s of one NVLink, one direction, by generation. Source: https://www.nvidia.com/en-us/data-center/nvlink/
(Hopper: 18 links, 900 GB/s both ways; Blackwell: 18 links, 1.8 TB/s)."""


def nominal_rate(kind: str, generation: int | None, width: int | None) -> float | None:
    """Bytes/s of one direction of a link of so many lanes (PCIe) or links (NVLink).

    `None` where the standard, its generation or the width is not known.

    >>> nominal_rate("nvlink", 4, 18), nominal_rate("pcie", None, 16)
    (450000000000.0, None)
    """
    table = {"pcie": PCIE_LANE, "nvlink": NVLINK}.get(kind, {})
    if generation is None or width is None or generation not in table:
        return None
    return table[generation] * width
