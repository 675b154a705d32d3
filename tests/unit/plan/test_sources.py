from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.plan.paths import INDEX_NAME
from planner.plan.sources import clip, find_sources


def write_tensors(path: Path, *sizes: int) -> None:
    """A safetensors file of tensors of `sizes` bytes."""
    document, begin = {}, 0
    for i, size in enumerate(sizes):
        offsets = [begin, begin + size]
        document[f"t{i}"] = {"dtype": "U8", "shape": [size], "data_offsets": offsets}
        begin += size
    raw = json.dumps(document).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(begin))


def test_a_plain_file_counts_whole(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(bytes(100))
    sources = find_sources(["model.bin"], tmp_path)
    (file,) = sources.files
    assert (file.path, file.offset, file.size_bytes, file.pieces) == (
        *(str(tmp_path / "model.bin"), 0, 100, 1),
    )
    assert (sources.size_bytes, sources.tensor_sizes) == (100, (100,))


def test_a_safetensors_file_counts_its_data(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_tensors(path, 10, 20)
    sources = find_sources([str(path)], tmp_path / "elsewhere")
    (file,) = sources.files
    assert (file.size_bytes, file.pieces) == (30, 2)
    assert file.offset + file.size_bytes == path.stat().st_size
    assert sources.tensor_sizes == (10, 20)


@pytest.mark.parametrize("name", ["*.safetensors", ".", "m-?.safetensors", "./", "../*/m-*"])
def test_globs_and_folders_are_sorted_by_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for part, size in (("b", 2), ("a", 1)):
        write_tensors(folder / f"m-{part}.safetensors", size)
    (folder / "config.json").write_text("{}")
    found = find_sources([name], folder)
    assert [Path(file.path).name for file in found.files] == ["m-a.safetensors", "m-b.safetensors"]


def test_the_index_of_a_folder_decides(tmp_path: Path) -> None:
    for part in "abc":
        write_tensors(tmp_path / f"{part}.safetensors", 1)
    weight_map = {"x": "c.safetensors", "y": "a.safetensors", "z": "c.safetensors"}
    (tmp_path / INDEX_NAME).write_text(json.dumps({"weight_map": weight_map}))
    for name in (".", INDEX_NAME):
        found = find_sources([name], tmp_path)
        assert [Path(file.path).name for file in found.files] == ["a.safetensors", "c.safetensors"]


def test_a_list_keeps_its_order(tmp_path: Path) -> None:
    for part in "ab":
        (tmp_path / part).write_bytes(b"x")
    found = find_sources(["b", "a"], tmp_path)
    assert [Path(file.path).name for file in found.files] == ["b", "a"]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "m[1].bin").write_bytes(b"xyz")
    assert find_sources(["m[1].bin"], tmp_path).size_bytes == 3


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("{", "is not an index"),
        ("[]", "is not an index"),
        ("{}", "is not an index"),
        ('{"weight_map": {"x": 1}}', "is not an index"),
        ('{"weight_map": {}}', "names no file"),
        ('{"weight_map": {"x": "gone.safetensors"}}', "there is no file"),
    ],
)
def test_a_bad_index_says_why(tmp_path: Path, index: str, reason: str) -> None:
    (tmp_path / INDEX_NAME).write_text(index)
    with pytest.raises(InputError, match=reason):
        find_sources(["."], tmp_path)


def test_what_gives_no_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("gone.bin", "there is no file"),
        ("gone/*.bin", "no file matches"),
        ("empty", "holds no .safetensors"),
        ("pipe", "is not a file"),
        ("a\0b", "cannot be read: embedded null"),
        ("pipe/x", "cannot be read: Not a directory"),
        ("/dev/null", "is not a file"),
    ):
        with pytest.raises(InputError, match=reason):
            find_sources([name], tmp_path)


def test_a_home_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no home folder"):
        find_sources(["~nobody-of-that-name/x.bin"], tmp_path)


def test_files_and_folders_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superuser may read everything, so the system's answer is put in its mouth."""
    (tmp_path / "a.bin").write_bytes(b"x")

    def refuse(_path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(InputError, match="may not be read"):
        find_sources(["a.bin"], tmp_path)
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        find_sources(["."], tmp_path)


def test_clip_takes_the_first_bytes(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 20), ("c", 30)):
        (tmp_path / name).write_bytes(bytes(size))
    sources = find_sources(["a", "b", "c"], tmp_path)
    assert clip(sources, 60) == sources.files
    assert [file.size_bytes for file in clip(sources, 15)] == [10, 5]
    assert [file.size_bytes for file in clip(sources, 10)] == [10]
    assert [file.size_bytes for file in clip(sources, 0)] == [0]
    with pytest.raises(InputError, match="a, b, c have 60 bytes, the size asks for 61"):
        clip(sources, 61)
