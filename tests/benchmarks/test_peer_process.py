"""A loader's process: it fails, hangs or dies, and the contest goes on. Loaders are played."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from benchmarks import peer_process, peers
from benchmarks.checkpoints import even_table, make
from benchmarks.peer_loaders import LOADERS, Setting, find
from benchmarks.peer_process import Child, close_all
from benchmarks.peers import SPENT, Contest
from benchmarks.record import Clock
from tests.helpers.machines import one_gpu

TORCH = """
import numpy
class Tensor:
    def __init__(self, words=b"", shape=()): self.words, self.shape = words, shape
    def add_(self, _n): pass
    def detach(self): return self
    cpu = contiguous = numpy = detach
    def view(self, _kind): return self
    def tobytes(self): return self.words
uint8 = numpy.uint8
def ones(_n, device=None): return Tensor()
"""
LOADER = """
import os, sys, time, torch
from benchmarks.checkpoints import read_header
class SafetensorsStreamer:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def stream_file(self, path, device): self.path = path
    def get_tensors(self):
        word = open(self.path + ".do").read()
        if word == "raise": raise ValueError("no such tensor\\nmore")
        if word == "crash" and sys.argv[4:]: os.kill(os.getpid(), 11)
        if word == "hang": time.sleep(600)
        if word == "die":
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        words = open(self.path, "rb").read()
        _, listed = read_header(self.path)
        return [(e.name, torch.Tensor(words[e.start:e.stop], e.shape)) for e in listed]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Packages of a loader and of what it needs, which do as a file beside the loaded one says."""
    folder = tmp_path / "site"
    (folder / "runai_model_streamer-1.dist-info").mkdir(parents=True)
    about = "Metadata-Version: 2.1\nName: runai-model-streamer\nVersion: 1\n"
    (folder / "runai_model_streamer-1.dist-info" / "METADATA").write_text(about)
    (folder / "torch.py").write_text(TORCH)
    (folder / "runai_model_streamer.py").write_text(LOADER)
    return folder


def started(site: Path) -> Child:
    return Child(find("runai-model-streamer", "default"), "cpu", [site], sys.executable)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.safetensors"
    make(found, even_table(1000, 1))
    return found


def do(path: Path, word: str) -> None:
    Path(f"{path}.do").write_text(word)


def test_a_load_that_raises_is_a_reason_and_the_next_one_runs(site: Path, path: Path) -> None:
    child = started(site)
    assert child.ready() == ""
    assert child.version == "1"
    do(path, "raise")
    assert child.load(path) == {"failed": "ValueError: no such tensor"}
    assert child.load(path) == {"failed": "ValueError: no such tensor"}
    close_all([child])


def test_a_process_that_dies_leaves_its_last_words(site: Path, path: Path) -> None:
    child = started(site)
    assert child.ready() == ""
    do(path, "die")
    assert child.load(path) == {"failed": "it left with 3: out of luck"}
    assert child.load(path) == {"failed": "it left with 3: out of luck"}
    close_all([child])


def test_a_process_that_hangs_is_ended_in_time(site: Path, path: Path) -> None:
    child = started(site)
    assert child.ready() == ""
    do(path, "hang")
    begun = monotonic()
    assert child.load(path, 0.5) == {"failed": "no answer in 0 s"}  # 0.5 rounds to the even number
    assert "signal 9" in child.load(path)["failed"]
    close_all([child])
    assert monotonic() - begun < 5


def test_those_that_do_not_leave_share_the_seconds(
    site: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "END_S", 0.5)
    children = [started(site) for _ in range(3)]
    assert [child.ready() for child in children] == [""] * 3
    do(path, "hang")
    for child in children:
        child.load(path, 0.0)
    begun = monotonic()
    close_all(children)
    assert monotonic() - begun < 2


def contest(tmp_path: Path, site: Path, budget: float | None) -> Contest:
    options = SimpleNamespace(
        device="cpu",
        python=sys.executable,
        loaders="runai",
        settings="all",
        rounds=2,
        cache="warm",
        scale=0.01,
        watch=False,
        out=tmp_path / "result.json",
    )
    found = Contest(options, Clock(budget), one_gpu(), {})  # type: ignore[arg-type]
    found.site = [site]
    return found


def told(tmp_path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((tmp_path / "result.json").read_text())
    return body


def test_a_contest_writes_rows_with_their_reasons(tmp_path: Path, site: Path) -> None:
    do(tmp_path / "model.safetensors", "raise")
    contest(tmp_path, site, None).file("small", tmp_path, even_table(10_000, 2))
    rows = told(tmp_path)["rows"]
    assert {(row["loader"], row["reason"]) for row in rows if row["loader"] != "planner"} == {
        ("runai-model-streamer", "ValueError: no such tensor")
    }
    assert all(row["seconds"] is None for row in rows if row["loader"] != "planner")
    assert not (tmp_path / "model.safetensors").exists()


def test_a_loader_that_crashes_while_it_is_counted_has_its_times(
    tmp_path: Path, site: Path
) -> None:
    do(tmp_path / "model.safetensors", "crash")
    found = contest(tmp_path, site, None)
    found.watch = tmp_path / "none.so"  # that it is given is all that the loader looks at
    found.file("small", tmp_path, even_table(10_000, 2))
    (row,) = [
        row
        for row in told(tmp_path)["rows"]
        if row["setting"] == "default" and "runai" in row["loader"]
    ]
    assert (len(row["samples_s"]), row["verified"], row["reason"]) == (2, True, "")
    assert row["peak_pinned_bytes"] is None
    assert row["pinned_reason"] == "while it was counted its process was ended by signal 11"


class Played:
    """A process that takes longer while it is watched, and the first time."""

    version = "1"
    age = 0.0
    alive: ClassVar[list[Played]] = []
    most = 0
    watched: ClassVar[Counter[tuple[str, str]]] = Counter()

    def __init__(self, setting: Setting, *, watched: bool) -> None:
        self.by, self.times = watched, iter([3.0] if watched else [2.0, 1.0, 1.0, 1.0])
        self.watched[setting.loader, setting.setting] += watched
        self.alive.append(self)
        type(self).most = max(self.most, len(self.alive))

    def ready(self, *_: float) -> str:
        return ""

    def load(self, _path: Path, _seconds: float) -> dict[str, Any]:
        about = {"pinned_reason": "", "verified": True, "wrong": [], "tensors": 2}
        return {"seconds": next(self.times), "pinned_bytes": 128 if self.by else None, **about}

    def dismiss(self) -> None:
        """It is played."""

    def close(self, _seconds: float = 0.0) -> None:
        self.alive.remove(self)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Played]]:
    """All processes are played, and every file is in the state that it is wanted in."""

    def start(_self: Contest, setting: Setting, *, watched: bool = False) -> Played:
        return Played(setting, watched=watched)

    monkeypatch.setattr(Contest, "start", start)
    monkeypatch.setattr(peers, "prepare", lambda _path, cache: cache)
    monkeypatch.setattr(peers, "MOST", 5)
    Played.most = 0
    Played.watched.clear()
    yield Played
    assert not Played.alive


def test_no_time_is_that_of_a_watched_process(
    tmp_path: Path, site: Path, played: type[Played]
) -> None:
    found = contest(tmp_path, site, None)
    found.options.loaders, found.options.cache = "", "warm,cold"
    found.watch = tmp_path / "none.so"
    found.file("small", tmp_path, even_table(10_000, 2))
    rows = told(tmp_path)["rows"]
    assert {tuple(row["samples_s"][:2]) for row in rows} == {(2.0, 1.0)}
    assert {row["first_s"] for row in rows} == {2.0}
    # Each is counted once, in the first state of the file that it is meant for.
    assert {row["peak_pinned_bytes"] for row in rows} == {128}
    assert played.watched == {(one.loader, one.setting): 1 for one in LOADERS}
    states = {(one.loader, one.setting): one.caches[0] for one in LOADERS}
    assert all(row["pinned_cache"] == states[row["loader"], row["setting"]] for row in rows)
    assert played.most == 5


def test_without_time_nobody_is_counted(tmp_path: Path, site: Path, played: type[Played]) -> None:
    found = contest(tmp_path, site, 0.0)
    found.watch = tmp_path / "none.so"
    (one,) = (e for e in found.entrants("warm") if e.names == ("runai-model-streamer", "default"))
    one.seconds = [2.0]
    found._count("small", tmp_path / "file", [one], "warm")
    assert (one.peak.bytes, one.peak.reason) == (None, SPENT)
    found.watch = None
    found._count("other", tmp_path / "file", [one], "warm")
    assert (one.peak.bytes, one.peak.reason) == (None, "")
    assert not played.watched


def test_a_budget_that_is_spent_makes_no_file(tmp_path: Path, site: Path) -> None:
    contest(tmp_path, site, 0.0).file("small", tmp_path, even_table(10_000, 2))
    assert told(tmp_path)["left_out"] == {"small, warm": SPENT}
    assert told(tmp_path)["rows"] == []


def test_a_file_that_stays_cached_is_not_called_cold(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "prepare", lambda *_: "partly")
    do(tmp_path / "model.safetensors", "raise")
    found = contest(tmp_path, site, None)
    found.options.cache = "cold"
    found.file("small", tmp_path, even_table(10_000, 2))
    (row,) = [row for row in told(tmp_path)["rows"] if row["loader"] != "planner"]
    assert row["reason"] == "the file could not be made cold: it is partly"


def test_who_hangs_at_its_start_is_not_waited_for_twice(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_process, "LEAST_S", 1.0)
    monkeypatch.setattr(peer_process, "TIMES", 1.5)
    (site / "kvikio.py").write_text("import time; time.sleep(600)")
    (site / "cupy.py").write_text("")
    do(tmp_path / "model.safetensors", "raise")
    found = contest(tmp_path, site, None)
    found.options.loaders = "runai,kvikio"
    found.file("one", tmp_path, even_table(10_000, 2))
    started: list[str] = []
    start = Contest.start

    def remembered(self: Contest, setting: Setting, **more: bool) -> Child:
        started.append(setting.loader)
        return start(self, setting, **more)

    monkeypatch.setattr(Contest, "start", remembered)
    found.file("two", tmp_path, even_table(10_000, 2))
    assert set(started) == {"runai-model-streamer"}
    hung = [row for row in told(tmp_path)["rows"] if row["loader"] == "kvikio"]
    assert {row["file"] for row in hung} == {"one", "two"}
    assert all(row["reason"].startswith("it was not ready") for row in hung)
    assert all(row["version"] is None for row in hung)
