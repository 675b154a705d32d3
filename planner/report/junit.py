"""Results as JUnit XML, which the test panes of CI services read.

One test case an objective; for a run also the data and the prediction, where they were judged; for
a comparison one a metric held against `--fail-above`. A suite fails exactly where the exit code is
not 0, for both come from the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

from planner.report.words import margin_words, quantity
from planner.results import Estimate, ObjectiveResult, Run, VerdictPart
from planner.results.diff import Diff

# What XML 1.0 cannot hold in any spelling (section 2.2).
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CASES = {"intact": "data arrived intact", "prediction": "prediction within --max-error"}


class Case(NamedTuple):
    """A test case: its name, how it ended, and what is to be said of it."""

    name: str
    state: Literal["passed", "failed", "skipped"]
    kind: str
    message: str


def junit(result: Estimate | Run | Diff) -> str:
    """The XML of a result: one suite, named like the plan."""
    name, seconds = _about(result)
    cases = list(_cases(result))
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.state == "failed" for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.state == "skipped" for case in cases)),
        "time": f"{seconds:.6f}",
    }
    whole = {key: value for key, value in counts.items() if key != "skipped"}
    root = ET.Element("testsuites", {"name": "planner", **whole})
    suite = ET.SubElement(root, "testsuite", {"name": _clean(name), **counts})
    for case in cases:
        _add(suite, case, name)
    ET.SubElement(suite, "system-out").text = _clean(result.verdict.sentence)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def _about(result: Estimate | Run | Diff) -> tuple[str, float]:
    """The plan's name, and the seconds that the suite stands for."""
    if isinstance(result, Diff):
        return result.after.plan, result.makespan.after_s or 0.0
    plan = result.estimate.plan if isinstance(result, Run) else result.plan
    return str(plan.get("name", "plan")), result.makespan_s


def _add(suite: ET.Element, case: Case, plan: str) -> None:
    about = {"classname": _clean(f"planner.{plan}"), "name": _clean(case.name)}
    element = ET.SubElement(suite, "testcase", about)
    message = _clean(case.message)
    if case.state == "failed":
        failure = ET.SubElement(element, "failure", {"message": message, "type": case.kind})
        failure.text = message
    elif case.state == "skipped":
        ET.SubElement(element, "skipped", {"message": message})


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _cases(result: Estimate | Run | Diff) -> Iterator[Case]:
    yield from _judged(result.verdict.parts)
    if not isinstance(result, Diff):
        yield from map(_objective, result.objectives)
        return
    yield from (_objective(change.after) for change in result.objectives if change.after)
    for gate in result.gates:
        state: Literal["passed", "failed"] = "passed" if gate.passed else "failed"
        name = f"{gate.metric} not slower by more than {result.fail_above}"
        yield Case(name, state, "regression", gate.sentence)


def _judged(parts: tuple[VerdictPart, ...]) -> Iterator[Case]:
    """What the verdict says beside the objectives and the gates, which have cases of their own."""
    for part in parts:
        if part.about in _CASES:
            state: Literal["passed", "failed"] = "failed" if part.exit_code else "passed"
            yield Case(_CASES[part.about], state, part.about, part.sentence)


def _objective(objective: ObjectiveResult) -> Case:
    if objective.passed is None or objective.value is None:
        return Case(objective.text, "skipped", "objective", "not known to this result")
    value = quantity(objective.value, objective.unit)
    said = ", ".join(text for text in (value, margin_words(objective)) if text)
    state: Literal["passed", "failed"] = "passed" if objective.passed else "failed"
    return Case(objective.text, state, "objective", f"{objective.text}: {said}")
