"""Transfers between files, host memory and (emulated) GPU memory: bytes, futures, errors."""

from __future__ import annotations

import array
import gc
import threading
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planner
from planner.engine import files
from planner.engine.backends import cuda_foreign
from planner.engine.backends.cuda_library import DriverError
from planner.errors import ExecutionError, InputError, UnavailableError
from tests.helpers.machines import one_gpu
from tests.helpers.weights import write_weights

pytestmark = pytest.mark.usefixtures("alone")

SMALLEST = 64 << 10
SIZES = [0, 1, 4095, SMALLEST - 1, SMALLEST, SMALLEST + 1, 1_000_003]


def noise(size: int, seed: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def on_gpu(pool: planner.Loader, folder: Path, size: int, gpu: int = 0) -> planner.Tensor:
    """Memory of an emulated GPU, with bytes of its own."""
    path = folder / f"gpu{gpu}-{size}.safetensors"
    write_weights(path, [("x", "U8", (size,))])
    found: planner.Tensor = pool.load(path, gpu)["x"]
    return found


@pytest.mark.parametrize("size", SIZES)
def test_host_to_gpu_and_back(pool: planner.Loader, tmp_path: Path, size: int) -> None:
    source, back = noise(size), np.zeros(size, np.uint8)
    device = on_gpu(pool, tmp_path, size)
    report = pool.transfer(source, device).result()
    assert report.size_bytes == size
    assert np.array_equal(device.numpy(), source)
    pool.transfer(device, back).result()
    assert np.array_equal(back, source)


@pytest.mark.parametrize("size", SIZES)
def test_file_to_gpu_to_gpu_to_file(pool: planner.Loader, tmp_path: Path, size: int) -> None:
    source, sink = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(noise(size).tobytes())
    one, other = on_gpu(pool, tmp_path, size), on_gpu(pool, tmp_path, size, 1)
    same = on_gpu(pool, tmp_path, size)
    pool.transfer(source, one).result()
    pool.transfer(one, same).result()
    pool.transfer(same, other).result()
    report = pool.transfer(other, str(sink)).result()
    assert sink.read_bytes() == source.read_bytes()
    assert report.size_bytes == size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cache", ["auto", "warm", "cold"])
def test_between_host_memory_and_files(
    pool: planner.Loader, tmp_path: Path, size: int, cache: Any
) -> None:
    path = tmp_path / "x.bin"
    source, middle, back = noise(size), bytearray(size), np.zeros(size, np.uint8)
    pool.transfer(source, middle).result()
    pool.transfer(memoryview(middle), path).result()
    pool.transfer(path, back, cache=cache).result()
    assert np.array_equal(back, source)
    assert bytes(middle) == source.tobytes()


def test_dtypes_and_shapes_do_not_matter(pool: planner.Loader) -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    target = array.array("d", [0.0] * 6)
    pool.transfer(source, target).result()
    assert target.tobytes() == source.tobytes()


class Foreign:
    """An array of another library, which speaks DLPack alone."""

    def __init__(self, held: NDArray[Any]) -> None:
        self.held = held

    def __dlpack__(self, **given: Any) -> Any:
        return self.held.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()


class OnGpu:
    """What says of itself that it lies on a GPU."""

    def __init__(self, **offers: Any) -> None:
        vars(self).update(offers)


@pytest.mark.parametrize("fault", ["no library", "no device"])
@pytest.mark.parametrize("protocol", ["__cuda_array_interface__", "dlpack"])
def test_an_array_on_a_gpu_without_a_driver_is_told(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, protocol: str, fault: str
) -> None:
    def absent() -> Any:
        if fault == "no library":
            raise OSError("libcuda.so.1: cannot open shared object file")
        raise DriverError("cuInit: CUDA_ERROR_NO_DEVICE (100)", 100)

    interface = {"shape": (8,), "typestr": "|u1", "data": (1 << 40, False), "version": 3}
    there = OnGpu(
        **{"__cuda_array_interface__": interface}
        if protocol != "dlpack"
        else {"__dlpack__": None, "__dlpack_device__": lambda: (2, 0)}
    )
    monkeypatch.setattr(cuda_foreign, "driver", absent)
    with pytest.raises(UnavailableError, match=r"OnGpu lies on a GPU.*(libcuda|NO_DEVICE)"):
        pool.transfer(bytearray(8), there)


def test_arrays_by_dlpack_alone(pool: planner.Loader) -> None:
    source, target = noise(100_000), np.zeros(100_000, np.uint8)
    pool.transfer(Foreign(source), Foreign(target)).result()
    assert np.array_equal(source, target)
    with pytest.raises(InputError, match="not contiguous"):
        pool.transfer(Foreign(np.zeros((8, 8), np.uint8)[:, ::2]), bytearray(32))


def test_only_what_was_planned_is_predicted(tmp_path: Path) -> None:
    with planner.Loader(backend="host", machine=one_gpu()) as pool:
        device = on_gpu(pool, tmp_path, 1_000_000)
        into = pool.transfer(noise(1_000_000), device).result()
        out = pool.transfer(device, bytearray(1_000_000)).result()
        del device
    assert into.predicted_s is not None
    assert into.predicted_s > 0
    assert out.predicted_s is None
    assert out.error_factor is None


def test_many_pairs_in_one_call_are_packed(pool: planner.Loader, tmp_path: Path) -> None:
    sizes = [1, 0, 63, 64, 65, 4096, 200_000, *([1000] * 500)]
    sources = [noise(size, seed) for seed, size in enumerate(sizes)]
    targets = [np.zeros(size, np.uint8) for size in sizes]
    device = [on_gpu(pool, tmp_path, size) for size in sizes]
    report = pool.transfer(list(zip(sources, device, strict=True))).result()
    assert report.size_bytes == sum(sizes)
    pool.transfer(list(zip(device, targets, strict=True))).result()
    assert all(np.array_equal(a, b) for a, b in zip(sources, targets, strict=True))


def test_pairs_of_all_kinds_in_one_call(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(noise(5000, 1).tobytes())
    host, gpu, other = noise(70_000, 2), on_gpu(pool, tmp_path, 70_000), np.zeros(5000, np.uint8)
    filled = on_gpu(pool, tmp_path, 5000)
    pool.transfer([(host, gpu), (path, filled), (path, other)]).result()
    assert np.array_equal(gpu.numpy(), host)
    assert filled.numpy().tobytes() == other.tobytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("source", "destination", "told"),
    [
        (bytes(8), bytearray(9), "the source has 8 bytes, the destination 9"),
        (bytes(8), bytes(8), "read-only"),
        (np.zeros((4, 4))[:, ::2], bytearray(64), "not contiguous"),
        (bytes(8), 7, "neither a path nor memory"),
        (bytes(8), np.empty(1, object), "Python objects"),
        (memoryview(np.empty(1, object).data), bytearray(8), "Python objects"),
        (bytes(8), None, "takes a source and a destination"),
        (7, None, "takes a source and a destination"),
        (object(), bytearray(8), "neither a path nor memory"),
        ("/nowhere/x", bytearray(8), "/nowhere/x cannot be read"),
        ("/nowhere/x", "/nowhere/y", "both ends are files"),
        (bytes(8), "/nowhere/y", "the folder /nowhere of y does not exist"),
    ],
)
def test_wrong_ends_are_told_at_once(
    pool: planner.Loader, source: Any, destination: Any, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        pool.transfer(source, destination)


def test_a_file_that_exists_stays_unless_it_may_go(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with pytest.raises(InputError, match="exists"):
        pool.transfer(b"new!", path)
    assert path.read_bytes() == b"old"
    pool.transfer(b"new!", path, overwrite=True).result()
    assert path.read_bytes() == b"new!"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.bin"]


def test_the_future_raises_what_went_wrong_and_leaves_no_file(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(noise(500_000).tobytes())
    device = on_gpu(pool, tmp_path, 500_000)

    def broken(*_given: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "pwritev", broken)
    future = pool.transfer(device, sink)
    with pytest.raises(ExecutionError, match=r"out\.bin, bytes .*No space left"):
        future.result()
    assert isinstance(future.exception(), ExecutionError)
    assert not sink.exists()
    assert not [entry for entry in tmp_path.iterdir() if entry.suffix == ".part"]
    with pytest.raises(ExecutionError):
        future.wait()


def test_waiting_for_a_stream_waits_for_an_emulated_gpu(
    pool: planner.Loader, tmp_path: Path
) -> None:
    source, device = noise(300_000), on_gpu(pool, tmp_path, 300_000)
    future = pool.transfer(source, device, stream=0)
    future.wait(stream=0)
    assert future.done()
    assert np.array_equal(device.numpy(), source)


def test_the_future_is_one_of_the_standard_library(
    pool: planner.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(1000))
    go, begun = threading.Event(), threading.Event()
    real = files.preadv

    def held(*given: Any) -> int:
        begun.set()
        assert go.wait(30)
        return real(*given)

    monkeypatch.setattr(files, "preadv", held)
    first = pool.transfer(path, bytearray(1000), cache="warm")
    assert begun.wait(30)
    second = pool.transfer(bytes(8), target := bytearray(8))
    called: list[Any] = []
    first.add_done_callback(called.append)
    assert not first.done()
    assert first.running()
    assert not first.cancel()  # its turn has come
    assert second.cancel()
    with pytest.raises(TimeoutError):
        first.wait(timeout=0.01)
    go.set()
    assert wait([first, second], timeout=30).not_done == set()
    assert first.result().size_bytes == 1000
    assert called == [first]
    with pytest.raises(CancelledError):
        second.result()
    assert target == bytearray(8)
    assert first.moved() == 1000


def test_ends_are_held_until_the_transfer_is_done_and_not_longer(pool: planner.Loader) -> None:
    import weakref

    source = noise(2_000_000)
    target = np.zeros(2_000_000, np.uint8)
    gone = weakref.ref(source)
    future = pool.transfer(source, target)
    del source
    future.result()
    pool.transfer(b"x", bytearray(1)).result()  # the desk has let go of the one before
    gc.collect()
    assert gone() is None
    assert target.any()


def test_the_module_function_moves_host_memory() -> None:
    source, target = noise(300_000), np.zeros(300_000, np.uint8)
    try:
        assert planner.transfer(source, target).result().size_bytes == 300_000
    finally:
        planner.release()
    assert np.array_equal(source, target)
