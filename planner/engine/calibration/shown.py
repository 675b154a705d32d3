"""The GPUs of this process by the numbers that CUDA gives them.

The management library numbers all GPUs in the order of their PCI addresses; CUDA only those that
`CUDA_VISIBLE_DEVICES` lets through, in the order that stands there. The address tells which is
which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from planner.engine.backends import cuda_look
from planner.machine.discover import Discovery, discover
from planner.machine.discover_details import read_details
from planner.machine.discover_gpus import Gpu, read_gpus
from planner.machine.discover_pairs import GpuPair


def devices(folder: Path) -> tuple[Discovery, tuple[GpuPair, ...], list[int]]:
    """This computer with `folder`, how its GPUs are joined, and CUDA's devices: all by its numbers.

    Where CUDA does not say where its devices are, they are those of the management library, and
    where that shows none there is the first.
    """
    addresses = cuda_look.addresses()
    about, pairs = shown(discover(folder), read_details().pairs, addresses)
    numbers = list(range(len(addresses))) or [gpu.index for gpu in about.gpus]
    return about, pairs, numbers or [0]


def seen_again(about: Discovery, device: int) -> Discovery:
    """The same with what the driver says now of one device, whose link may be awake by now."""
    now = {gpu.uuid: gpu for gpu in read_gpus(Path("/")).gpus}
    gpus = [
        replace(now[gpu.uuid], index=device) if gpu.index == device and gpu.uuid in now else gpu
        for gpu in about.gpus
    ]
    return replace(about, gpus=tuple(gpus))


def shown(
    about: Discovery, pairs: Sequence[GpuPair], addresses: Sequence[str]
) -> tuple[Discovery, tuple[GpuPair, ...]]:
    """What the driver said, of the GPUs that CUDA shows and by its numbers.

    A device that the management library does not know is left out.

    Parameters
    ----------
    about, pairs
        The GPUs and how every two are joined, by the management library's numbers.
    addresses
        The PCI address of each of CUDA's devices; empty where CUDA does not say, and then the
        numbers are taken to be the same.

    """
    if not addresses:
        return about, tuple(pairs)
    known = {_place(gpu.bus): gpu for gpu in about.gpus if gpu.bus is not None}
    gpus: list[Gpu] = []
    number: dict[int, int] = {}
    for device, address in enumerate(addresses):
        gpu = known.get(_place(address))
        if gpu is not None:
            number[gpu.index] = device
            gpus.append(replace(gpu, index=device))
    return replace(about, gpus=tuple(gpus)), tuple(
        _numbered(pair, number) for pair in pairs if {pair.first, pair.second} <= number.keys()
    )


def _numbered(pair: GpuPair, number: dict[int, int]) -> GpuPair:
    first, second = sorted((number[pair.first], number[pair.second]))
    return replace(pair, first=first, second=second)


def _place(address: str) -> tuple[int, str]:
    """Domain and rest of a PCI address: one library writes the domain with eight digits, one four.

    >>> _place("00000000:0A:00.0") == _place("0000:0a:00.0")
    True
    """
    domain, _, rest = address.lower().partition(":")
    return int(domain, 16), rest
