"""A result file appears whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.cli import main
from planner.cli.save import check_writable, save_text
from planner.errors import ExitCode, InputError

PLAN = str(Path(__file__).resolve().parents[3] / "plans" / "llm_load.yaml")


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    target.write_text("old", encoding="utf-8")
    save_text(str(target), "new ✓")
    assert target.read_text(encoding="utf-8") == "new ✓"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "r.json"
    target.write_text("old", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        save_text(str(target), "new")
    assert target.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_unwritable_place_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        check_writable(str(tmp_path / "no" / "r.json"))
    with pytest.raises(InputError, match="it is a folder"):
        check_writable(str(tmp_path))


def test_an_output_that_cannot_be_written_is_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", PLAN, "-o", str(tmp_path / "no" / "r.json")]) == ExitCode.INPUT
    assert "mkdir -p" in capsys.readouterr().err


def test_saved_json_is_what_json_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "e.json"
    main(["estimate", PLAN, "--json", "-o", str(target)])
    printed = capsys.readouterr().out
    assert target.read_text(encoding="utf-8") == printed
    main(["estimate", PLAN, "-o", "-"])
    assert capsys.readouterr().out == printed
    main(["estimate", PLAN, "-o", str(target)])
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"saved {target}")


def test_a_device_is_written_not_replaced(tmp_path: Path) -> None:
    # A link to /dev/null: were it replaced, the link would be a file afterwards.
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    check_writable(str(link))
    save_text(str(link), "text")
    assert link.is_symlink()
    assert link.is_char_device()


def test_a_pipe_that_nobody_reads_is_told_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot write"):
        save_text(str(tmp_path / "pipe"), "text")
