"""The contest of loaders: its files, its processes, its rows. No loader is needed for it."""

from __future__ import annotations

import errno
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks import checkpoints
from benchmarks.checkpoints import (
    data_bytes,
    even_table,
    header_of,
    llama_7b,
    make,
    read_header,
    tables,
)
from benchmarks.peer_loaders import LOADERS, Setting, chosen_loaders, find
from benchmarks.peer_process import ROOT, Child, unpack
from benchmarks.peer_rows import Entrant, Peak, leading, standings, waves
from benchmarks.peers import prepare
from planner.plan import safetensors


def test_the_7b_table_is_that_of_the_model() -> None:
    table = llama_7b()
    assert len(table) == 291
    # 6,738,415,616 parameters (Touvron et al. 2023, Llama 2 7B), two bytes each.
    assert data_bytes(table) == 2 * 6_738_415_616


def test_a_made_file_says_what_it_holds(tmp_path: Path) -> None:
    table = even_table(1_000_000, 7)
    path = tmp_path / "model.safetensors"
    size = make(path, table)
    start, listed = read_header(str(path))
    assert [(e.name, e.shape) for e in listed] == list(table.items())
    assert start % 8 == 0
    assert start == 8 + len(header_of(table))
    assert size == start + data_bytes(table) == listed[-1].stop
    assert len(safetensors.read_header(path).tensors) == 7  # the project's own reader agrees
    # bf16 with all bits of the exponent set is not finite: the top bit of each is clear.
    words = path.read_bytes()[start:]
    assert max(words[1::2]) & 0x40 == 0
    assert len(set(words)) > 100


def test_no_two_pieces_of_a_made_file_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = 64 << 10
    monkeypatch.setattr(checkpoints, "PIECE", piece)
    path = tmp_path / "model.safetensors"
    table = even_table(10 * piece + 1000, 1)
    make(path, table)
    data = path.read_bytes()[8 + len(header_of(table)) :]
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    assert [len(one) for one in pieces] == [piece] * 10 + [data_bytes(table) - 10 * piece]
    # Every one is the same noise, turned: as many of each byte, in another order.
    assert len({bytes(sorted(one)) for one in pieces[:10]}) == 1
    assert len(set(pieces)) == 11
    assert not any(data[at : at + 4096].count(0) == 4096 for at in range(0, len(data) - 4096, 4096))


def test_a_file_that_cannot_be_finished_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _view: memoryview, at: int) -> None:
        raise OSError(errno.ENOSPC, f"no space at {at}")

    monkeypatch.setattr(checkpoints, "_write", full)
    with pytest.raises(OSError, match="no space at"):
        make(tmp_path / "model.safetensors", even_table(100_000, 2))
    assert not list(tmp_path.iterdir())


def test_the_process_of_a_loader_is_without_the_libraries_of_this_project() -> None:
    script = "import benchmarks.peer_child, sys; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == b"False"


def test_sizes_and_names_become_tables() -> None:
    found = tables(["1GB", "100k", "7b"], 0.01)
    assert {name: len(table) for name, table in found.items()} == {
        "1GB": 288,
        "100k": 100_000,
        "7b": 291,
    }
    assert data_bytes(found["1GB"]) == pytest.approx(10e6, rel=0.01)


