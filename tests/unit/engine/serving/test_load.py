"""Loading: every byte of every tensor, views that hold their memory, errors that say what."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import active_count
from time import monotonic, process_time, sleep
from typing import Any

import numpy as np
import pytest

import planner
from planner.engine import files
from planner.engine.serving import ends, files as weights, residency
from planner.errors import ExecutionError, InfeasibleError, InputError, UnavailableError
from planner.units import format_time
from tests.helpers.machines import one_gpu
from tests.helpers.weights import same, write_raw, write_weights

pytestmark = pytest.mark.usefixtures("alone")

KIB = 1 << 10
SMALLEST = 64 * KIB
"""A small load is cut into chunks of this size."""
DEVICES = ["cuda:0", "cpu", 1, None]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cache", ["auto", "warm", "cold"])
@pytest.mark.parametrize("size", [0, 1, 4095, SMALLEST - 1, SMALLEST, SMALLEST + 1, 1_000_003])
def test_every_byte_arrives(
    pool: planner.Loader, tmp_path: Path, device: Any, cache: Any, size: int
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (size,)), ("b", "F32", (5, 3))])
    found = pool.load(path, device, cache=cache)
    assert list(found) == ["a", "b"]
    assert all(same(found[name], held[name]) for name in found)
    report = found.report
    assert report.size_bytes == size + 60
    # Every byte was read one way, and which way was asked for.
    ways = {"warm": report.buffered_bytes, "cold": report.direct_bytes}
    assert report.buffered_bytes + report.direct_bytes == size + 60
    assert ways.get(cache, size + 60) == size + 60
    assert report.emulated == (device in ("cuda:0", 1))


def test_a_load_after_another_has_the_same_ring_and_other_bytes(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path, other = tmp_path / "m.safetensors", tmp_path / "n.safetensors"
    held = write_weights(path, [("a", "U8", (700_001,))])
    more = write_weights(other, [("a", "U8", (300_003,))], pad=3)
    first = pool.load(path)
    again = pool.load(other)
    assert same(first["a"], held["a"])
    assert same(again["a"], more["a"])
    assert "open the device" in first.report.setup_s
    assert "open the device" not in again.report.setup_s
    assert 0 < again.report.pinned_bytes <= first.report.schedule.ring_bytes


@pytest.mark.parametrize("dtype", ["F16", "F32", "F64", "I8", "I16", "U32", "I64", "BOOL", "C64"])
@pytest.mark.parametrize("device", [0, "cpu"])
def test_numpy_takes_a_tensor_without_a_copy(
    pool: planner.Loader, tmp_path: Path, dtype: str, device: Any
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("x", dtype, (3, 4, 2)), ("y", dtype, ())])
    found = pool.load(path, device)
    for make in (np.from_dlpack, np.asarray):
        array = make(found["x"])
        assert array.shape == (3, 4, 2)
        assert array.tobytes() == held["x"].tobytes()
        assert array.ctypes.data == found["x"].data_ptr
        assert make(found["y"]).shape == ()
    assert np.array(found["x"]).ctypes.data != found["x"].data_ptr


def test_dtypes_that_numpy_lacks_are_told_and_given_raw(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("x", "BF16", (4, 4)), ("y", "F8_E4M3", (6,))])
    found = pool.load(path)
    with pytest.raises(TypeError, match=r"numpy has no BF16.*take \.raw"):
        found["x"].numpy()
    assert np.from_dlpack(found["x"].raw).tobytes() == held["x"].tobytes()
    assert found["y"].raw.shape == (6,)


def test_dtypes_without_a_layout_keep_their_bytes(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_raw(path, {"n": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}, b"ab")
    tensor = pool.load(path)["n"]
    with pytest.raises(BufferError, match="no layout for F4"):
        np.from_dlpack(tensor)
    assert tensor.raw.numpy().tobytes() == b"ab"


def test_views_hold_the_memory_and_the_last_one_frees_it(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (5000,)), ("b", "U8", (7,))])
    found = pool.load(path)
    bank = found["a"].memory.bank
    assert bank is not None
    array = np.from_dlpack(found["a"])
    tensor = found["b"]
    assert bank.live == 1
    del found
    assert array.tobytes() == held["a"].tobytes()
    del array
    assert bank.live == 1  # the other tensor is a view of the same memory
    del tensor
    assert bank.live == 0


def test_tensors_outlive_their_loader(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (70_000,))])
    with planner.Loader(backend="host") as pool:
        found = pool.load(path)
    assert same(found["a"], held["a"])
    with pytest.raises(ExecutionError, match="closed"):
        pool.load(path)


def test_a_loader_that_nobody_closed_gives_its_threads_back(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (70_000,))])
    before = active_count()
    pool = planner.Loader(backend="host")
    pool.load(path)
    assert active_count() > before
    del pool
    gc.collect()
    deadline = monotonic() + 30
    while active_count() > before and monotonic() < deadline:
        sleep(0.01)
    assert active_count() == before


def test_the_safetensors_library_reads_the_same(pool: planner.Loader, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "F32", (7, 5)), ("b", "I16", (3,)), ("c", "F64", ())])
    found, theirs = pool.load(path), safetensors.load_file(path)
    assert set(found) == set(theirs)
    assert all(np.array_equal(np.asarray(found[name]), theirs[name]) for name in theirs)


def test_a_file_written_by_hand_reads_as_the_format_says(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    # 8 bytes of length, the header padded with spaces to a multiple of 8, then the data:
    # two int16 of 1 and -2, then a float32 of 1.5, all little-endian.
    header = (
        b'{"__metadata__":{"by":"hand"},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},'
        b'"i":{"dtype":"I16","shape":[2,1],"data_offsets":[0,4]}}'
    )
    header += b" " * (-len(header) % 8)
    data = b"\x01\x00\xfe\xff" + b"\x00\x00\xc0\x3f"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    found = pool.load(path)
    assert list(found) == ["i", "w"]
    assert np.asarray(found["i"]).tolist() == [[1], [-2]]
    assert np.asarray(found["w"]).tolist() == [1.5]
    assert found.metadata == {"by": "hand"}


def test_misaligned_tensors_are_counted_and_copied_on_access(
    pool: planner.Loader, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("one", "U8", (1,)), ("f", "F32", (9,)), ("e", "F32", (0,))])
    for device in (0, "cpu"):
        found = pool.load(path, device)
        assert found.report.misaligned == 1  # one empty tensor is in nobody's way
        first, second = found["f"], found["f"]
        assert first.data_ptr % 4 == 0
        assert first.data_ptr != second.data_ptr
        assert np.from_dlpack(first).tobytes() == held["f"].tobytes()
        assert found["one"].data_ptr == found["one"].data_ptr


def test_only_some_tensors(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    wanted = [(f"t{k}", "U8", (k * 1000 + 1,)) for k in range(20)]
    held = write_weights(path, wanted)
    names = ["t3", "t4", "t5", "t11", "t19"]
    found = pool.load(path, tensors=reversed(names))
    assert list(found) == names  # in the order of the file
    assert all(same(found[name], held[name]) for name in names)
    assert "t6" not in found
    assert found.report.size_bytes == sum(held[name].size for name in names)
    assert found.report.misaligned == 0
    alone = pool.load(path, "cpu", tensors="t2")
    assert list(alone) == ["t2"]
    with pytest.raises(InputError, match="no file has the tensors nope"):
        pool.load(path, tensors=["t1", "nope"])


def test_several_files_by_list_glob_folder_and_index(pool: planner.Loader, tmp_path: Path) -> None:
    one, two = tmp_path / "model-1.safetensors", tmp_path / "model-2.safetensors"
    held = write_weights(one, [("a", "U8", (70_000,))], kind="x")
    held |= write_weights(two, [("b", "F16", (9, 9))], pad=5, other="y")
    index = tmp_path / "model.safetensors.index.json"
    ways = [[one, two], str(tmp_path / "*.safetensors"), tmp_path]
    for way in ways:
        found = pool.load(way)
        assert set(found) == {"a", "b"}
        assert all(same(found[name], held[name]) for name in found)
        assert found.metadata == {"kind": "x", "other": "y"}
    index.write_text(json.dumps({"weight_map": {"b": two.name}}), encoding="utf-8")
    assert list(pool.load(index)) == ["b"]
    write_weights(two, [("a", "U8", (3,))])
    with pytest.raises(InputError, match='several files have a tensor "a"'):
        pool.load([one, two])


@pytest.mark.parametrize("packed", [False, True])
def test_a_hundred_thousand_tensors(
    pool: planner.Loader, tmp_path: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    wanted = [(f"layer.{k}.weight", "U8", (3,)) for k in range(100_000)]
    held = write_weights(path, wanted, packed=packed)
    if packed:  # then the JSON parser has nothing to do
        monkeypatch.setattr(weights, "parse_header", None)
    start = process_time()
    found = pool.load(path)
    spent = process_time() - start
    assert len(found) == 100_000
    assert same(found["layer.99999.weight"], held["layer.99999.weight"])
    assert same(found["layer.0.weight"], held["layer.0.weight"])
    assert "layer.100000.weight" not in found
    # Half a second at most; making every view, or collecting garbage meanwhile, takes seconds.
    assert spent < 5.0


def test_packed_headers_give_the_same_tensors(pool: planner.Loader, tmp_path: Path) -> None:
    one, two = tmp_path / "model-1.safetensors", tmp_path / "model-2.safetensors"
    wanted = [("ü", "U8", (7,)), ("f", "F32", (9,)), ("s", "F64", ()), ("n", "I8", (0, 4))]
    held = write_weights(one, wanted, packed=True, kind="x")
    more = write_weights(two, [("b", "U8", (1,)), ("c", "C64", (8,))], packed=True, other="y")
    for device in (0, "cpu"):
        found = pool.load(one, device)
        assert list(found) == ["ü", "f", "s", "n"]
        assert found["n"].shape == (0, 4)
        assert all(same(found[name], held[name]) for name in found)
        assert found.report.misaligned == 2  # f at 7, s at 43
        assert found.metadata == {"kind": "x"}
    both = pool.load([one, two])
    assert list(both) == ["ü", "f", "s", "n", "b", "c"]
    assert all(same(both[name], (held | more)[name]) for name in both)
    assert both.report.misaligned == 3
    assert both.metadata == {"kind": "x", "other": "y"}
    assert list(pool.load(two, tensors=["c"])) == ["c"]
    write_weights(two, [("f", "U8", (1,))], packed=True)
    with pytest.raises(InputError, match='several files have a tensor "f"'):
        pool.load([one, two])


def test_a_cached_file_is_asked_about_once(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(bytes(3 * SMALLEST))
    end = ends.FileEnd(str(path))
    try:
        if not residency.counts_pages(end.fd):
            pytest.skip("the kernel does not count this file's pages")
        assert end.asks
        end.survey()
        assert not end.asks
        assert not end.wants_direct(0, SMALLEST)
    finally:
        end.close()


LIES: dict[str, tuple[dict[str, Any], int, str]] = {
    "not whole": (
        {"a": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}},
        8,
        "ends at byte 9",
    ),
    "wrong shape": ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, 8, "not fit"),
    "backwards": ({"a": {"dtype": "U8", "shape": [0], "data_offsets": [8, 4]}}, 8, "not fit"),
    "negative": ({"a": {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}}, 8, "whole number"),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 1]}}, 8, "lacks dtype"),
    "overlap": (
        {
            "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
        },
        8,
        "overlap",
    ),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("lie", LIES)
def test_a_lying_header_is_told_and_frees_everything(
    pool: planner.Loader, tmp_path: Path, lie: str, long: bool, packed: bool
) -> None:
    document, data, told = LIES[lie]
    path = tmp_path / "m.safetensors"
    # A long header that has no index is parsed only after the bytes have moved.
    write_raw(path, document, bytes(data), pad=300 * KIB if long else 0, packed=packed)
    whole = tmp_path / "n.safetensors"
    write_weights(whole, [("a", "U8", (8,))])
    bank = pool.load(whole)["a"].memory.bank
    assert bank is not None
    with pytest.raises(InputError, match=told) as caught:
        pool.load(path)
    assert str(path) in caught.value.message
    assert bank.live == 0


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "has 0 bytes"),
        (b"\1\2\3", "has 3 bytes"),
        ((1 << 40).to_bytes(8, "little"), "the format allows"),
        ((100).to_bytes(8, "little") + b"{}", "the file ends after 10"),
        ((2).to_bytes(8, "little") + b"{]", "not JSON"),
    ],
)
def test_a_truncated_file_is_told(
    pool: planner.Loader, tmp_path: Path, raw: bytes, told: str
) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=told):
        pool.load(path)


def test_a_missing_file_device_and_option_are_told(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with pytest.raises(InputError, match=r"m\.safetensors"):
        pool.load(path)
    write_weights(path, [("a", "U8", (8,))])
    with pytest.raises(InputError, match="no device 'tpu:0'"):
        pool.load(path, "tpu:0")
    with pytest.raises(InputError, match="no cache state 'hot'"):
        pool.load(path, cache="hot")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the budget is no size"):
        pool.load(path, budget="64MB/s")
    with pytest.raises(InfeasibleError, match="the budget is 4"):
        pool.load(path, budget=4096)
    with pytest.raises(InputError, match="nothing to load"):
        pool.load([])
    for thing in (None, 12, [None]):
        with pytest.raises(InputError, match="is no path"):
            pool.load(thing)
    assert pool.load(os.fsencode(path))["a"].nbytes == pool.load(path)["a"].nbytes
    with pytest.raises(InputError, match="the path is empty"):
        pool.load("")


@pytest.mark.parametrize("device", [0, "cpu"])
def test_a_failed_read_is_told_with_its_place_and_the_pool_goes_on(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])
    assert same(pool.load(path, device)["a"], held["a"])
    real = files.preadv

    def broken(fd: int, views: Any, offset: int) -> int:
        if offset > 600_000:
            raise OSError(5, "Input/output error")
        return real(fd, views, offset)

    monkeypatch.setattr(files, "preadv", broken)
    with pytest.raises(ExecutionError, match=r"m\.safetensors, bytes \d+ to \d+: .*Input/output"):
        pool.load(path, device)
    monkeypatch.undo()
    assert same(pool.load(path, device)["a"], held["a"])


def test_a_file_that_shrinks_is_told(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    real = weights.open_files

    def shrunk(*given: Any) -> Any:
        found = real(*given)
        os.truncate(path, 500_000)
        return found

    monkeypatch.setattr(weights, "open_files", shrunk)
    with pytest.raises(ExecutionError, match="shrank"):
        pool.load(path)


def test_calls_from_several_threads_get_their_own_bytes(
    pool: planner.Loader, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{k}.safetensors" for k in range(6)]
    held = [write_weights(p, [(p.stem, "U8", (200_000 + k,))]) for k, p in enumerate(paths)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda p: pool.load(p, "cuda:0"), paths * 3))
    for k, one in enumerate(found):
        name = str(k % 6)
        assert same(one[name], held[k % 6][name])


def test_each_chunk_is_read_as_it_is_cached(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (1_000_000,))])

    # The first half of the file is cached, as the kernel would say; the rest is not.
    def share(at: int, size: int) -> float:
        return min(1.0, max(0.0, (500_000 - at) / size))

    monkeypatch.setattr(ends, "residency", lambda _fd: share)
    found = pool.load(path, cache="auto")
    assert same(found["a"], held["a"])
    report = found.report
    assert report.buffered_bytes + report.direct_bytes == 1_000_000
    # The border is that of a chunk.
    assert abs(report.buffered_bytes - 500_000) <= report.schedule.chunk_bytes


def test_a_file_system_without_direct_reads_is_noted(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (100_000,))])
    real = os.open

    def without(name: Any, flags: int, *more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real(name, flags, *more)

    monkeypatch.setattr(os, "open", without)
    found = pool.load(path, cache="cold")
    assert same(found["a"], held["a"])
    assert found.report.direct_bytes == 0
    assert any("no O_DIRECT" in note for note in found.report.notes)


def test_the_schedule_is_the_machines_and_the_report_says_what_was_predicted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    with planner.Loader(backend="host", machine=one_gpu()) as pool:
        report = pool.load(path).report
        second = pool.load(path).report
    assert report.schedule.origin == "calibration"
    # The link of 10 GB/s binds: 2^20 bytes of this class of sizes take 105 us and a latency.
    assert report.predicted_s == pytest.approx(1e6 / 10e9, rel=0.5)
    assert report.error_factor is not None
    assert report.notes == ()
    assert second.setup_predicted_s == 0.0
    assert json.loads(json.dumps(report.as_dict()))["size_bytes"] == 1_000_000
    # The text shows what the factor beside it divides by: this first load made the ring.
    assert report.predicted_s is not None
    assert report.setup_predicted_s is not None
    predicted_s = report.predicted_s + report.setup_predicted_s
    assert f"predicted {format_time(predicted_s)}, {report.error_factor:.2f}×" in str(report)
    assert report.error_factor == pytest.approx(report.transfer_s / predicted_s)


def test_without_a_calibration_there_is_a_shape_and_no_prediction(
    pool: planner.Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests that ran before in this session may have calibrated into the folder that they share.
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    report = pool.load(path).report
    assert report.schedule.origin == "rule"
    assert report.predicted_s is None
    assert report.error_factor is None
    assert "not calibrated" in report.notes[0]


def test_a_machine_without_this_gpu_gives_a_shape_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    without = one_gpu()
    kept = {name: node for name, node in without.nodes.items() if name != "gpu0"}
    links = {n: link for n, link in without.links.items() if "gpu0" not in link.ends}
    machine = without.model_copy(update={"nodes": kept, "links": links})
    with planner.Loader(backend="host", machine=machine) as pool:
        report = pool.load(path).report
    assert report.schedule.origin == "rule"
    assert len(report.notes) == 1
    assert "no measured way to GPU 0" in report.notes[0]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_machine_that_is_not_there_is_told_wherever_the_load_goes(
    pool: planner.Loader, tmp_path: Path, device: str
) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (100,))])
    with pytest.raises(InputError, match=r"missing\.yaml"):
        pool.load(path, device, machine=str(tmp_path / "missing.yaml"))


def test_an_empty_load_says_nothing_of_calibration(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (0,))])
    assert pool.load(path).report.notes == ()


def test_the_ring_keeps_to_the_budget(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (40_000_000,))])
    for budget in (8 << 20, "3MiB", 1_100_000):
        found = pool.load(path, budget=budget)
        limit = budget if isinstance(budget, int) else 3 << 20
        assert 0 < found.report.pinned_bytes <= limit
        assert same(found["a"], held["a"])


def test_progress_is_told_from_start_to_finish(pool: planner.Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (1_000_000,))])
    told: list[tuple[Any, ...]] = []

    class Listener:
        def start(self, flow: str, total_bytes: int, predicted_s: float) -> None:
            told.append(("start", flow, total_bytes, predicted_s))

        def advance(self, flow: str, done_bytes: int) -> None:
            told.append(("advance", flow, done_bytes))

        def finish(self, flow: str, seconds: float) -> None:
            told.append(("finish", flow, seconds))

        def note(self, text: str) -> None:
            told.append(("note", text))

    pool.load(path, progress=Listener())
    assert told[0] == ("start", str(path), 1_000_000, 0.0)
    assert ("advance", str(path), 1_000_000) in told
    assert told[-1][0] == "finish"


def test_the_module_loads_to_host_memory_and_can_be_released(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    held = write_weights(path, [("a", "U8", (100_000,))])
    found = planner.load(path, "cpu")
    assert same(found["a"], held["a"])
    planner.release()
    assert same(planner.load(path, None)["a"], held["a"])
    planner.release()
    planner.release()


FORKED = """
import os, sys
import planner

path = sys.argv[1]
pool = planner.Loader(backend="host")
wanted = bytes(planner.load(path, "cpu")["a"].raw.numpy())
pool.load(path)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
    assert bytes(pool.load(path)["a"].raw.numpy()) == wanted  # the parent goes on as before
    assert bytes(planner.load(path, "cpu")["a"].raw.numpy()) == wanted
else:
    assert bytes(planner.load(path, "cpu")["a"].raw.numpy()) == wanted
    try:
        pool.load(path)
    except planner.ExecutionError as error:
        assert "forked" in error.message and "after the fork" in error.hint
    else:
        raise AssertionError("a loader without threads took a call")
    pool.close()
"""


def test_a_forked_process_has_a_pool_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (100_000,))])
    quiet = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(path)]
    subprocess.run(quiet, check=True, timeout=60)


def test_a_gpu_that_is_not_there_is_told(tmp_path: Path) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("this computer has a GPU")
    path = tmp_path / "m.safetensors"
    write_weights(path, [("a", "U8", (100_000,))])
    try:
        with pytest.raises(UnavailableError, match="libcuda"):
            planner.load(path, "cuda:0")
    finally:
        planner.release()
