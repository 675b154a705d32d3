"""The accuracy matrix and the page made from its results."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import Prediction, judged_error, plan_of, reason_of, series_of, summary
from benchmarks.accuracy_page import cause, document, plot_name, write_page
from benchmarks.matrix import Case, cases
from planner.errors import PlannerError
from planner.machine.load import load_machine
from planner.machine.schema import Machine
from planner.model.estimate import estimate
from planner.plan.schema import FileSource
from planner.results import Estimate

FILES = {
    name: FileSource(path=f"/nowhere/{name}", offset=0, size_bytes=size)
    for name, size in (("warm", 2_100_000_007), ("cold", 260_000_003))
}


def predicted(machine: Machine, listed: list[Case]) -> list[Prediction]:
    """Cases on a machine of the catalogue, by every strategy of the model."""
    found = []
    for case in listed:
        plan = plan_of(case, FILES)
        try:
            answer = estimate(plan, machine, single_ways=not case.split)
        except PlannerError as error:
            found.append(Prediction(case, waived=reason_of(error)))
            continue
        found.append(Prediction(case, plan, answer))
    return found


def strategies(answers: list[Estimate]) -> set[str]:
    hops = [hop for answer in answers for flow in answer.flows for hop in flow.schedule.hops]
    return {hop.strategy for hop in hops}


def test_one_gpu_has_150_steady_points_by_every_strategy() -> None:
    found = predicted(load_machine("h200-sxm-1"), cases(1))
    steady = [one for p in found for one in series_of(p) if not one.first]
    assert len(steady) >= 150
    answers = [p.estimate for p in found if p.estimate is not None]
    # `gds` needs a link that this machine lacks; peer and host_staged need a second GPU.
    wanted = "pageable staged pinned registered zero_copy managed prefetch local"
    assert strategies(answers) >= {*wanted.split(), "buffered", "direct", "mmap"}
    assert next(p.waived for p in found if p.case.family == "file gds").endswith("(gds)")


def test_two_gpus_add_40_points() -> None:
    machine = load_machine("h200-sxm-2")
    alone = {case.name for case in cases(1)}
    found = predicted(machine, [case for case in cases(2) if case.name not in alone])
    assert sum(not one.first for p in found for one in series_of(p)) >= 40
    answers = [p.estimate for p in found if p.estimate is not None]
    assert strategies(answers) >= {"peer", "host_staged"}
    assert any(flow.schedule.parts for answer in answers for flow in answer.flows)


def test_every_size_is_off_the_grid_and_every_name_is_its_own() -> None:
    listed = cases(2)
    assert len({case.name for case in listed}) == len(listed)
    sizes = [flow["size"] for case in listed for flow in case.flows.values()]
    assert all(size % 2 for size in sizes)  # the grid of a calibration has powers of two
    assert cases(2) == listed  # a seeded draw


def test_an_error_is_the_distance_from_what_it_is_judged_by() -> None:
    assert judged_error(1.25, 1.0, None) == 0.25
    assert judged_error(1.25, 1.0, (0.5, 1.5)) == 0.0
    assert judged_error(3.0, 1.0, (0.5, 1.5)) == 1.0  # twice the upper end
    assert judged_error(0.25, 1.0, (0.5, 1.5)) == 0.5  # half the lower end


def point(**given: Any) -> dict[str, Any]:
    hop = {"hop": "host0 -> gpu0", "strategy": "pinned", "resource": "pcie0.forward"}
    plain: dict[str, Any] = {
        "plan": "h2d pinned 1",
        "family": "h2d pinned",
        "flow": "move",
        "gpus": ["gpu0"],
        "strategy": "pinned",
        "size_bytes": 50_000_001,
        "chunk_bytes": 50_000_001,
        "depth": 1,
        "workers": 1,
        "first_run": False,
        "predicted_s": 1e-3,
        "measured_s": 1.1e-3,
        "error_factor": 1.1,
        "error": 0.1,
        "floor": 0.01,
        "spread": 0.01,
        "judged": "point",
        "setup": [],
        "hops": [{**hop, "predicted_s": 1e-3, "busy_s": 1.1e-3, "error_factor": 1.1}],
    }
    return plain | given


def result(points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "machine": "h200-1",
        "date": "2026-11-29T00:00:00+00:00",
        "command": "python benchmarks/accuracy.py",
        "driver": "580",
        "summary": summary(points),
        "points": points,
        "waived": {"file gds 1": "gds: no link"},
        "failed": {},
    }


def test_a_summary_counts_steady_and_first_runs_apart() -> None:
    steady = [point(error=e, error_factor=1 - e) for e in (0.01, 0.02, 0.12)]
    noisy = point(error=0.0, error_factor=1.5, judged="interval", strategy="pageable")
    noisy |= {"gpus": ["gpu0", "gpu1"]}
    found = summary([*steady, noisy, point(first_run=True, error=0.3, error_factor=1.3)])
    # Steady errors 0, 1, 2, 12 %: median 1.5; p90 at 0.9 x 3 = 2.7, so 2 + 0.7 x (12 - 2) = 9 %.
    assert found["points"] == 4
    assert found["several_gpus"] == {"points": 1, "median": 0.0, "p90": 0.0, "worst": 0.0}
    assert found["median"] == pytest.approx(0.015)
    assert found["p90"] == pytest.approx(0.09)
    assert found["worst"] == pytest.approx(0.12)
    assert found["judged_by_interval"] == 1
    assert found["all_as_points"]["worst"] == pytest.approx(0.5)
    assert (found["first_runs"]["points"], found["first_runs"]["worst"]) == (1, 0.3)
    assert found["by_strategy"]["pageable"]["points"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"floor": 0.06}, "does not repeat it"),  # more than half of the 10 % that it is off
        ({"spread": 0.05}, "samples spread by 5.0%"),
        ({"size_bytes": 4097, "floor": None}, "latency"),
        ({}, "pinned on host0 -> gpu0: busy 1.100 ms where 1.000 ms"),
        ({"hops": []}, "between the stages"),
        (
            {
                "first_run": True,  # 0.1 ms are missing, 0.08 of them in one step
                "setup": [{"name": "allocate gpu0", "predicted_s": 1e-5, "measured_s": 9e-5}],
            },
            "setup, allocate gpu0",
        ),
    ],
)
def test_a_cause_comes_from_the_figures(given: dict[str, Any], words: str) -> None:
    assert words in cause(point(**given))


def test_the_page_has_the_table_the_worst_ten_and_the_reasons(tmp_path: Path) -> None:
    points = [
        point(plan=f"plan {k}", error=k / 100, error_factor=1 + k / 100) for k in range(1, 15)
    ]
    write_page({"accuracy-h200-1.json": result([*points, point(first_run=True)])}, tmp_path)
    page = (tmp_path / "accuracy.md").read_text()
    assert "`pinned` | 14 | 7.5% | 12.7% | 14.0% | 1.14x" in page
    steady = page.split("### The 10 worst steady points")[1].split("###")[0]
    assert [f"plan {k}:" in steady for k in (14, 5, 4)] == [True, True, False]
    assert steady.index("plan 14:") < steady.index("plan 13:")
    assert "- file gds 1: gds: no link" in page
    plot = tmp_path / plot_name("accuracy-h200-1.json")
    assert f"]({plot.name})" in page
    circles = [e for e in ET.parse(plot).iter() if e.tag.endswith("circle")]  # noqa: S314 - our own
    assert sum(c.find("{http://www.w3.org/2000/svg}title") is not None for c in circles) == 15


def test_several_machines_have_a_section_each() -> None:
    one, two = result([point()]), {**result([point()]), "machine": "h200-2"}
    page = document({"accuracy-h200-1.json": one, "accuracy-h200-2.json": two})
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## h200-1",
        "## h200-2",
    ]