def test_the_kernel_is_asked_whether_a_file_is_cold(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    make(path, even_table(4_000_000, 2))
    assert prepare(path, "warm") == "warm"
    assert prepare(path, "cold") in ("cold", "guest-cold", "partly", "warm")


def test_wheels_are_laid_out_as_an_installer_does(tmp_path: Path) -> None:
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.mkdir("thing")  # some wheels list their folders too
        archive.writestr("thing/__init__.py", "")
        archive.writestr("thing-1.0.data/purelib/other/__init__.py", "x = 1")
        archive.writestr("thing-1.0.data/scripts/run", "#!python")
        archive.writestr("thing-1.0.dist-info/METADATA", "Name: thing\nVersion: 1.0\n")
    unpack([wheel], tmp_path / "site")
    site = tmp_path / "site"
    files = {str(p.relative_to(site)) for p in site.rglob("*") if p.is_file()}
    assert files == {
        "thing/__init__.py",
        "other/__init__.py",
        "thing-1.0.dist-info/METADATA",
    }


def test_an_absent_loader_is_a_reason_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no such library')")
    setting = find("runai-model-streamer", "default")
    child = Child(setting, "cpu", [tmp_path], sys.executable)
    assert child.ready().startswith(("ImportError", "ModuleNotFoundError"))
    child.close()
    assert "left with" in child.load(tmp_path)["failed"]


def test_every_loader_has_a_default_and_a_best_for_each_state() -> None:
    assert len({(s.loader, s.setting) for s in LOADERS}) == len(LOADERS)
    for loader in {s.loader for s in LOADERS}:
        own = [s for s in LOADERS if s.loader == loader]
        for cache in ("warm", "cold"):
            assert any(cache in s.caches for s in own), (loader, cache)
        assert len(own) >= 2


def test_best_settings_are_defaults_where_nothing_is_better() -> None:
    warm = {(s.loader, s.kind) for s in chosen_loaders("", "best", "warm")}
    cold = {(s.loader, s.kind) for s in chosen_loaders("", "best", "cold")}
    loaders = {s.loader for s in LOADERS}
    assert {loader for loader, _ in warm} == {loader for loader, _ in cold} == loaders
    assert {loader for loader, kind in warm if kind == "default"} == {"planner"}
    # They read around the cache of their own accord.
    direct = {"planner", "fastsafetensors", "instanttensor", "runai-model-streamer"}
    assert {loader for loader, kind in cold if kind == "default"} == direct
    assert [s.loader for s in chosen_loaders("kvikio", "default", "warm")] == ["kvikio"]


class Still:
    """A process that nobody asks."""

    version = "1"


def entrant(loader: str, *seconds: float, setting: str = "default") -> Entrant:
    what = Setting(loader, setting, loader, dict)  # type: ignore[arg-type]
    return Entrant(what, Still(), list(seconds))  # type: ignore[arg-type]


def test_slow_loaders_take_part_in_fewer_rounds() -> None:
    assert [entrant("fast", 0.2).wants(turn, "warm") for turn in range(4)] == [True] * 4
    assert [entrant("slow", 3.0).wants(turn, "warm") for turn in range(3)] == [True, True, False]
    assert [entrant("slower", 9.0).wants(turn, "warm") for turn in range(2)] == [True, False]
    assert [entrant("disk", 3.0).wants(turn, "cold") for turn in range(2)] == [True, False]
    gone = entrant("gone")
    gone.reason = "absent"
    assert not gone.wants(0, "warm")


def test_the_fastest_and_the_project_take_part_in_every_round() -> None:
    others = [entrant(f"loader {k}", 5.0 + k) for k in range(6)]
    own = entrant("planner", 6.5)
    wrong = entrant("wrong", 0.1)
    wrong.reason = "differs from the file"
    assert leading([*others, wrong, own]) == [own, *others[:4]]


def test_a_few_load_at_a_time_with_the_project_among_them_every_time() -> None:
    own = [entrant("planner"), entrant("planner", setting="every view made")]
    usual = [entrant(f"loader {k}") for k in range(3)]
    best = [entrant(f"loader {k}", setting="best (16)") for k in range(3)]
    assert waves([*own, *usual, *best], 5) == [[*own, *best], [*own, *usual]]
    assert waves(own, 5) == [own]


def test_the_first_load_of_a_later_process_is_no_sample() -> None:
    found = {"seconds": 0.9, "verified": True}
    own = entrant("planner", 0.5, 0.2)
    own.renew(Still())  # type: ignore[arg-type]
    own.took(found)
    own.took(found | {"seconds": 0.21})
    assert own.seconds == [0.5, 0.2, 0.21]
    new = entrant("new")
    new.renew(Still())  # type: ignore[arg-type]
    new.took(found)
    assert new.seconds == [0.9]


def test_rows_and_standings_come_from_the_samples() -> None:
    rows: list[dict[str, Any]] = [
        entrant("planner", 0.4, 0.2, 0.2).row("8GB", 8 * 10**9, 288, "warm"),
        entrant("kvikio", 0.5, 0.3, 0.25).row("8GB", 8 * 10**9, 288, "warm"),
        entrant("torch", 0.45, 0.6, 0.7).row("8GB", 8 * 10**9, 288, "warm"),
    ]
    assert (rows[0]["seconds"], rows[0]["first_s"]) == (0.2, 0.4)
    assert rows[0]["rate_bytes_per_s"] == pytest.approx(40e9)
    (found,) = standings(rows)
    assert found["best_other"] == "kvikio, default"
    assert found["times_as_fast"] == pytest.approx(1.375)  # (0.3 + 0.25) / 2 against 0.2
    assert found["best_other_first"] == "torch, default"
    assert found["times_as_fast_first"] == pytest.approx(0.45 / 0.4)


def test_the_project_stands_with_every_view_made_and_wrong_loaders_do_not() -> None:
    wrong = entrant("wrong", 0.01)
    wrong.took({"seconds": 0.01, "verified": False, "wrong": ["a"], "tensors": 288})
    size = 8 * 10**9
    rows = [
        entrant("planner", 0.1).row("8GB", size, 288, "warm"),
        entrant("planner", 0.2, setting="every view made").row("8GB", size, 288, "warm"),
        entrant("kvikio", 0.3).row("8GB", size, 288, "warm"),
        wrong.row("8GB", size, 288, "warm"),
    ]
    (found,) = standings(rows)
    assert (found["seconds"], found["lazy_s"], found["best_other_s"]) == (0.2, 0.1, 0.3)
    assert rows[3]["reason"] == "differs from the file: a"


def test_a_watched_load_gives_the_pinned_memory_or_the_reason() -> None:
    one = entrant("torch", 2.0, 1.0)
    row = one.row("8GB", 8 * 10**9, 288, "cold")
    assert (row["peak_pinned_bytes"], row["pinned_cache"], row["pinned_reason"]) == (None, None, "")
    one.peak = Peak.of({"seconds": 9.0, "pinned_bytes": 128, "pinned_reason": ""}, "warm")
    row = one.row("8GB", 8 * 10**9, 288, "cold")
    assert (row["peak_pinned_bytes"], row["pinned_cache"]) == (128, "warm")
    assert (row["first_s"], row["samples_s"]) == (2.0, [2.0, 1.0])
    died = Peak.of({"failed": "its process was ended by signal 11"}, "warm")
    assert died == Peak(None, "while it was counted its process was ended by signal 11", "warm")
    absent = Peak.of({"pinned_bytes": None, "pinned_reason": "libcupti is absent"}, "warm")
    assert (absent.bytes, absent.reason) == (None, "libcupti is absent")


def test_a_load_that_fails_keeps_the_samples_before_it() -> None:
    one = entrant("torch")
    about = {"verified": True, "wrong": [], "tensors": 288}
    one.took({"seconds": 2.0, **about})
    one.took({"seconds": 1.0, **about})
    one.took({"failed": "out of memory"})
    assert (one.seconds, one.reason) == ([2.0, 1.0], "out of memory")
