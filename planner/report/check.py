"""The page of a check: what was read, and that nothing is wrong with it."""

from __future__ import annotations

from planner.machine.replicate import members
from planner.machine.schema import Machine
from planner.report.estimate import closing
from planner.report.style import Style
from planner.report.table import Column, table
from planner.results import CheckResult
from planner.units import format_size
from planner.wording import counted


def check_text(result: CheckResult, style: Style, *, saved: str | None = None) -> str:
    """One line a plan: its name, machine, and what it moves; one a machine file: what it has."""
    rows = []
    for plan in result.plans:
        flows = plan.get("flows", {})
        sizes = [flow.get("size") for flow in flows.values()]
        total = sum(size for size in sizes if isinstance(size, int))
        count = len(plan.get("objectives", ()))
        rows.append(
            [
                str(plan.get("source_file") or plan.get("name", "plan")),
                f"on {plan.get('machine', 'here')}",
                "1 flow" if len(flows) == 1 else f"{len(flows)} flows",
                format_size(total) if total else "",
                "1 objective" if count == 1 else f"{count} objectives",
            ]
        )
    for one in result.machines:
        machine = Machine.model_validate(one.machine)
        count = sum(members(machine, name) for name in machine.nodes)
        rows.append([one.file, f"machine {machine.name}", counted(count, "node"), "", ""])
    columns = [Column(""), Column(""), Column(""), Column("", right=True), Column("", give_way=1)]
    lines = table(columns, rows, style, indent=2)
    lines += ["", closing(result.verdict.sentence, result.verdict.passed, saved, style)]
    return "\n".join(lines) + "\n"
