"""One loader in a process of its own: reads what to load line by line, answers in JSON lines.

    python benchmarks/peer_child.py LOADER SETTING DEVICE [LIBRARY]

`peers.py` starts it. Library, CUDA context and compiled helpers are there before the first answer
(`ready`), so no load pays for them. A load's clock runs until every tensor can be used: it stops
after a device synchronisation. LIBRARY is the callback that counts pinned memory, from the start of
the process to the end of the first load; times of such a process hold what the counting takes.
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
from benchmarks.record import told

CHECKED = 5
"""Tensors of each load that are compared with the file, first and last among them."""


def main() -> int:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints does not mix with the answers

    def answer(**words: Any) -> None:
        answers.write(json.dumps(words) + "\n")
        answers.flush()

    loader, setting, device, *library = sys.argv[1:]
    entry = find(loader, setting)
    count = Count(Path(library[0]) if library else None)
    try:
        load = entry.make()
        context(device)
        version = version_of(entry.package)
    except Exception as error:  # noqa: BLE001 - an absent loader is a row with its reason
        answer(absent=told(error))
        return 0
    answer(ready=True, version=version)
    for line in sys.stdin:
        try:
            answer(**once(load, json.loads(line)["path"], device, count))
        except Exception as error:  # noqa: BLE001 - a load that fails is a row with its reason
            answer(failed=told(error))
            gc.collect()
    return 0


class Count:
    """Pinned memory until the first load is through; without a library nothing is counted."""

    def __init__(self, library: Path | None) -> None:
        self.bytes: int | None = None
        self.reason = ""
        self._watch: PinnedWatch | None = None
        if library is None:
            return
        try:
            self._watch = PinnedWatch(library)
            self._watch.start()
        except (RuntimeError, OSError, AttributeError) as error:
            self._watch, self.reason = None, told(error)

    def end(self) -> None:
        """The first load is through; later calls do nothing."""
        watch, self._watch = self._watch, None
        if watch is not None:
            try:
                self.bytes = watch.stop()
            except RuntimeError as error:
                self.reason = told(error)


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


def once(load: Load, path: str, device: str, count: Count) -> dict[str, Any]:
    """One load, timed, checked and given back."""
    begun = perf_counter()
    held = [load(path, device)]
    synchronize(device)
    seconds = perf_counter() - begun
    count.end()
    _, listed = read_header(path)
    found = len(held[0])
    wrong = differing(held[0], path, listed)
    release(held.pop(), device)
    return {
        "seconds": seconds,
        "pinned_bytes": count.bytes,
        "pinned_reason": count.reason,
        "tensors": found,
        "verified": found == len(listed) and not wrong,
        "wrong": wrong,
    }


def differing(tensors: Any, path: str, listed: list[Entry]) -> list[str]:
    """Names of those tensors, of a few spread over the file, that differ from it."""
    import torch

    last = len(listed) - 1
    wrong = []
    with Path(path).open("rb") as file:
        for k in sorted({last * turn // (CHECKED - 1) for turn in range(CHECKED)}):
            entry = listed[k]
            try:
                tensor = tensors[entry.name]
            except KeyError:
                wrong.append(entry.name)
                continue
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
