"""The two sides of a comparison, from any file that holds one: JSON, our report, a plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from planner.arguments import factor
from planner.errors import InputError
from planner.files import is_given, read_bytes
from planner.results import FORMATS, Estimate, Run
from planner.results.diff import Diff
from planner.review.compare import compare
from planner.review.embedded import embedded, no_result_in
from planner.review.gate import Limit, parse_limit
from planner.review.not_json import not_json, read_json
from planner.units import UnitError

if TYPE_CHECKING:
    from planner.engine.progress import Progress

_KINDS: Final[dict[str, type[Estimate | Run]]] = {
    "planner.estimate/1": Estimate,
    "planner.run/1": Run,
}
_WANTED: Final = "a plan (YAML), an estimate or a run (JSON), or a report of one (HTML)"


def diff(
    before: Estimate | Run | str | os.PathLike[str],
    after: Estimate | Run | str | os.PathLike[str],
    *,
    fail_above: str | None = None,
    max_error: float | None = None,
    progress: Progress | None = None,
) -> Diff:
    """What changed from `before` to `after`: times, schedule, machine, memory, objectives.

    Parameters
    ----------
    before, after
        results, or files: a saved estimate or run, a report of one, or a plan, which is estimated.
    fail_above
        `5%` or `100ms`: the verdict fails if a flow or the makespan becomes slower by more, and by
        more than the noise of the samples.
    max_error
        a factor from 1 up: the verdict fails if `after`, a run, was predicted worse.
    progress
        told of the calibration that a plan for this computer may need.

    Raises
    ------
    InputError
        a file is missing, damaged, none of ours, of a newer format, or the two share no flow; or
        `fail_above` is no limit.
    """
    limit: Limit | None = None
    if max_error is not None:
        factor("max_error", max_error)
    if fail_above is not None:
        try:
            limit = parse_limit(str(fail_above))
        except UnitError as error:
            raise InputError(f"fail_above: {error}") from error
    sides, labels = [], []
    for name, given in (("A", before), ("B", after)):
        is_result = isinstance(given, Estimate | Run)
        sides.append(given if isinstance(given, Estimate | Run) else read_side(given, progress))
        labels.append(name if is_result else os.fspath(given))  # type: ignore[arg-type]
    return compare(
        sides[0],
        sides[1],
        labels=(labels[0], labels[1]),
        fail_above=limit,
        max_error=max_error,
    )


def read_side(path: str | os.PathLike[str], progress: Progress | None = None) -> Estimate | Run:
    """The result in the file at `path`; a plan is estimated.

    Raises `InputError` for a file that is missing, damaged, of a newer format or none of ours.
    """
    text = _text(path)
    start = text.lstrip()[:1]
    if start == "<":
        return result_of(_embedded(text, path), path)
    if start in ("{", "[") and not _is_yaml(path):
        return result_of(text, path)
    from planner.review.answers import estimate

    if is_given(path):  # a pipe, which cannot be read twice
        from planner.plan.load import loads_plan

        return estimate(loads_plan(text, str(path)).plan, progress=progress)
    return estimate(path, progress=progress)


def result_of(text: str, path: str | os.PathLike[str]) -> Estimate | Run:
    """The result that the JSON `text` states; errors call it `path`."""
    try:
        body = read_json(text)
    except (ValueError, RecursionError) as error:
        raise not_json(path, text, error, hint=f"what can be read is {_WANTED}") from error
    name = str(body.get("format", "")) if isinstance(body, dict) else ""
    kind = _KINDS.get(name)
    if kind is None:
        raise _refused(name, path)
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{path} is damaged: {where}: {first['msg']}",
            hint="make it again: planner estimate or execute PLAN -o FILE",
        ) from error


def _refused(name: str, path: str | os.PathLike[str]) -> InputError:
    """Why a file with the format `name` cannot stand on a side."""
    if name in FORMATS:
        hint = "compare what it was made from: plans, estimates or runs"
        return InputError(f"{path} is a {name}, which cannot be compared", hint=hint)
    family = name.partition("/")[0]
    if family in {known.partition("/")[0] for known in FORMATS}:
        known = ", ".join(_KINDS)
        hint = f"this planner reads {known}: use the version that made the file"
        return InputError(
            f"{path} has the format {name}, which this planner does not know", hint=hint
        )
    return InputError(f"{path} is no result of planner", hint=f"give {_WANTED}")


def _text(path: str | os.PathLike[str]) -> str:
    """The text of the file; a plan's own reader complains again of what is no UTF-8."""
    try:
        raw = read_bytes(path)
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise InputError(f"cannot read {path}: {reason}", hint=f"give {_WANTED}") from error
    return raw.decode("utf-8", errors="replace").removeprefix("\ufeff")


def _is_yaml(path: str | os.PathLike[str]) -> bool:
    """A plan may begin with a brace as well; its name says so."""
    return not is_given(path) and Path(path).suffix in (".yaml", ".yml")


def _embedded(text: str, path: str | os.PathLike[str]) -> str:
    """The JSON that a report carries."""
    found = embedded(text)
    if found is None:
        raise no_result_in(path, text)
    return found
