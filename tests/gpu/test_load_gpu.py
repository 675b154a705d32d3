"""Loads and transfers on real GPUs: what CuPy and torch see, streams, lifetimes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planner
from planner.errors import ExecutionError, InfeasibleError, InputError, UnavailableError
from tests.helpers.devices import SMALLEST, free_bytes, missing
from tests.helpers.first_use import SLACK
from tests.helpers.machines import MIB
from tests.helpers.weights import write_raw, write_weights

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

SIZES = [0, 1, 4095, SMALLEST - 1, SMALLEST, SMALLEST + 1, 21 * MIB + 17]


@pytest.fixture
def pool(_warm_torch: None) -> Iterator[planner.Loader]:
    """A loader, which gives everything back when a test is through."""
    with planner.Loader() as found:
        yield found


def noise(size: int, seed: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def on_host(tensor: Any) -> bytes:
    """The bytes of a tensor, by way of CuPy."""
    return bytes(cupy.asnumpy(cupy.from_dlpack(tensor.raw)).tobytes())


@pytest.mark.parametrize("cache", ["auto", "warm", "cold"])
@pytest.mark.parametrize("size", SIZES)
def test_every_byte_arrives(pool: planner.Loader, tmp_path: Path, size: int, cache: Any) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (size,)), ("b", "F32", (5, 3))], pad=5)
    for _ in range(2):  # the second time with everything warm
        found = pool.load(path, "cuda:0", cache=cache)
        assert [on_host(found[name]) for name in found] == [h.tobytes() for h in held.values()]
        assert found["b"].__dlpack_device__() == (2, 0)
        assert not found.report.emulated


def test_a_load_through_the_whole_ring(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (400 * MIB + 3,)), ("b", "F16", (1001,))])
    report = None
    for _ in range(3):
        found = pool.load(path, 0)
        report = found.report
        assert on_host(found["a"]) == held["a"].tobytes()
    assert report is not None
    assert report.size_bytes == 400 * MIB + 3 + 2002
    # Loose: ordinary copies, one tensor at a time, reach 1 GB/s on any PCIe link.
    assert report.rate_bytes_per_s > 1e9


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64", "I8", "I32", "U8", "I64", "BOOL", "C64"])
def test_cupy_takes_a_tensor_without_a_copy(
    pool: planner.Loader, tmp_path: Path, dtype: str
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("x", dtype, (3, 4, 2)), ("y", dtype, ())])
    found = pool.load(path)
    for make in (cupy.from_dlpack, cupy.asarray):
        array = make(found["x"])
        assert array.shape == (3, 4, 2)
        assert array.data.ptr == found["x"].data_ptr
        assert cupy.asnumpy(array).tobytes() == held["x"].tobytes()
    assert cupy.from_dlpack(found["y"]).shape == ()


TORCH = {
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}


@pytest.mark.parametrize("dtype", TORCH)
def test_torch_takes_a_tensor_without_a_copy(
    pool: planner.Loader, tmp_path: Path, dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("x", dtype, (3, 4))])
    found = pool.load(path)
    wanted = getattr(torch, TORCH[dtype])
    try:
        tensor = torch.from_dlpack(found["x"])
    except (BufferError, RuntimeError):
        # Torch read float8 only later; its bytes it always did.
        assert dtype.startswith("F8")
        tensor = torch.from_dlpack(found["x"].raw).view(wanted).reshape(found["x"].shape)
    assert tensor.dtype == wanted
    assert tuple(tensor.shape) == (3, 4)
    assert str(tensor.device) == "cuda:0"
    assert tensor.data_ptr() == found["x"].data_ptr
    assert tensor.view(torch.uint8).cpu().numpy().tobytes() == held["x"].tobytes()


def test_torch_takes_all_tensors_at_once(pool: planner.Loader, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    # The odd one in between moves what follows to where no wider dtype may lie.
    wanted = [(dtype, dtype, (3, 4)) for dtype in TORCH] + [("odd", "U8", (7,)), ("z", "F32", (5,))]
    held = write_weights(tmp_path / "m.safetensors", wanted)
    loaded = pool.load(tmp_path / "m.safetensors")
    found = loaded.torch()
    assert list(found) == list(loaded)
    for name, dtype, shape in wanted:
        tensor = found[name]
        assert tensor.dtype == getattr(torch, TORCH.get(dtype, "uint8" if name == "odd" else ""))
        assert tuple(tensor.shape) == shape
        assert tensor.view(torch.uint8).cpu().numpy().tobytes() == held[name].tobytes()
        assert name == "z" or tensor.data_ptr() == loaded[name].data_ptr
    del loaded
    assert found["z"].cpu().numpy().tobytes() == held["z"].tobytes()


def test_the_memory_lives_as_long_as_its_last_view(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (64 * MIB,)), ("b", "U8", (7,))])
    pool.load(path)  # the ring and the streams are there
    gc.collect()
    free = free_bytes(0)
    found = pool.load(path)
    array = cupy.from_dlpack(found["b"])
    del found
    gc.collect()
    assert free - free_bytes(0) >= 60 * MIB
    assert cupy.asnumpy(array).tobytes() == held["b"].tobytes()
    del array
    assert missing([free])[0] <= SLACK


def test_misaligned_tensors_are_copied_on_the_gpu(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("one", "U8", (1,)), ("f", "F32", (1000,))])
    found = pool.load(path)
    assert found.report.misaligned == 1
    array = cupy.from_dlpack(found["f"])
    assert array.data.ptr % 4 == 0
    assert cupy.asnumpy(array).tobytes() == held["f"].tobytes()


def test_the_callers_device_stays_current(
    pool: planner.Loader, tmp_path: Path, devices: int
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("one", "U8", (1,)), ("f", "F32", (1000,))])
    cupy.cuda.runtime.setDevice(0)
    found = pool.load(path, devices - 1)
    assert cupy.cuda.runtime.getDevice() == 0
    array = cupy.from_dlpack(found["f"])  # a copy on that device
    assert array.device.id == devices - 1
    cupy.cuda.runtime.setDevice(0)  # whatever CuPy has made current
    del array, found
    gc.collect()
    assert cupy.cuda.runtime.getDevice() == 0


def test_what_does_not_fit_is_told_and_leaves_nothing(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    size = 1 << 40
    write_raw(path, {"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, b"")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + size)  # sparse
    with pytest.raises((InfeasibleError, ExecutionError), match="bytes free"):
        pool.load(path)
    small = tmp_path / "n.safetensors"
    held = write_weights(small, [("a", "U8", (70_000,))])
    assert on_host(pool.load(small)["a"]) == held["a"].tobytes()


def test_a_device_that_is_not_there_is_told(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (70_000,))])
    with pytest.raises((UnavailableError, ExecutionError)):
        pool.load(path, 99)


def test_threads_get_their_own_bytes(pool: planner.Loader, tmp_path: Path, devices: int) -> None:
    paths = [tmp_path / f"{k}.safetensors" for k in range(5)]
    held = [write_weights(p, [("x", "U8", (300_000 + k,))]) for k, p in enumerate(paths)]
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda k: pool.load(paths[k], k % devices), range(5)))
    for one, wanted in zip(found, held, strict=True):
        assert on_host(one["x"]) == wanted["x"].tobytes()


def _pinned(size: int) -> Any:
    cupyx = pytest.importorskip("cupyx")
    return cupyx.empty_pinned(size, dtype=np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_host_to_gpu_and_back(pool: planner.Loader, size: int) -> None:
    source, back = noise(size), np.zeros(size, np.uint8)
    device, other = cupy.zeros(size, cupy.uint8), cupy.zeros(size, cupy.uint8)
    pool.transfer(source, device).result()
    pool.transfer(device, other).result()
    pool.transfer(other, back).result()
    assert np.array_equal(back, source)


@pytest.mark.parametrize("size", [1, 4095, 21 * MIB + 17])
def test_pinned_memory_needs_no_ring(pool: planner.Loader, size: int) -> None:
    source, back = _pinned(size), _pinned(size)
    source[...] = noise(size)
    device = cupy.zeros(size, cupy.uint8)
    assert pool.transfer(source, device).result().pinned_bytes == 0
    assert pool.transfer(device, back).result().pinned_bytes == 0
    assert np.array_equal(back, source)


def test_files_into_and_out_of_existing_arrays(pool: planner.Loader, tmp_path: Path) -> None:
    source, sink = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(noise(9 * MIB + 5).tobytes())
    device = cupy.zeros(9 * MIB + 5, cupy.uint8)
    pool.transfer(source, device).result()
    pool.transfer(device, sink).result()
    assert sink.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("now", ["first", "last"])
def test_whichever_device_is_current(pool: planner.Loader, devices: int, now: str) -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(100_003, dtype=torch.float32)
    device = torch.zeros(100_003, dtype=torch.float32, device=f"cuda:{devices - 1}")
    here = 0 if now == "first" else devices - 1
    cupy.cuda.runtime.setDevice(here)
    pool.transfer(source, device).result()
    assert cupy.cuda.runtime.getDevice() == here
    cupy.cuda.runtime.setDevice(0)
    assert torch.equal(device.cpu(), source)


def test_torch_tensors_on_either_end(pool: planner.Loader) -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(100_003, dtype=torch.float32)
    device = torch.zeros(100_003, dtype=torch.float32, device="cuda:0")
    half = torch.zeros(100_003, dtype=torch.bfloat16, device="cuda:0")
    pool.transfer(source, device).result()
    assert torch.equal(device.cpu(), source)
    pool.transfer(device.bfloat16(), half).result()
    assert torch.equal(half, device.bfloat16())
    with pytest.raises(InputError, match="does not give its memory"):
        pool.transfer(source.requires_grad_(), device)


def test_many_small_pieces(pool: planner.Loader) -> None:
    sizes = [1, 63, 64, 65, *([1000] * 1000)]
    sources = [noise(size, seed) for seed, size in enumerate(sizes)]
    targets = [cupy.zeros(size, cupy.uint8) for size in sizes]
    back = [np.zeros(size, np.uint8) for size in sizes]
    pool.transfer(list(zip(sources, targets, strict=True))).result()
    pool.transfer(list(zip(targets, back, strict=True))).result()
    assert all(np.array_equal(a, b) for a, b in zip(sources, back, strict=True))


def _busy(stream: Any) -> None:
    """Keep a stream at work for some tens of milliseconds."""
    with stream:
        values = cupy.ones(8 * MIB, cupy.float32)
        for _ in range(200):
            cupy.sin(values, out=values)


@pytest.mark.parametrize("pinned", [False, True])
def test_copies_start_after_what_the_stream_holds(pool: planner.Loader, pinned: bool) -> None:
    size = 4 * MIB
    target = _pinned(size) if pinned else np.zeros(size, np.uint8)
    device = cupy.zeros(size, cupy.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    _busy(stream)
    with stream:
        device.fill(7)
    pool.transfer(device, target, stream=stream).result()
    assert (target == 7).all()


@pytest.mark.parametrize("pinned", [False, True])
def test_a_stream_waits_for_the_bytes(pool: planner.Loader, pinned: bool) -> None:
    size = 100 * MIB
    source = _pinned(size) if pinned else np.zeros(size, np.uint8)
    source[...] = noise(size)
    device, seen = cupy.zeros(size, cupy.uint8), cupy.zeros(size, cupy.uint8)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    future = pool.transfer(source, device, stream=stream)
    if not pinned:
        future.wait(stream)
    with stream:
        seen[...] = device
    stream.synchronize()
    assert np.array_equal(cupy.asnumpy(seen), source)
    future.result()


def test_between_gpus(pool: planner.Loader, devices: int) -> None:
    if devices < 2:
        pytest.skip(f"needs two GPUs, there is {devices}")
    size = 5 * MIB + 3
    source = noise(size)
    with cupy.cuda.Device(0):
        one = cupy.asarray(source)
    with cupy.cuda.Device(1):
        other = cupy.zeros(size, cupy.uint8)
    pool.transfer(one, other).result()
    with cupy.cuda.Device(1):
        assert np.array_equal(cupy.asnumpy(other), source)


COLD = """
import sys
import planner
weights = planner.load(sys.argv[1], "cuda:0")
report = weights.report
assert "open the device" in report.setup_s, report
assert "cupy" not in sys.modules
import cupy
print(int(cupy.from_dlpack(weights["a"]).astype(cupy.uint64).sum()))
"""


def test_a_cold_process_loads_and_ends_cleanly(tmp_path: Path, devices: int) -> None:
    assert devices
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (50 * MIB,))])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COLD, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == int(held["a"].astype(np.uint64).sum())
    assert done.stderr == ""


@pytest.mark.parametrize("budget", [None, "64MiB"])
def test_on_few_cores_cached_files_are_copied_from_where_they_lie(
    pool: planner.Loader, tmp_path: Path, budget: str | None
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (300 * MIB + 17,)), ("b", "F32", (5, 3))], pad=5)
    for _ in range(2):
        found = pool.load(path, cores=1, budget=budget)
        report = found.report
        # Where the kernel does not tell what is cached, or the device registers no files: a ring.
        ways = {note for note in report.notes if "few cores" in note or "through a ring" in note}
        assert len(ways) <= 2
        assert report.schedule.workers == 1
        assert all(on_host(found[name]) == held[name].tobytes() for name in held)
        del found
        gc.collect()
