"""Recorded transcripts of comparisons, of estimates and of hand-made runs.

What the numbers should be is worked out in the tests of the comparison; the form is the claim here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli import main
from planner.errors import ExitCode
from tests.helpers import results, sides
from tests.helpers.golden import Golden

ROOT = Path(__file__).resolve().parent.parent
PLAN = "plans/llm_load.yaml"
HALF = "links.pcie0.forward.rate=25GB/s"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files that are compared lie: names in transcripts are relative to it."""
    (tmp_path / "plans").symlink_to(ROOT / "plans")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def estimated(name: str, *words: str, plan: str = PLAN) -> str:
    assert main(["estimate", plan, "-q", "-o", name, *words]) == ExitCode.DONE
    return name


def saved(name: str, text: str) -> str:
    Path(name).write_text(text, encoding="utf-8")
    return name


@pytest.mark.usefixtures("folder")
class TestTranscripts:
    """Each compares two files and records the page."""

    @pytest.fixture(autouse=True)
    def _keep(self, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
        self.golden, self.capsys = golden, capsys

    def record(self, name: str, code: int, *words: str) -> str:
        """Compare, hold the page against the transcript, and give it back."""
        self.capsys.readouterr()
        assert main(["diff", *words, "--width", "100"]) == code
        out, err = self.capsys.readouterr()
        self.golden.check(f"diff/{name}", out + err)
        return out

    def test_two_estimates_and_one_is_faster(self) -> None:
        before = estimated("slow.json", "--set", HALF)
        page = self.record("faster.txt", ExitCode.DONE, before, PLAN)
        assert "faster" in page
        self.record("faster.md", ExitCode.DONE, before, PLAN, "--format", "markdown")

    def test_nothing_changed(self) -> None:
        self.record("unchanged.txt", ExitCode.DONE, estimated("a.json"), PLAN)

    def test_a_regression_fails_the_gate(self) -> None:
        words = [PLAN, estimated("slow.json", "--set", HALF), "--fail-above", "5%"]
        xml = Path("junit.xml")
        self.record("regression.txt", ExitCode.REGRESSION, *words, "--junit", str(xml))
        self.golden.check("diff/regression.junit.xml", xml.read_text(encoding="utf-8"))

    def test_several_flows_of_another_machine(self) -> None:
        plan = "plans/kv_cache_offload.yaml"
        other = estimated("b.json", "--set", "links.pcie0.backward.rate=40GB/s", plan=plan)
        self.record("flows.txt", ExitCode.DONE, plan, other)

    def test_two_runs_within_their_noise(self) -> None:
        met = (results.objective(),)
        a = saved("a.json", sides.run(objectives=met).model_dump_json())
        samples = (1.02, 0.99, 1.01, 1.0, 1.01)
        b = saved("b.json", sides.run(samples, objectives=met).model_dump_json())
        self.record("noise.txt", ExitCode.DONE, a, b, "--fail-above", "1%")

    def test_two_runs_beyond_their_noise(self) -> None:
        a = saved("a.json", sides.run().model_dump_json())
        b = saved("b.json", sides.run(factor=1.3).model_dump_json())
        self.record("slower_run.txt", ExitCode.REGRESSION, a, b, "--fail-above", "100ms")

    def test_an_estimate_and_the_run_of_it(self) -> None:
        run = results.run(emulated=False)
        a = saved("estimate.json", run.estimate.model_dump_json())
        b = saved("run.json", run.model_dump_json())
        self.record("estimate_run.txt", ExitCode.DONE, a, b, "--max-error", "1.2x")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("not_ours", '{"some": "json"}'),
            ("newer_format", '{"format": "planner.run/2"}'),
            ("other_result", '{"format": "planner.check/1"}'),
            ("page", "<html><p>a page</p></html>"),
            ("cut_off", sides.run().model_dump_json()[:500]),
            ("missing", None),
        ],
    )
    def test_what_cannot_be_compared(self, name: str, content: str | None) -> None:
        if content is not None:
            saved(f"{name}.file", content)
        self.record(f"errors/{name}.txt", ExitCode.INPUT, PLAN, f"{name}.file")

    def test_different_plans(self) -> None:
        words = [PLAN, "plans/kv_cache_offload.yaml"]
        self.record("errors/different_plans.txt", ExitCode.INPUT, *words)

    def test_a_limit_that_is_none(self) -> None:
        self.record("errors/limit.txt", ExitCode.USAGE, PLAN, PLAN, "--fail-above", "fast")
