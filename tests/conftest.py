"""Options, fixtures and isolation for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.golden import Golden

# Transcripts are as wide as a report is designed for, whatever terminal the tests run in.
TERMINAL_COLUMNS = "100"

# A busy computer is no fault of the code, so no example has a time limit. `make test` looks at the
# same examples every time; a bare `pytest` looks for new ones.
settings.register_profile("new", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("new")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the transcripts under tests/golden instead of comparing with them",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a transcript: `golden.check("errors/units.txt", text)`."""
    return Golden(update=bool(request.config.getoption("--update-golden")))


@pytest.fixture(scope="session", autouse=True)
def _isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the reader's calibrations and history out of the tests, and the tests out of them.

    The environment also holds for commands that tests start. A terminal of fixed width without
    colour makes texts equal everywhere; a test of colour sets its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANNER_CACHE_DIR", str(tmp_path_factory.mktemp("planner-cache")))
        patch.setenv("PLANNER_STATE_DIR", str(tmp_path_factory.mktemp("planner-state")))
        patch.setenv("COLUMNS", TERMINAL_COLUMNS)
        patch.setenv("NO_COLOR", "1")
        for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONWARNINGS"):
            patch.delenv(name, raising=False)
        yield
