"""`planner report`, and `--html` and `--trace` of the verbs that make results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode
from planner.review.embedded import embedded

ROOT = Path(__file__).resolve().parents[3]
PLAN = str(ROOT / "plans" / "llm_load.yaml")


@pytest.fixture
def saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An estimate as `-o` saves it."""
    path = tmp_path / "loads.json"
    assert main(["estimate", PLAN, "-q", "-o", str(path)]) == ExitCode.DONE
    capsys.readouterr()
    return path


def test_the_page_lies_beside_the_result(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(saved)]) == ExitCode.DONE
    page = saved.with_suffix(".html")
    assert capsys.readouterr() == ("", f"saved {page}\n")
    assert json.loads(embedded(page.read_text(encoding="utf-8")) or "")["flows"]


def test_a_page_is_a_result_too(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = saved.with_name("page.html")
    assert main(["report", str(saved), "-o", str(page)]) == ExitCode.DONE
    again = saved.with_name("again.html")
    assert main(["report", str(page), "-o", str(again)]) == ExitCode.DONE
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", str(page), "--json"]) == ExitCode.DONE
    assert capsys.readouterr().out == saved.read_text(encoding="utf-8")
    assert main(["diff", str(saved), str(page)]) == ExitCode.DONE
    assert "unchanged" in capsys.readouterr().out


def test_a_page_is_not_replaced_by_its_own_report(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = saved.with_suffix(".html")
    main(["report", str(saved)])
    before = page.read_bytes()
    capsys.readouterr()
    assert main(["report", str(page)]) == ExitCode.INPUT
    assert "name another file with -o" in capsys.readouterr().err
    assert page.read_bytes() == before


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_other_forms_go_to_stdout(
    form: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(saved), "--format", form]) == ExitCode.DONE
    assert "weights" in capsys.readouterr().out
    assert not saved.with_suffix(".html").exists()


def test_a_trace_alone(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = saved.with_name("trace.json")
    assert main(["report", str(saved), "--trace", str(trace)]) == ExitCode.DONE
    assert capsys.readouterr().err == f"saved {trace}\n"
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert not saved.with_suffix(".html").exists()


def test_one_page_a_result(saved: Path) -> None:
    other = saved.with_name("other.json")
    other.write_bytes(saved.read_bytes())
    assert main(["report", str(saved), str(other)]) == ExitCode.DONE
    assert saved.with_suffix(".html").exists()
    assert other.with_suffix(".html").exists()
    assert main(["report", str(saved), str(other), "-o", "x.html"]) == ExitCode.INPUT


@pytest.mark.parametrize("form", [[], ["--format", "html"], ["--json"]])
def test_two_documents_are_not_joined_on_one_stream(
    saved: Path, form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(saved), str(saved), "-o", "-", *form]) == ExitCode.INPUT
    told = capsys.readouterr()
    assert "2 results are 2 documents" in told.out + told.err
    assert main(["report", str(saved), str(saved), "-o", "-", "--format", "text"]) == ExitCode.DONE


def test_execute_and_estimate_save_pages(tmp_path: Path) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    files = ["--html", str(page), "--trace", str(trace)]
    run = ["execute", PLAN, "--backend", "null", "-q", "--no-history", *files]
    assert main(run) == ExitCode.DONE
    assert json.loads(embedded(page.read_text(encoding="utf-8")) or "")["format"] == "planner.run/1"
    assert len(json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]) > 100
    assert main(["estimate", PLAN, "-q", *files]) == ExitCode.DONE
    assert "planner.estimate/1" in (embedded(page.read_text(encoding="utf-8")) or "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_page_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert main(["estimate", PLAN, "--html", str(tmp_path / "x.html")]) == ExitCode.INPUT


def test_a_folder_that_is_missing_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "gone" / "x.html"
    assert main(["execute", PLAN, "--html", str(target)]) == ExitCode.INPUT
    assert "there is no folder" in " ".join(capsys.readouterr().err.split())
