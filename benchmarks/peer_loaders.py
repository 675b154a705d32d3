"""Loaders of safetensors files, each behind one function: `load(path, device)` gives all tensors.

Each entry of `LOADERS` says how its settings differ from the defaults: environment variables, read
when the library is imported, and arguments. The best settings are those that measured best for a
cached and for a cold file (versions and settings: 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.checkpoints import Entry, read_header

Cache = Literal["warm", "cold"]
Load = Callable[[str, str], Any]
"""`load(path, device)` gives a mapping of names to tensors."""
THREADS = 16
MIB = 1 << 20


@dataclass(frozen=True)
class Setting:
    """A loader with one of its settings.

    `caches` are the states of a file that it is meant for, `newer` says that a newer release is put
    before the installed one, `pins_file` that it pins as many bytes as the file has.
    """

    loader: str
    setting: str
    package: str
    make: Callable[[], Load]
    env: dict[str, str] = field(default_factory=dict, hash=False)
    caches: tuple[Cache, ...] = ("warm", "cold")
    newer: bool = False
    pins_file: bool = False

    @property
    def kind(self) -> str:
        """`best` or `default`."""
        return "best" if self.setting.startswith("best") else "default"


def _planner(*, every_view: bool) -> Load:
    import planner

    do = planner.load

    def load(path: str, device: str) -> Any:
        found = do(path, device=device)
        return found.torch() if every_view else found

    return load


def _load_file(**more: Any) -> Load:
    from safetensors.torch import load_file

    return lambda path, device: load_file(path, device=device, **more)


def _prefetch(threads: int | None) -> Load:
    from safetensors import safe_open

    more = {} if threads is None else {"threads": threads}

    def load(path: str, device: str) -> Any:
        with safe_open(path, framework="pt", device=device) as file, file.prefetch(**more) as ready:
            return dict(ready)

    return load


def _pin_each() -> Load:
    from safetensors.torch import load_file

    def load(path: str, device: str) -> Any:
        tensors = load_file(path)
        return {n: t.pin_memory().to(device, non_blocking=True) for n, t in tensors.items()}

    return load


def _pin_two() -> Load:
    """Two pinned buffers of 64 MiB by turns: one is read into while the other is copied."""
    import torch

    def load(path: str, device: str) -> Any:
        start, listed = read_header(path)
        size = max(entry.stop for entry in listed) - start
        whole = torch.empty(size, dtype=torch.uint8, device=device)
        slots = [torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        events = [torch.cuda.Event() for _ in slots]
        with Path(path).open("rb", buffering=0) as file:
            file.seek(start)
            for turn, at in enumerate(range(0, size, 64 * MIB)):
                length, slot = min(64 * MIB, size - at), slots[turn % 2]
                if turn > 1:
                    events[turn % 2].synchronize()
                _read(file, memoryview(slot.numpy())[:length])
                whole[at : at + length].copy_(slot[:length], non_blocking=True)
                events[turn % 2].record()
        return views(whole, start, listed)

    return load


def _read(file: Any, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += file.readinto(view[done:])


def views(whole: Any, start: int, listed: Iterable[Entry]) -> dict[str, Any]:
    """Every tensor as a view of one buffer of bytes."""
    import torch

    kinds = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    return {
        e.name: whole[e.start - start : e.stop - start].view(kinds[e.dtype]).reshape(e.shape)
        for e in listed
    }


def _fastsafetensors(**more: Any) -> Load:
    from fastsafetensors import SafeTensorsFileLoader

    def load(path: str, device: str) -> Any:
        loader = SafeTensorsFileLoader(None, device, **more)
        loader.add_filenames({0: [path]})
        buffer = loader.copy_files_to_device()
        tensors = {key: buffer.get_tensor(key) for key in loader.get_keys()}
        return _Held(tensors, lambda: (buffer.close(), loader.close()))

    return load


class _Held(dict[str, Any]):
    """Tensors that live as long as what they were loaded by; `close` ends it."""

    def __init__(self, tensors: dict[str, Any], close: Callable[[], object]) -> None:
        super().__init__(tensors)
        self.close = close


def _runai() -> Load:
    from runai_model_streamer import SafetensorsStreamer

    def load(path: str, device: str) -> Any:
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(path, device=device)
            return dict(streamer.get_tensors())

    return load


def _instanttensor(*, buffered: bool) -> Load:
    import instanttensor

    more = {"backend": instanttensor.BackendPolicy.BUFFERED} if buffered else {}

    def load(path: str, device: str) -> Any:
        with instanttensor.safe_open(path, framework="pt", device=device, **more) as file:
            return dict(file.tensors())

    return load


def _kvikio() -> Load:
    import cupy
    import kvikio
    import torch

    def load(path: str, device: str) -> Any:
        start, listed = read_header(path)
        size = max(entry.stop for entry in listed) - start
        with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
            buffer = cupy.empty(size, cupy.uint8)
            with kvikio.CuFile(path) as file:
                file.pread(buffer, size, file_offset=start).get()
        return views(torch.from_dlpack(buffer), start, listed)

    return load


_KVIKIO = {
    "KVIKIO_NTHREADS": str(THREADS),
    "KVIKIO_TASK_SIZE": str(16 * MIB),
    "KVIKIO_COMPAT_MODE": "ON",
}
_BUFFERED = {
    "RUNAI_STREAMER_FS_STRATEGY": "sync_buffered",
    "RUNAI_STREAMER_CONCURRENCY": str(THREADS),
}
WARM: tuple[Cache, ...] = ("warm",)
COLD: tuple[Cache, ...] = ("cold",)

LOADERS: tuple[Setting, ...] = (
    Setting("planner", "default", "planner", lambda: _planner(every_view=False)),
    Setting("planner", "every view made", "planner", lambda: _planner(every_view=True)),
    Setting("safetensors load_file", "default", "safetensors", _load_file),
    Setting(
        "safetensors load_file",
        "best (pread)",
        "safetensors",
        lambda: _load_file(backend="pread"),
    ),
    Setting(
        "safetensors prefetch",
        "default (8 threads)",
        "safetensors",
        lambda: _prefetch(None),
        newer=True,
    ),
    Setting(
        "safetensors prefetch",
        "best (16 threads)",
        "safetensors",
        lambda: _prefetch(THREADS),
        newer=True,
    ),
    Setting("torch pin_memory", "each tensor", "torch", _pin_each, pins_file=True),
    Setting("torch pin_memory", "best (two 64 MiB buffers)", "torch", _pin_two),
    Setting("fastsafetensors", "default", "fastsafetensors", _fastsafetensors),
    Setting(
        "fastsafetensors",
        "default without GDS (O_DIRECT)",
        "fastsafetensors",
        lambda: _fastsafetensors(nogds=True),
    ),
    Setting(
        "fastsafetensors",
        "best (buffered, 16 threads)",
        "fastsafetensors",
        lambda: _fastsafetensors(nogds=True, max_threads=THREADS),
        {"FASTSAFETENSORS_ODIRECT": "0"},
        WARM,
    ),
    Setting("runai-model-streamer", "default", "runai-model-streamer", _runai),
    Setting(
        "runai-model-streamer",
        "best (sync_buffered, 16)",
        "runai-model-streamer",
        _runai,
        _BUFFERED,
        WARM,
    ),
    Setting("instanttensor", "default", "instanttensor", lambda: _instanttensor(buffered=False)),
    Setting(
        "instanttensor",
        "best (BUFFERED)",
        "instanttensor",
        lambda: _instanttensor(buffered=True),
        {},
        WARM,
    ),
    Setting("kvikio", "default (1 thread)", "kvikio-cu13", _kvikio),
    Setting("kvikio", "best (16 threads, 16 MiB)", "kvikio-cu13", _kvikio, _KVIKIO, WARM),
    Setting(
        "kvikio",
        "best (16 threads, O_DIRECT)",
        "kvikio-cu13",
        _kvikio,
        {**_KVIKIO, "KVIKIO_AUTO_DIRECT_IO_READ": "1"},
        COLD,
    ),
)


def find(loader: str, setting: str) -> Setting:
    """The entry by its two names; raises `KeyError`."""
    for entry in LOADERS:
        if (entry.loader, entry.setting) == (loader, setting):
            return entry
    raise KeyError(f"{loader}, {setting}")


def chosen_loaders(words: str, settings: str, cache: Cache) -> list[Setting]:
    """The entries for a file in a state: those with one of the words in their names, if any.

    Of `default` and `best` settings those that are asked for (`all`: both); the project always, and
    a loader's default where no other setting is better for the state.
    """
    named = [word for word in words.split(",") if word]
    there = [one for one in LOADERS if cache in one.caches]
    bettered = {one.loader for one in there if one.kind == "best"}
    return [
        one
        for one in there
        if (not named or any(word in one.loader for word in named))
        and (
            one.loader == "planner"
            or settings in ("all", one.kind)
            or (settings == "best" and one.loader not in bettered)
        )
    ]
