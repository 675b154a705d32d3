"""What stands below the options in the help of a verb: examples, and the exit codes that it has."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[int, str]] = {
    0: "done, objectives met",
    1: "a bug in planner (-v shows the traceback)",
    2: "wrong usage",
    3: "a plan, machine, result or source file is wrong",
    4: "valid, but impossible: no route, or it does not fit",
    5: "this computer cannot run it: no device, no library",
    6: "execution failed, or the data did not arrive intact",
    10: "an objective was missed, or doctor found something",
    11: "a regression beyond --fail-above, or a drift",
    12: "the prediction was off by more than --max-error",
    130: "interrupted",
}
"""Every exit code with its meaning; the README has the same table."""

_ALWAYS: Final = (1, 2, 130)

_OF_VERB: Final[dict[str, tuple[int, ...]]] = {
    "check": (0, 3),
    "estimate": (0, 3, 4, 5, 10),
    "execute": (0, 3, 4, 5, 6, 10, 12),
    "diff": (0, 3, 6, 10, 11, 12),
    "sweep": (0, 3, 4, 5, 10),
    "calibrate": (0, 3, 4, 5, 6),
    "topo": (0, 3),
    "doctor": (0, 3, 10),
    "history": (0, 3, 6, 11),
    "report": (0, 3),
    "schema": (0, 3),
}

EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "check": (
        ("planner check plans/*.yaml", "every fault of all plans"),
        ("planner check plan.yaml --resolved", "what it says with includes and variables"),
        ("planner check node.yaml", "a machine file"),
    ),
    "estimate": (
        ("planner estimate plan.yaml", "how, how long, and what limits"),
        ("planner estimate plan.yaml --explain", "why not otherwise, and the arithmetic"),
        ("planner estimate plan.yaml --set weights=70GB", "a variable changed"),
        ("planner estimate plan.yaml --set links.pcie0.rate=0.5x", "what if a link is slower"),
        ("planner estimate plan.yaml --machine here -o e.json", "for this computer, saved"),
    ),
    "execute": (
        ("planner execute plan.yaml", "plan for this computer, run, compare"),
        ("planner execute e.json -o run.json", "exactly the schedule of a saved estimate"),
        ("planner execute plan.yaml --cache cold --samples 3", "out of an empty page cache"),
        ("planner execute plan.yaml --max-error 1.25x", "fail if the model is off by more"),
        ("planner execute plan.yaml --backend null", "on a virtual clock, nothing is moved"),
    ),
    "diff": (
        ("planner diff before.json after.json", "what changed, in seconds"),
        ("planner diff main.json branch.json --fail-above 5%", "a gate: exit 11"),
        ("planner diff e.json run.json", "predicted against measured"),
    ),
    "sweep": (
        ("planner sweep plan.yaml --sweep chunk=1MiB,16MiB --sweep depth=1,2", "a table"),
        ("planner sweep plan.yaml --machine h200-sxm-1,pcie4-a100", "which one does it"),
        ("planner sweep plan.yaml --sweep links.pcie0.rate=25%,50%,100%", "slower links"),
        ("planner sweep plan.yaml --sweep nodes=8,16,32,64 --format csv", "for a sheet"),
    ),
    "calibrate": (
        ("planner calibrate", "measure this computer for machine: here"),
        ("planner calibrate --full -o node.yaml", "everything, and a file that plans can name"),
        ("planner calibrate --link pcie0", "one link again"),
        ("planner calibrate --overwrite", "quickly, though a full one is kept"),
    ),
    "topo": (
        ("planner topo", "this computer, as it was calibrated, else as the system tells"),
        ("planner topo plan.yaml --view tree", "the machine of a plan"),
        ("planner topo --machine h200-sxm-2 --json", "for a program"),
    ),
    "doctor": (
        ("planner doctor", "all checks of this computer"),
        ("planner doctor --only gpu --only pcie", "some of them"),
        ("planner doctor --machine node.yaml --json", "what a machine file says"),
    ),
    "history": (
        ("planner history", "trends of all plans and hops"),
        ("planner history --plan llm-load --since 2026-11-01", "of one plan, from a day on"),
        ("planner history show 12 -o run.json", "a kept run, for diff"),
        ("planner history --fail-on-drift", "a gate: exit 11"),
        ("planner history forget --before 2026-01-01", "take old runs out"),
    ),
    "report": (
        ("planner report run.json", "a page beside it, run.html"),
        ("planner report run.html --format text", "a page is a result: what the verb showed"),
        ("planner report run.json --trace trace.json", "a trace for Perfetto"),
    ),
    "schema": (
        ("planner schema > plan.schema.json", "for an editor that completes plans"),
        ("planner schema --of run", "what --json prints"),
    ),
}


def epilog(verb: str) -> str:
    """Examples and exit codes of the verb, as they stand below its options."""
    lines = []
    if verb in EXAMPLES:
        width = max(len(line) for line, _ in EXAMPLES[verb])
        lines = ["\b", "Examples:"]
        lines += [f"  {line.ljust(width)}  {what}" for line, what in EXAMPLES[verb]]
        lines += [""]
    codes = sorted({*_OF_VERB.get(verb, tuple(CODES)), *_ALWAYS})
    return "\n".join([*lines, exit_codes(codes)])


def exit_codes(codes: list[int]) -> str:
    """The table of these exit codes."""
    return "\n".join(["\b", "Exit codes:", *(f"  {code:3}  {CODES[code]}" for code in codes)])
