"""One loader in a process of its own: reads what to load line by line, answers in JSON lines.

    python benchmarks/peer_child.py LOADER SETTING DEVICE

`peers.py` starts it. Library, CUDA context and compiled helpers are there before the first answer
(`ready`), so no load pays for them. A load's clock runs until every tensor can be used: it stops
after a device synchronisation.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from benchmarks.checkpoints import Entry, read_header
from benchmarks.peer_loaders import Load, find
from benchmarks.pinned_watch import PinnedWatch

CHECKED = 5
"""Tensors of each load that are compared with the file, first and last among them."""


def main() -> int:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints does not mix with the answers

    def answer(**words: Any) -> None:
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    loader, setting, device = sys.argv[1:4]
    entry = find(loader, setting)
    try:
        load = entry.make()
        context(device)
        version = version_of(entry.package)
    except Exception as error:  # noqa: BLE001 - an absent loader is a row with its reason
        answer(absent=f"{type(error).__name__}: {error}".splitlines()[0])
        return 0
    answer(ready=True, version=version)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer(**once(load, asked["path"], device, watched=asked["watch"]))
        except Exception as error:  # noqa: BLE001 - a load that fails is a row with its reason
            answer(failed=f"{type(error).__name__}: {error}".splitlines()[0])
    return 0


def version_of(package: str) -> str:
    """The version of an installed package; our own may be a checkout that is not installed."""
    if package == "planner":
        import planner

        return planner.__version__
    return metadata.version(package)


def context(device: str) -> None:
    """Start the device and run something on it."""
    import torch

    torch.ones(1, device=device).add_(1)
    synchronize(device)


def synchronize(device: str) -> None:
    """Wait for everything on the device."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def once(load: Load, path: str, device: str, *, watched: bool) -> dict[str, Any]:
    """One load, timed, checked and given back."""
    watch, reason = started() if watched else (None, "")
    begun = perf_counter()
    held = [load(path, device)]
    synchronize(device)
    seconds = perf_counter() - begun
    pinned = None
    if watch is not None:
        try:
            pinned = watch.stop()
        except RuntimeError as error:
            reason = str(error)
    _, listed = read_header(path)
    count = len(held[0])
    wrong = differing(held[0], path, listed)
    release(held.pop(), device)
    return {
        "seconds": seconds,
        "pinned_bytes": pinned,
        "pinned_reason": reason,
        "tensors": count,
        "verified": count == len(listed) and not wrong,
        "wrong": wrong,
    }


def started() -> tuple[PinnedWatch | None, str]:
    """A watch that counts, or why there is none."""
    try:
        watch = PinnedWatch()
        watch.start()
    except (RuntimeError, OSError, AttributeError) as error:
        return None, str(error)
    return watch, ""


def differing(tensors: Any, path: str, listed: list[Entry]) -> list[str]:
    """Names of those tensors, of a few spread over the file, that differ from it."""
    import torch

    last = len(listed) - 1
    wrong = []
    with Path(path).open("rb") as file:
        for k in sorted({last * turn // (CHECKED - 1) for turn in range(CHECKED)}):
            entry = listed[k]
            tensor = tensors[entry.name]
            if not isinstance(tensor, torch.Tensor):
                tensor = torch.from_dlpack(tensor)
            file.seek(entry.start)
            there = file.read(entry.stop - entry.start)
            here = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
            if tuple(tensor.shape) != entry.shape or here != there:
                wrong.append(entry.name)
    return wrong


def release(tensors: Any, device: str) -> None:
    """Give a load's memory back, so that every load makes its destination anew."""
    import torch

    close = getattr(tensors, "close", None)
    if isinstance(tensors, dict):
        tensors.clear()
    if close is not None:
        close()
    del tensors, close
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        if "cupy" in sys.modules:
            sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    raise SystemExit(main())
