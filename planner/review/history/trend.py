"""What the history answers: every trend that was asked for, its drift, and the latest runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final

from planner._version import VERSION
from planner.errors import ExitCode, InputError
from planner.results.history import Day, Drift, History, KeptRun, Trend
from planner.results.judged import Verdict, VerdictPart
from planner.review.history.database import history_file
from planner.review.history.days import DayRow, days_of
from planner.review.history.drift import last_change
from planner.review.history.sound import LARGEST, count as number, figure, moment, sound, text
from planner.review.history.store import DAY_S, Store, Which
from planner.review.verdict import verdict_of as joined

_EPOCH: Final = date(1970, 1, 1)
_SERIES: Final = "id, kind, plan, content, machine, backend, flow, link, start, finish, strategy"


def history(which: Which | None = None, *, latest: int = 5, fail_on_drift: bool = False) -> History:
    """The trends of the runs that are meant, the most recently run first.

    Parameters
    ----------
    which
        by plan, machine, link and time; everything if `None`. A link is named as in the machine
        file (`pcie0`) or by its ends (`host0->gpu0`).
    latest
        how many of the latest runs to list.
    fail_on_drift
        whether a drift for the worse fails the verdict, with exit code 11.

    Raises
    ------
    InputError
        the history is damaged, or none of its runs is of that plan, machine or link.
    ExecutionError
        it cannot be read.
    """
    asked = which or Which()
    if not history_file().exists():
        return _empty()
    with Store.open() as store:
        if not store.count():
            return _empty()
        series = chosen(store, asked)
        first = int((asked.since_s or 0.0) // DAY_S)
        found = days_of(store.connection, [row[0] for row in series], first)
        about = {row[0]: row for row in series}
        trends = [
            _trend(about[series_id], list(days))
            for series_id, days in groupby(found, key=lambda row: row.series)
        ]
        trends.sort(key=lambda trend: trend.days[-1].date, reverse=True)
        return History(
            planner=VERSION,
            database=str(store.path),
            runs=store.count(replace(asked, link=None)),
            trends=tuple(trends),
            latest=tuple(_latest(store, asked, latest)),
            verdict=verdict_of(trends, fail_on_drift=fail_on_drift),
        )


def _empty() -> History:
    """The answer before the first run: a gate passes, as nothing has drifted."""
    sentence = "No run is kept yet: `planner execute PLAN` keeps one."
    return History(
        planner=VERSION,
        database=str(history_file()),
        runs=0,
        trends=(),
        latest=(),
        verdict=joined([VerdictPart(about="summary", sentence=sentence)]),
    )


def verdict_of(trends: Sequence[Trend], *, fail_on_drift: bool) -> Verdict:
    """The closing sentence and the exit code of these trends."""
    worse = sum(1 for trend in trends if trend.drift is not None and trend.drift.worse)
    count = "1 trend" if len(trends) == 1 else f"{len(trends)} trends"
    if not worse:
        return joined([VerdictPart(about="regression", sentence=f"No drift in {count}.")])
    code = int(ExitCode.REGRESSION if fail_on_drift else ExitCode.DONE)
    sentence = f"{worse} of {count} drifted for the worse."
    return joined([VerdictPart(about="regression", sentence=sentence, exit_code=code)])


def chosen(store: Store, which: Which) -> list[tuple[Any, ...]]:
    """The rows of the series that are meant: id, kind, plan, content, machine, backend, and a hop.

    Raises `InputError` where a name that was asked for is nowhere in the history.
    """
    series = [row for row in _series(store, which) if _crosses(row, which.link)]
    _require_some(store, which, series)
    return series


def _series(store: Store, which: Which) -> list[tuple[Any, ...]]:
    conditions = {"plan = ?": which.plan, "machine = ?": which.machine}
    given = {text: value for text, value in conditions.items() if value is not None}
    condition = " AND ".join(given) or "1"
    statement = f"SELECT {_SERIES} FROM series WHERE {condition} ORDER BY id"  # noqa: S608
    rows = store.connection.execute(statement, list(given.values()))
    words = dict.fromkeys(_SERIES.split(", ")[1:], text)
    return list(sound(rows, "series", id=number, **words))


def _crosses(row: Sequence[Any], link: str | None) -> bool:
    """Whether the series is of that link, by its name, its direction or its ends."""
    if link is None:
        return True
    wanted = "".join(link.split()).replace("→", "->")
    name, start, end = row[7:10]
    return wanted in (name, name.split(".")[0], f"{start}->{end}") and row[1] == "link"


def _require_some(store: Store, which: Which, series: Sequence[Any]) -> None:
    """Raise `InputError` where a name that was asked for is nowhere in the history."""
    for what, given in (("plan", which.plan), ("machine", which.machine)):
        if given is None:
            continue
        statement = f"SELECT DISTINCT {what} FROM series"  # noqa: S608 - one of our two words
        names = [row[0] for row in store.connection.execute(statement)]
        if given not in names:
            near = get_close_matches(given, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(names))}"
            raise InputError(f'the history has no run of {what} "{given}"', hint=hint)
    if which.link is not None and not series:
        raise InputError(
            f'no run in the history crossed "{which.link}"',
            hint="name it as the machine file does (pcie0), or by its ends (host0->gpu0)",
        )


def _trend(row: Sequence[Any], days: Sequence[DayRow]) -> Trend:
    _, kind, plan, content, machine, backend, *rest = row
    flow, link, start, end, strategy = (text or None for text in rest)
    return Trend(
        kind=kind,
        plan=plan,
        content=content,
        machine=machine,
        backend=backend,
        flow=flow,
        link=link,
        start=start,
        end=end,
        strategy=strategy,
        unit="s" if kind == "plan" else "bytes_per_s",
        runs=sum(day.runs for day in days),
        days=tuple(
            Day(date=_date(day.day), runs=day.runs, predicted=day.predicted, measured=day.measured)
            for day in days
        ),
        # A virtual clock follows the model: it changes with it, and cannot drift.
        drift=None if backend == "null" else _drift(kind, days),
    )


def _drift(kind: str, days: Sequence[DayRow]) -> Drift | None:
    change = last_change([day.measured for day in days])
    if change is None:
        return None
    return Drift(
        since=_date(days[change.at].day),
        days=len(days) - change.at,
        before=change.before,
        after=change.after,
        change=change.share,
        worse=(change.share > 0) == (kind == "plan"),
        score=change.score,
    )


def _latest(store: Store, which: Which, count: int) -> Iterator[KeptRun]:
    condition, values = which.where()
    rows = store.connection.execute(
        "SELECT id, at_s, plan, content, machine, host, backend, predicted_s, measured_s,"  # noqa: S608
        f" exit_code, sentence FROM runs WHERE {condition} ORDER BY id DESC LIMIT ?",
        [*values, min(count, LARGEST)],
    )
    for row in sound(
        rows,
        "runs",
        id=number,
        at_s=moment,
        **dict.fromkeys(("plan", "content", "machine", "host", "backend"), text),
        predicted_s=figure,
        measured_s=figure,
        exit_code=number,
        sentence=text,
    ):
        yield KeptRun(
            id=row[0],
            date=datetime.fromtimestamp(row[1], tz=UTC).isoformat(timespec="seconds"),
            plan=row[2],
            content=row[3],
            machine=row[4],
            host=row[5],
            backend=row[6],
            predicted_s=row[7],
            measured_s=row[8],
            error_factor=row[8] / row[7] if row[7] > 0 else 1.0,
            exit_code=row[9],
            sentence=row[10],
        )


def _date(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).isoformat()
