"""Memory that a test leaves behind: kept at a first use, or leaking; told by a second run."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.helpers import first_use
from tests.helpers.first_use import SLACK

# By test: what is missing after its first run, and after later ones.
missing = {
    "test_clean": (SLACK, SLACK),
    "test_first": (SLACK + 1, 0),
    "test_leaks": (9 * SLACK, 9 * SLACK),
    "test_slow": (SLACK + 1, 0),
    "test_slow_and_large": (first_use.ONCE + 1, 0),
    "test_fails": (SLACK + 1, SLACK + 1),
}
runs = {}

def pytest_runtest_protocol(item, nextitem):
    first_use.run(item, nextitem)
    return True

def pytest_terminal_summary(terminalreporter, config):
    for line in first_use.told(config):
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"runs: {runs}")

@pytest.fixture(autouse=True)
def nothing_stays(request):
    name = request.node.name
    runs[name] = runs.get(name, 0) + 1
    yield
    left = missing[name][runs[name] > 1]
    slow = first_use.SLOW_S + 1 if "slow" in name else 0.0
    first_use.judge(request.node, [0, left], slow)
"""
TESTS = """
def test_clean(): pass
def test_first(): pass
def test_leaks(): pass
def test_slow(): pass
def test_slow_and_large(): pass
def test_fails(): assert False
"""


def test_only_what_is_missing_again_is_a_leak(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-p", "no:randomly", "-p", "no:cacheprovider")
    # All pass but the one that fails; two have an error at their end.
    result.assert_outcomes(passed=5, failed=1, errors=2)
    lines = result.stdout.str()
    assert "after a second run, too" in lines
    assert "test_first: [0, 4194305] bytes by device after its first run, but not its" in lines
    assert "test_slow: bytes still allocated by device: [0, 4194305]; it is too slow" in lines
    runs = {"clean": 1, "first": 2, "leaks": 2, "slow": 1, "slow_and_large": 1, "fails": 1}
    assert f"runs: { {f'test_{name}': count for name, count in runs.items()} }" in lines
