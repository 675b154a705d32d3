"""The page of `planner doctor`: what was found, the worst first, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.report.estimate import closing
from planner.report.style import Style, Tone
from planner.report.table import prose
from planner.results.doctor import Cost, Doctor, Finding, Level, Outcome
from planner.units import format_rate, format_size, format_time

# ASCII: a cross is spelled "no" where there is none, and "no problem" says the opposite.
_MARKS: Final[dict[Level, tuple[str, Tone]]] = {
    "problem": ("!! problem", "bad"),
    "warning": ("!  warning", "warn"),
    "note": ("-  note", "plain"),
    "unknown": ("?  unknown", "dim"),
}


def doctor_text(doctor: Doctor, style: Style, *, saved: str | None = None) -> str:
    """The whole page."""
    where = f" ({doctor.host})" if doctor.host else ""
    when = f"   calibrated {doctor.calibrated[:10]}" if doctor.calibrated else "   not measured"
    head = f"{doctor.machine}{where}"
    lines = [style.paint(style.spell(head), "strong") + when, ""]
    for finding in doctor.findings:
        if finding.level != "unknown":
            lines += [*_finding(finding, style), ""]
    blind = [finding for finding in doctor.findings if finding.level == "unknown"]
    for finding in blind:
        mark, tone = _MARKS["unknown"]
        text = f"{mark}  {finding.check}: {finding.seen}"
        lines += [style.paint(line, tone) for line in prose(text, style, hang=4)]
    quiet: tuple[tuple[Outcome, str], ...] = (("fine", "fine"), ("absent", "nothing to look at"))
    for outcome, word in quiet:
        checks = [check.check for check in doctor.checks if check.outcome == outcome]
        if checks:
            lines += prose(f"{word}: {', '.join(checks)}", style, hang=4)
    if lines[-1]:
        lines.append("")
    lines.append(closing(doctor.verdict.sentence, doctor.verdict.passed, saved, style))
    return "\n".join(lines) + "\n"


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    mark, tone = _MARKS[finding.level]
    first, *more = prose(
        f"{mark}  {finding.about}: {finding.seen} [{finding.check}]", style, hang=4
    )
    word = style.spell(mark)
    yield first.replace(word, style.paint(word, tone), 1)
    yield from more
    if finding.cost is not None:
        yield from prose(cost_words(finding.cost), style, indent=6, hang=2)
    if finding.why:
        yield from prose(f"why: {finding.why}", style, indent=6, hang=2)
    if finding.mend:
        yield from prose(f"mend: {finding.mend}", style, indent=6, hang=2)


def cost_words(cost: Cost) -> str:
    """`10 GB host0 → gpu0 take 806.5 ms instead of 182.5 ms (12.4 GB/s, could be 54.8 GB/s)`."""
    return (
        f"costs: {format_size(cost.size_bytes)} {cost.what} take {format_time(cost.now_s)} instead "
        f"of {format_time(cost.could_s)} ({format_rate(cost.now_bytes_per_s)}, could be "
        f"{format_rate(cost.could_bytes_per_s)})"
    )
