"""One result as one HTML file: everything inside, nothing asked of any network."""

from __future__ import annotations

from typing import Any, Final

from planner.report.html.carried import carried_json
from planner.report.html.compare import comparisons
from planner.report.html.memory import memory_charts
from planner.report.html.plan_text import plan_text
from planner.report.html.route_map import route_map
from planner.report.html.samples import sample_plots
from planner.report.html.sensitivity import sensitivity
from planner.report.html.sheets import digest, fill, plain
from planner.report.html.sources import coefficients, environment_facts, source_rows
from planner.report.html.timeline import timeline_chart
from planner.report.html.verdict import verdict_bar
from planner.report.html.why import reasons
from planner.results import Estimate, Run
from planner.review.embedded import ELEMENT_ID
from planner.review.study import Study

_PAGE: Final = "report/page.html.j2"


def report_html(result: Estimate | Run, study: Study) -> str:
    """The page of a result.

    Parameters
    ----------
    result
        an estimate, or a run: its prediction and its measurement are shown beside each other.
    study
        what was found out about it (`planner.review.study`).

    """
    run = result if isinstance(result, Run) else None
    estimate = run.estimate if run is not None else result
    if not isinstance(estimate, Estimate):  # pragma: no cover - told for the type checker
        raise TypeError
    style, script = plain("report/style.css"), plain("report/report.js")
    carried, left_out = carried_json(result)
    lanes = timeline_chart(study, estimate, run)
    values: dict[str, Any] = {
        "style": style,
        "script": script,
        "style_hash": digest(style),
        "script_hash": digest(script),
        "element_id": ELEMENT_ID,
        "carried": carried,
        "left_out": left_out,
        "run": run is not None,
        "bar": verdict_bar(estimate, run),
        "map": route_map(estimate, run),
        "comparisons": comparisons(estimate, run),
        "timeline": lanes,
        "memory": memory_charts(study.memory, estimate),
        "reasons": reasons(estimate),
        "sensitivity": sensitivity(estimate, study.sensitivity),
        "samples": sample_plots(run) if run is not None else None,
        "coefficients": coefficients(estimate),
        "sources": source_rows(estimate),
        "environment": environment_facts(run) if run is not None else [],
        "plan": plan_text(estimate),
        "remarks": study.remarks,
        "planner": result.planner,
    }
    return fill(_PAGE, **values)
