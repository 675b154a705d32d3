"""Examine a computer and its calibration: `planner doctor`.

Each check is a pure function of what was seen. One that cannot look says why, and one that fails
is an unknown too: an examination never ends early.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from planner._version import VERSION
from planner.arguments import texts
from planner.errors import ExitCode, InputError
from planner.machine.observation import Calibration, Observation
from planner.machine.schema import Machine
from planner.results import Verdict
from planner.results.doctor import Checked, Doctor, Finding, Level, Outcome
from planner.review.checks import calibration, cuda, disk, host, links
from planner.review.checks.base import CannotTellError, Check, NothingThereError, found
from planner.review.inputs import HERE

CHECKS: Final = (
    Check("pcie", "PCIe links run at their maximum", links.pcie, computer=False),
    Check("rate", "links carry what their standard allows", links.rate, computer=False),
    Check("peer", "GPUs reach each other's memory", links.peer, computer=False),
    Check("nvlink", "all NVLinks are up", links.nvlink),
    Check("cuda", "driver, CUDA and CuPy go together", cuda.cuda),
    Check("gpu-memory", "GPU memory is free", cuda.gpu_memory),
    Check("gpu-health", "GPUs have no errors and full clocks", cuda.gpu_health),
    Check("cores", "all cores may be used", host.cores),
    Check("memory", "all memory may be used", host.memory),
    Check("memlock", "memory may be locked", host.memlock),
    Check("numa", "cores and memory near the GPUs may be used", host.numa),
    Check("hugepages", "huge pages may be used", host.hugepages),
    Check("swap", "nothing is swapped out", host.swap),
    Check("scratch", "scratch files have a disk", disk.scratch),
    Check("gds", "GPUs can read files directly", disk.gds),
    Check("virtual", "neither hypervisor nor IOMMU is in the way", host.virtual),
    Check("calibration", "the calibration holds", calibration.calibration, computer=False),
)
"""Every check, in the order of its page."""

_ORDER: Final[tuple[Level, ...]] = ("problem", "warning", "note", "unknown")


def doctor(machine: Machine | str = HERE, *, only: Sequence[str] = ()) -> Doctor:
    """What is wrong with this computer and its calibration; nothing is measured or changed.

    Parameters
    ----------
    machine
        `here`; or a machine, a catalogue name or a file, of which only what it says is examined.
    only
        words of the checks to make, or a part of them (`gpu`); all where it is empty.

    Raises
    ------
    InputError
        there is no such check, or no such machine: a `MachineError`.
    """
    texts("only", only)
    chosen_checks(only)  # before anything takes time
    if isinstance(machine, str) and machine == HERE:
        from planner.engine.observe import observe

        return examine(observe(), only=only)
    if isinstance(machine, str):
        from planner.machine.load import load_machine

        machine = load_machine(machine)
    now = datetime.now(tz=UTC).timestamp()
    return examine(file_seen(machine, now), only=only)


def file_seen(machine: Machine, now_s: float) -> Observation:
    """What a machine file says, as if it were a calibration of its date."""
    return Observation(
        name=machine.name,
        host="",
        now_s=now_s,
        computer=False,
        calibration=Calibration(machine, _made(machine, now_s)),
    )


def _is_measured(machine: Machine) -> bool:
    return any(source.kind == "measured" for source in machine.sources.values())


def _made(machine: Machine, now_s: float) -> float:
    """When its newest measurement was made; now where that is no date."""
    dates = []
    for source in machine.sources.values():
        try:
            day = datetime.fromisoformat(source.when).replace(tzinfo=UTC)
        except ValueError:
            continue
        if source.kind == "measured":
            dates.append(day.timestamp())
    return max(dates, default=now_s)


def chosen_checks(only: Sequence[str]) -> list[Check]:
    """The checks that the words name; raises `InputError` for a word that names none."""
    words = [check.word for check in CHECKS]
    for word in only:
        if not any(_named(check.word, word) for check in CHECKS):
            near = get_close_matches(word, words, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(words)}"
            raise InputError(f'there is no check "{word}"', hint=hint)
    return [c for c in CHECKS if not only or any(_named(c.word, word) for word in only)]


def _named(word: str, asked: str) -> bool:
    """Whether a word is asked for, whole or by one of its parts."""
    return asked == word or asked in word.split("-")


def examine(seen: Observation, *, only: Sequence[str] = ()) -> Doctor:
    """What the checks find in what was seen; pure."""
    checks: list[Checked] = []
    findings: list[Finding] = []
    for check in chosen_checks(only):
        if check.computer and not seen.computer:
            continue
        own, outcome = _run(check, seen)
        findings += own
        checks.append(Checked(check=check.word, title=check.title, outcome=outcome))
    findings.sort(key=_rank)
    kept = seen.calibration
    return Doctor(
        planner=VERSION,
        machine=seen.name,
        host=seen.host,
        date=_day(seen.now_s),
        calibrated=_day(kept.at_s) if kept is not None and _is_measured(kept.machine) else None,
        checks=tuple(checks),
        findings=tuple(findings),
        verdict=_verdict(findings, len(checks)),
    )


def _run(check: Check, seen: Observation) -> tuple[list[Finding], Outcome]:
    """The findings of one check, of which the last is what kept it from looking."""
    own: list[Finding] = []
    try:
        own.extend(check.rule(seen))  # what was found before an error stays
    except NothingThereError:
        return own, "found" if own else "absent"
    except CannotTellError as error:
        own.append(found("unknown", check.word, str(error)))
    except Exception as error:  # noqa: BLE001 - a check that fails must not hide the others
        told = f"the check failed: {type(error).__name__}: {error}".split("\n", 1)[0]
        own.append(found("unknown", check.word, told, mend="please report it"))
    own = [finding.model_copy(update={"check": check.word}) for finding in own]
    levels = {finding.level for finding in own}
    return own, "fine" if not levels else "unknown" if levels == {"unknown"} else "found"


def _rank(finding: Finding) -> tuple[int, float]:
    """The worst first: by level, then by how many times slower it makes something."""
    cost = finding.cost
    return _ORDER.index(finding.level), -(cost.now_s / cost.could_s) if cost is not None else 0.0


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")


def _verdict(findings: Sequence[Finding], checks: int) -> Verdict:
    """Problems and warnings fail; notes do not, nor does what could not be looked at."""
    count = {level: sum(f.level == level for f in findings) for level in _ORDER}
    told = [
        f"{number} {level}{'' if number == 1 else 's'}"
        for level, number in count.items()
        if number and level != "unknown"
    ]
    failed = bool(count["problem"] + count["warning"])
    sentence = f"{', '.join(told)}." if told else f"{checks} checks found nothing."
    blind = count["unknown"]
    if blind:
        sentence += f" {blind} check{'' if blind == 1 else 's'} could not look."
    code = ExitCode.OBJECTIVE if failed else ExitCode.DONE
    return Verdict(passed=not failed, exit_code=int(code), sentence=sentence)
