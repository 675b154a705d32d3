"""JUnit XML: the elements and attributes that CI panes read, and counts that agree."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from planner.report.junit import junit
from planner.results import Estimate, Run
from planner.results.diff import Diff
from planner.review.compare import compare
from planner.review.gate import parse_limit
from planner.review.verdict import run_verdict
from tests.helpers import results, sides

# The schema that Jenkins, GitLab and the GitHub actions share: element -> attributes (those that
# must be there first), and the elements inside.
SCHEMA = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": ({"name", "classname"}, {"time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set(), set()),
    "skipped": ({"message"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def parsed(result: Estimate | Run | Diff) -> ET.Element:
    """The suite of the result, after a check of the whole against the schema."""
    root = ET.fromstring(junit(result).encode())  # noqa: S314 - our own
    _check(root)
    assert root.tag == "testsuites"
    (suite,) = root
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == int(root.attrib["tests"]) == len(cases)
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[count]) == len(suite.findall(f"testcase/{tag}"))
    assert float(suite.attrib["time"]) > 0
    return suite


def _check(element: ET.Element) -> None:
    must, may, inside = SCHEMA[element.tag]
    assert must <= set(element.attrib) <= must | may
    for child in element:
        assert child.tag in inside
        _check(child)


def ends(suite: ET.Element) -> dict[str, str]:
    """How each test case ended."""
    return {
        case.attrib["name"]: case[0].tag if len(case) else "passed"
        for case in suite.findall("testcase")
    }


def test_every_objective_is_a_test_case() -> None:
    missed = results.objective(passed=False, text="weights.first <= 1s", limit=1.0)
    unknown = results.objective(passed=None, text="weights.p95 <= 1s")
    suite = parsed(results.estimate(objectives=(results.objective(), missed, unknown)))
    assert ends(suite) == {
        "weights.duration <= 2.5s": "passed",
        "weights.first <= 1s": "failure",
        "weights.p95 <= 1s": "skipped",
    }
    # 2.06 s for a limit of 1 s is 106 % over.
    message = suite.findall("testcase/failure")[0].attrib["message"]
    assert message == "weights.first <= 1s: 2.060 s, 106.0 % over"


def test_a_run_tells_of_its_data_and_its_prediction() -> None:
    flows = [results.flow_run(factor=2.0, verified=False)]
    verdict = run_verdict([], flows, error_factor=2.0, max_error=1.2)
    suite = parsed(results.run(*flows, objectives=(), verdict=verdict))
    assert ends(suite) == {
        "data arrived intact": "failure",
        "prediction within --max-error": "failure",
    }
    assert "off by 2.00x" in suite.findall("testcase/failure")[1].attrib["message"]


@pytest.mark.parametrize(("factor", "end"), [(1.0, "passed"), (2.0, "failure")])
def test_a_gate_is_a_test_case(factor: float, end: str) -> None:
    diff = compare(sides.estimate(), sides.estimate(factor), fail_above=parse_limit("5%"))
    assert ends(parsed(diff)) == {"weights.duration not slower by more than 5%": end}


def test_characters_that_xml_lacks_are_replaced() -> None:
    odd = results.objective(text="weights\x01.duration <= 1s & <more>")
    (name,) = ends(parsed(results.estimate(objectives=(odd,))))
    assert name == "weights\ufffd.duration <= 1s & <more>"
