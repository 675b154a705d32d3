from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError, PlanError
from planner.plan.load import loads_plan
from planner.plan.safetensors import LONGEST_HEADER, read_header


def entry(
    begin: int, end: int, dtype: str = "U8", shape: list[int] | None = None
) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape or [end - begin], "data_offsets": [begin, end]}


def write(path: Path, document: object, data: int) -> Path:
    raw = json.dumps(document).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(data))
    return path


def test_a_header_says_what_lies_where(tmp_path: Path) -> None:
    document = {
        "__metadata__": {"format": "pt"},
        "b": entry(12, 20, "F32", [2]),
        "a": entry(0, 12, "BF16", [2, 3]),
    }
    path = write(tmp_path / "m.safetensors", document, 20)
    header = read_header(path)
    assert header.data_offset == 8 + len(json.dumps(document))
    assert header.data_bytes == 20
    assert [(t.name, t.dtype, t.shape, t.begin, t.end) for t in header.tensors] == [
        ("a", "BF16", (2, 3), 0, 12),
        ("b", "F32", (2,), 12, 20),
    ]
    assert header.metadata == {"format": "pt"}


def test_empty_tensors_scalars_and_unknown_dtypes_are_fine(tmp_path: Path) -> None:
    document = {
        "none": entry(0, 0, "F32", [0, 3]),
        "one": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "nibbles": entry(4, 5, "F4", [2]),
        "new": entry(5, 8, "F99", [7]),
    }
    header = read_header(write(tmp_path / "m.safetensors", document, 8))
    assert [tensor.name for tensor in header.tensors] == ["none", "one", "nibbles", "new"]


def test_a_pointer_of_git_lfs_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 12345\n")
    with pytest.raises(InputError, match="is a pointer of Git LFS") as caught:
        read_header(path)
    assert caught.value.hint == "fetch it: git lfs pull"


@pytest.mark.parametrize("tensors", [{"a": entry(0, 4)}, {"a": entry(0, 4), "b": entry(6, 8)}])
def test_bytes_that_belong_to_no_tensor_are_no_piece(
    tmp_path: Path, tensors: dict[str, Any]
) -> None:
    """Of 8 bytes behind the last tensor 4, or between two of them 2."""
    write(tmp_path / "m.safetensors", tensors, 8)
    plan = "flows: { w: { from: disk0, to: gpu0, file: m.safetensors, pieces: file } }"
    with pytest.raises(PlanError) as caught:
        loads_plan(plan, directory=tmp_path)
    (fault,) = caught.value.faults
    left = 8 - 4 if len(tensors) == 1 else 2
    assert fault.path == "flows.w.pieces"
    assert fault.message == f"{left} bytes of the data belong to no tensor"
    whole = loads_plan(plan.replace(", pieces: file", ""), directory=tmp_path).plan
    assert whole.flows["w"].size == 8


def test_no_tensors_at_all(tmp_path: Path) -> None:
    assert read_header(write(tmp_path / "m.safetensors", {}, 0)).tensors == ()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it has 0 bytes"),
        (b"\x01\x00", "it has 2 bytes"),
        ((LONGEST_HEADER + 1).to_bytes(8, "little"), "the format allows"),
        ((1).to_bytes(8, "little") + b"{", "the shortest has 2"),
        ((50).to_bytes(8, "little") + b"{}", "the file ends after 10"),
        ((2).to_bytes(8, "little") + b"{]", "not JSON"),
        ((2).to_bytes(8, "little") + b"\xff\xff", "not UTF-8"),
        ((2).to_bytes(8, "little") + b"[]", "not a mapping"),
        ((60_000).to_bytes(8, "little") + b"[" * 60_000, "not JSON"),
    ],
)
def test_a_file_that_is_none_says_why(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=reason) as caught:
        read_header(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"a": entry(0, 8), "b": entry(4, 10)}, '"a" and "b" overlap'),
        ({"a": entry(0, 10), "b": entry(2, 4)}, '"a" and "b" overlap'),
        ({"a": entry(0, 11)}, "ends at byte 11 of the data, which has 10"),
        ({"a": entry(0, 8, "F32", [3])}, "does not fit bytes 0 to 8"),
        ({"a": {**entry(0, 0), "data_offsets": [8, 4]}}, "does not fit bytes 8 to 4"),
        ({"a": {"dtype": "U8", "shape": [1]}}, "lacks dtype"),
        ({"a": {**entry(0, 1), "data_offsets": [0]}}, "lacks dtype"),
        ({"a": [1]}, "lacks dtype"),
        ({"a": {**entry(0, 1), "dtype": 8}}, "wrong type"),
        ({"a": {**entry(0, 1), "shape": 1}}, "wrong type"),
        ({"a": {**entry(0, 1), "shape": [-1]}}, "-1 where a whole number"),
        ({"a": {**entry(0, 1), "shape": [True]}}, "True where a whole number"),
        ({"a": {**entry(0, 0), "shape": [0, 2**63]}}, f"{2**63} where a whole number"),
        ({"a": {**entry(0, 1), "data_offsets": [0, 1.0]}}, "1.0 where a whole number"),
        ({"__metadata__": {"x": 1}}, "__metadata__"),
        ({"__metadata__": []}, "__metadata__"),
    ],
)
def test_an_impossible_header_says_why(tmp_path: Path, document: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_header(write(tmp_path / "m.safetensors", document, 10))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_header(tmp_path / "m.safetensors")


def test_a_hundred_thousand_tensors_are_read_within_a_second(tmp_path: Path) -> None:
    """The promise is a second of the processor; other work on the computer does not count."""
    count = 100_000
    document = {f"model.layers.{i}.weight": entry(i, i + 1, "U8", [1]) for i in range(count)}
    path = write(tmp_path / "m.safetensors", document, count)
    start = time.process_time()
    header = read_header(path)
    spent = time.process_time() - start
    assert len(header.tensors) == count
    assert spent < 1.0
