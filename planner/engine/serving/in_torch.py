"""All tensors of a load as PyTorch's: views of one tensor for each file.

One DLPack capsule for each of 288 tensors took 10 ms of a load of 1 GB that moves in 28 (one H200,
measured 2026-11-30); a view of a tensor that is there takes a tenth of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from planner.engine.serving.bank import Memory
from planner.engine.serving.dlpack import NAMES
from planner.errors import UnavailableError
from planner.plan.safetensors import Tensor as Entry


def views(
    entries: Iterable[tuple[str, tuple[Entry, Memory, int]]], flat: Callable[[Memory], Any]
) -> dict[str, Any]:
    """The tensors by name; `flat(memory)` gives all of a memory's bytes to any DLPack reader.

    One whose place does not suit its dtype is copied. Raises `UnavailableError` without PyTorch,
    and for a dtype that it does not have.
    """
    try:
        import torch
    except ImportError as error:
        raise UnavailableError(
            "PyTorch is not installed here", hint="the tensors speak DLPack to other libraries"
        ) from error
    kinds: dict[str, Any] = {}
    wholes: dict[int, Any] = {}
    found: dict[str, Any] = {}
    for name, (entry, memory, start) in entries:
        kind = kinds.get(entry.dtype)
        if kind is None:
            kind = kinds[entry.dtype] = _kind(torch, entry.dtype, name)
        whole = wholes.get(id(memory))
        if whole is None:
            whole = wholes[id(memory)] = torch.from_dlpack(flat(memory))
        part = whole[start : start + entry.end - entry.begin]
        if start % kind.itemsize:  # the memory itself begins at a page, or at 256 bytes of a GPU
            part = part.clone()
        found[name] = part.view(kind).view(entry.shape)
    return found


def _kind(torch: Any, dtype: str, name: str) -> Any:
    found = getattr(torch, NAMES.get(dtype, ""), None)
    if found is None:
        raise UnavailableError(
            f"PyTorch {torch.__version__} has no {dtype}, which {name} is",
            hint="take that tensor's .raw",
        )
    return found
