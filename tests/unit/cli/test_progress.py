"""Progress: lines for a log, bars for a terminal, nothing where nothing is wanted."""

from __future__ import annotations

import io
import sys

import pytest

from planner.cli.console import Console, Manners
from planner.cli.progress import LineProgress, Sample, progress_on


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def console(stream: io.StringIO, *, quiet: bool = False, progress: bool = True) -> Console:
    manners = Manners(quiet=quiet, progress=progress, width=120)
    return Console(manners, stdout=io.StringIO(), stderr=stream)


def test_a_log_has_one_line_at_the_start_and_one_at_the_end_of_a_flow() -> None:
    stream = io.StringIO()
    with progress_on(console(stream)) as progress:
        assert progress is not None
        for seconds in (2.2, 2.1, 2.1):
            progress.start("weights", 14 * 10**9, 2.06)
            progress.advance("weights", 10**9)
            progress.finish("weights", seconds)
    assert stream.getvalue().splitlines() == [
        "weights: 14 GB, 2.060 s predicted",
        "weights: done, 3 runs of 2.100 s - 2.200 s",  # a stream without UTF-8 gets ASCII
    ]


def test_notes_are_lines_of_their_own() -> None:
    stream = io.StringIO()
    LineProgress(console(stream)).note("writing the scratch file")
    assert stream.getvalue() == "writing the scratch file\n"


@pytest.mark.parametrize(("quiet", "progress"), [(True, True), (False, False)])
def test_quiet_and_no_progress_show_nothing(quiet: bool, progress: bool) -> None:
    stream = Terminal()
    with progress_on(console(stream, quiet=quiet, progress=progress)) as found:
        assert found is None
    assert stream.getvalue() == ""


def test_bars_are_for_terminals_and_never_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert console(Terminal()).live
    assert not console(io.StringIO()).live
    monkeypatch.setenv("CI", "true")
    assert not console(Terminal()).live


def test_a_bar_shows_bytes_rate_and_the_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.cli import live

    monkeypatch.delenv("CI", raising=False)
    now = [100.0]
    stream = Terminal()
    with live.live_progress(console(stream)) as progress:
        progress._clock = lambda: now[0]
        progress.note("writing [red]the[/red] scratch file")
        progress.start("weights", 14 * 10**9, 2.0)
        now[0] = 101.0
        progress.advance("weights", 6 * 10**9)
    drawn = stream.getvalue()
    assert "writing [red]the[/red] scratch file" in drawn
    assert "6 GB / 14 GB" in drawn
    assert "6 GB/s" in drawn
    # 6 of 14 GB in 1 s: all in 2.333 s, 17 % over 2 s.
    assert "1.000 s of 2.000 s predicted +17%" in drawn


@pytest.mark.parametrize(
    ("done", "now", "text"),
    [
        (0, 1.0, "1.000 s of 2.000 s predicted"),
        (19, 1.0, "1.000 s of 2.000 s predicted"),  # 1.9 %: too early
        (500, 1.0, "1.000 s of 2.000 s predicted +0%"),
        (500, 0.9, "900.0 ms of 2.000 s predicted -10%"),
    ],
)
def test_the_forecast_waits_for_two_per_cent(done: int, now: float, text: str) -> None:
    assert Sample(1000, 2.0, 0.0, done).against_prediction(now) == text


def test_a_flow_of_no_bytes_is_no_division() -> None:
    sample = Sample(0, 0.0, 1.0)
    assert sample.rate(1.0) == ""
    assert sample.against_prediction(1.0) == "0 s of 0 s predicted"


def test_lines_do_not_load_the_library_that_draws() -> None:
    # In a process of its own it is also seen by tests/test_startup.py, for `estimate`.
    before = "rich.progress" in sys.modules
    with progress_on(console(io.StringIO())):
        assert ("rich.progress" in sys.modules) == before
