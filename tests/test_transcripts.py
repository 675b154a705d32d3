"""Recorded transcripts: the estimate of every plan, as text and as JSON, and the help of all verbs.

The form is the claim here; what the numbers should be is worked out in the tests of the model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli import main
from planner.cli.app import VERBS
from planner.errors import ExitCode
from planner.report.schema import KINDS
from tests.helpers.golden import Golden

ROOT = Path(__file__).resolve().parent.parent
PLANS = sorted(path.stem for path in (ROOT / "plans").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in transcripts are relative to the checkout."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("plan", PLANS)
def test_the_estimate_of_a_plan(
    plan: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["estimate", f"plans/{plan}.yaml", "--width", "100"])
    out, err = capsys.readouterr()
    assert (code, err) == (ExitCode.DONE, "")
    golden.check(f"estimate/{plan}.txt", out)


@pytest.mark.parametrize("plan", PLANS)
def test_the_estimate_of_a_plan_as_json(
    plan: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", f"plans/{plan}.yaml", "--json"]) == ExitCode.DONE
    body = json.loads(capsys.readouterr().out)
    # The machine is a file of its own, and tested as one.
    body["machine"] = {"name": body["machine"]["name"]}
    text = json.dumps(_rounded(body), indent=2, ensure_ascii=False)
    golden.check(f"estimate/{plan}.json", text.replace(str(ROOT), "<checkout>"))


def _rounded(value: Any) -> Any:
    """Floats to six digits: the last ones differ between processors."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# Its flow stands for 512 equal ones, which share what one of them alone would not.
NOT_PLAYED = {"cluster_cold_start"}


@pytest.mark.parametrize("plan", [plan for plan in PLANS if plan not in NOT_PLAYED])
def test_a_run_of_a_plan_on_a_virtual_clock(
    plan: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["execute", f"plans/{plan}.yaml", "--backend", "null"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert err == ""  # a virtual clock takes no time that could be watched
    golden.check(f"execute/{plan}.null.txt", out)


@pytest.mark.parametrize("plan", sorted(NOT_PLAYED))
def test_what_is_not_carried_out_is_refused(
    plan: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["execute", f"plans/{plan}.yaml", "--backend", "null"]
    assert main(arguments) == ExitCode.UNAVAILABLE
    out, err = capsys.readouterr()
    assert out == ""
    golden.check(f"execute/{plan}.refused.txt", err)


def test_an_estimate_explained(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "plans/llm_load.yaml", "--explain", "--width", "100"]) == ExitCode.DONE
    golden.check("estimate/llm_load.explain.txt", capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help(verb: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"] if verb else ["--help"]) == ExitCode.DONE
    golden.check(f"help/{verb or 'planner'}.txt", capsys.readouterr().out)


def test_the_check_of_all_plans(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *(f"plans/{plan}.yaml" for plan in PLANS)]) == ExitCode.DONE
    golden.check("check/plans.txt", capsys.readouterr().out)


def test_a_plan_resolved(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "plans/llm_load.yaml", "--resolved", "--set", "weights=70GB"]
    assert main(arguments) == ExitCode.DONE
    golden.check("check/llm_load.resolved.txt", capsys.readouterr().out)


SWEEPS = {
    "chunk_by_depth": ["llm_load", "--sweep", "chunk=64KiB,1MiB,16MiB", "--sweep", "depth=1,2,8"],
    "machines": ["llm_load", "--machine", "h200-sxm-1,h200-sxm-2,pcie4-a100,desktop-rtx4090"],
    "nodes": ["cluster_cold_start", "--sweep", "nodes=8,16,32,64,128"],
    "slow_and_failed_links": [
        "llm_load",
        "--sweep",
        "links.pcie0.rate=25%,50%,100%",
        "--sweep",
        "links.pcie0.failed=false,true",
    ],
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep(name: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    plan, *axes = SWEEPS[name]
    code = main(["sweep", f"plans/{plan}.yaml", *axes, "--width", "100", "--no-progress"])
    out, err = capsys.readouterr()
    assert (code, err) == (ExitCode.DONE, "")
    golden.check(f"sweep/{name}.txt", out)


def test_the_sweep_of_the_guide_is_the_recorded_one() -> None:
    recorded = (ROOT / "tests" / "golden" / "sweep" / "chunk_by_depth.txt").read_text("utf-8")
    assert recorded in (ROOT / "docs" / "sweep.md").read_text("utf-8")


@pytest.mark.parametrize("form", ["csv", "markdown"])
def test_a_sweep_for_a_sheet_and_for_a_pull_request(
    form: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, *axes = SWEEPS["slow_and_failed_links"]
    assert main(["sweep", f"plans/{plan}.yaml", *axes, "--format", form]) == ExitCode.DONE
    lines = capsys.readouterr().out.splitlines()
    if form == "csv":  # the last digits of a number differ between processors
        lines = [",".join(map(_six_digits, line.split(","))) for line in lines]
    golden.check(f"sweep/slow_and_failed_links.{form}", "\n".join(lines))


def _six_digits(cell: str) -> str:
    try:
        return f"{float(cell):.6g}"
    except ValueError:
        return cell


def test_a_report_and_its_text(
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ["execute", "plans/llm_load.yaml", "--backend", "null", "--no-history", "-q"]
    assert main([*run, "-o", str(tmp_path / "run.json")]) == ExitCode.DONE
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    said = ""
    for arguments in (
        "report run.json --trace trace.json -o run.html",
        "report run.html --format text --width 100",  # the page carries its result
    ):
        assert main(arguments.split()) == ExitCode.DONE
        said += f"$ planner {arguments}\n{''.join(capsys.readouterr())}"
    golden.check("report/llm_load.txt", said)


def test_a_calibration(
    golden: Golden, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is measured differs everywhere, so a machine of the catalogue stands in for it."""
    from planner.engine import here
    from planner.machine.load import load_machine

    monkeypatch.setattr(here, "here", lambda **_options: load_machine("h200-sxm-1"))
    assert main(["calibrate", "--width", "100"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert err == ""
    golden.check("calibrate/h200-sxm-1.txt", out)


@pytest.mark.parametrize("view", ["matrix", "tree"])
@pytest.mark.parametrize("machine", ["h200-sxm-2", "plans/machines/cluster-64x8.yaml"])
def test_a_topology(
    machine: str, view: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", "--machine", machine, "--view", view, "--width", "100"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert err == ""
    golden.check(f"topo/{Path(machine).stem}.{view}.txt", out)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_the_one_that_is_published(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "--of", kind]) == ExitCode.DONE
    recorded = (ROOT / "docs" / "schema" / f"{kind}.schema.json").read_text("utf-8")
    assert capsys.readouterr().out == recorded
