"""The programs that the Makefile runs before and around the tool."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psutil
import pytest

from scripts import demo_size, install_browser, make_venv


def test_an_old_python_is_told_which_one_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_venv, "OLDEST", (99, 0))
    assert make_venv.main([str(tmp_path / "venv")]) == 1
    assert "make PYTHON=" in capsys.readouterr().err
    assert not (tmp_path / "venv").exists()


def test_a_python_without_ensurepip_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert make_venv.obstacle() == ""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "-venv)" in make_venv.obstacle()


def test_a_missing_folder_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_venv.main([]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("free_bytes", "size_mb"),
    [
        (8 * 10**9, 1000),  # a quarter is 2000 MB, cut at the most
        (4 * 10**9, 1000),
        (400 * 10**6, 100),
        (399_999_999, 99),  # 99.99 MB, rounded down
        (10**6, 16),  # the least that still shows a pipeline
    ],
)
def test_the_demo_takes_a_quarter_of_what_is_free(free_bytes: int, size_mb: int) -> None:
    assert demo_size.demo_size_mb(free_bytes) == size_mb


def test_the_demo_heeds_the_limit_of_its_container(tmp_path: Path) -> None:
    system = psutil.virtual_memory().available
    assert demo_size.free_memory_bytes(tmp_path) == pytest.approx(system, rel=0.2)
    # 50 MB allowed, 40 used, of which 15 are cached file pages: 50 - 40 + 15 = 25 MB.
    (tmp_path / "memory.max").write_text("50000000\n")
    (tmp_path / "memory.current").write_text("40000000\n")
    (tmp_path / "memory.stat").write_text("anon 25000000\ninactive_file 15000000\n")
    assert demo_size.free_memory_bytes(tmp_path) == 25_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert demo_size.free_memory_bytes(tmp_path) == pytest.approx(system, rel=0.2)


def test_the_size_is_printed_as_a_plan_spells_it(capsys: pytest.CaptureFixture[str]) -> None:
    demo_size.main()
    printed = capsys.readouterr().out.strip()
    assert printed.endswith("MB")
    assert demo_size.LEAST_MB <= int(printed.removesuffix("MB")) <= demo_size.MOST_MB


def test_a_browser_that_is_missing_is_told_to_those_who_may_not_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install_browser, "PROGRAMS", {"no-such-program": "its-package"})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert install_browser.main() == 0
    assert "SKIPPED" in capsys.readouterr().err


def test_a_browser_that_is_there_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install_browser, "PROGRAMS", {"sh": "its-package"})
    assert install_browser.main() == 0
    assert capsys.readouterr() == ("", "")
