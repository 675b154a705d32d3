"""The page of a comparison: what it shows first, what it leaves out, and how narrow it may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.machine.schema import Machine
from planner.quantities import RATE_PATTERN, SIZE_PATTERN, TIME_PATTERN
from planner.report.change_words import value_words
from planner.report.diff import MOST, diff_text
from planner.report.style import Style
from planner.results import Estimate
from planner.results.diff import Diff
from planner.review.compare import compare
from tests.helpers import results, sides


def with_rate(made: Estimate, rate: float) -> Estimate:
    """The estimate on a machine with a long name of a key that differs."""
    curves = {"a_rather_long_name_of_a_curve": {"rate": rate, "points": [rate], "source": "x"}}
    links = {**made.machine["links"], "pcie0": {"forward": {"curves": curves}}}
    return made.model_copy(update={"machine": {**made.machine, "links": links}})


def page(diff: Diff, width: int = 100) -> list[str]:
    return diff_text(diff, Style(width=width)).splitlines()


@pytest.mark.parametrize("width", [44, 60, 100])
def test_the_page_keeps_its_width(width: int) -> None:
    # A rate that no line of 60 columns could hold beside its path.
    diff = compare(with_rate(sides.estimate(), 25e9), with_rate(sides.estimate(0.5), 50e9))
    path = "links.pcie0.forward.curves.a_rather_long_name_of_a_curve.rate"
    lines = page(diff, width)
    # The last line is whole, for those who search for it.
    assert all(len(line) <= width for line in lines[:-1])
    # The path goes on below itself, in its own column, and the change stands beside its beginning.
    start = next(k for k, line in enumerate(lines) if "machine links" in line)
    end = next(k for k, line in enumerate(lines) if "bottleneck" in line)
    column = [line[5:].split("  ")[0] for line in lines[start:end]]
    assert "".join(column) == f"machine {path}"
    assert lines[start].endswith("  25 GB/s → 50 GB/s")


def test_the_points_of_a_curve_go_without_saying_beside_its_rate() -> None:
    diff = compare(with_rate(sides.estimate(), 25e9), with_rate(sides.estimate(), 50e9))
    assert [d.path.rpartition(".")[2] for d in diff.machine] == ["rate", "points"]
    assert not [line for line in page(diff) if "points" in line]


def test_flows_that_changed_come_before_those_that_did_not() -> None:
    flows = [results.flow_estimate(f"flow{k}") for k in range(MOST + 5)]
    last = flows[-1].model_copy(update={"duration_s": 9.0})
    diff = compare(results.estimate(*flows), results.estimate(*flows[:-1], last))
    lines = page(diff)
    times = [line.split()[0] for line in lines if line.startswith("  flow")]
    assert times[:2] == [f"flow{MOST + 4}", "flow0"]
    # MOST flows are shown: 5 of the 17 are not.
    assert any("and 5 more flows" in line for line in lines)


def test_a_change_too_small_for_its_digits_claims_no_number() -> None:
    diff = compare(sides.estimate(), sides.estimate(1.0001))
    row = next(line for line in page(diff) if line.startswith("  weights"))
    # 0.01 % rounds to 0.0 %, and 1.0001 to 1.000.
    assert row.endswith("slightly slower")
    assert "%" not in row


def _patterns(schema: object) -> Iterator[str]:
    """The patterns of a field, those of its items left out."""
    if isinstance(schema, list):
        for item in schema:
            yield from _patterns(item)
    elif isinstance(schema, dict) and schema.get("type") != "array":
        if "pattern" in schema:
            yield schema["pattern"]
        yield from _patterns(schema.get("anyOf", []))


def _fields() -> Iterator[tuple[str, str]]:
    """The key and the pattern of every quantity that a machine has."""
    quantities = {TIME_PATTERN, RATE_PATTERN, SIZE_PATTERN}
    for kind, definition in Machine.model_json_schema()["$defs"].items():
        for key, field in definition.get("properties", {}).items():
            for pattern in quantities.intersection(_patterns(field)):
                yield f"{kind.lower()}.{key}", pattern


@pytest.mark.parametrize(("path", "pattern"), sorted(_fields()))
def test_a_figure_of_a_machine_has_its_unit(path: str, pattern: str) -> None:
    value, told = {
        TIME_PATTERN: (1.5e-3, "1.500 ms"),
        RATE_PATTERN: (1.5e9, "1.5 GB/s"),
        SIZE_PATTERN: (1_500_000_000, "1.5 GB"),
    }[pattern]
    assert value_words(f"nodes.x.{path}", value) == told


def test_each_number_of_a_list_has_its_unit() -> None:
    assert value_words("nodes.host0.copy.file.rings", "16777216, 1073741824") == "16 MiB, 1 GiB"
    readers = "links.storage0.forward.curves.direct.readers.requests"
    assert value_words(readers, "262144, 1048576") == "256 KiB, 1 MiB"
    assert value_words("nodes.host0.copy.file.lead", "0.0001, 0.002") == "100.0 µs, 2.000 ms"
    assert value_words("nodes.host0.copy.file.rings", "12 entries") == "12 entries"
    # Requests of a direction are a count.
    assert value_words("links.storage0.forward.requests", 100000) == "100000"


def test_counts_have_none() -> None:
    """Threads of a hop and the time to start them have the same key."""
    assert value_words("flows.w.workers", 8) == "8"
    assert value_words("nodes.host0.setup.workers", 0.003) == "3.000 ms"
