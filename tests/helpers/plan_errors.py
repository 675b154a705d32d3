"""Bad plans as data: what is written, and the faults that a reader gets for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from planner.errors import Fault, PlanError
from planner.plan.load import check_names, load_plan

DIRECTORY: Final = Path(__file__).parents[1] / "golden" / "errors"


@dataclass(frozen=True)
class Case:
    """A plan (as text, or as hexadecimal bytes), what lies beside it, and the expected faults.

    `files` are other texts by name, `sized` files of so many zero bytes. `load` is the path that
    is loaded. Where `nodes` are given, the plan's names are checked against them, `links` and
    `strategies`.
    """

    about: str
    plan: str = ""
    hex: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    sized: Mapping[str, int] = field(default_factory=dict)
    load: str = "plan.yaml"
    settings: Sequence[str] = ()
    nodes: Sequence[str] = ()
    links: Sequence[str] = ()
    strategies: Sequence[str] | None = None
    faults: Sequence[Mapping[str, str]] = ()


def read_case(path: Path) -> Case:
    return Case(**yaml.safe_load(path.read_text(encoding="utf-8")))


def faults_of(case: Case, folder: Path) -> list[dict[str, str]]:
    """The faults of `case`, written into `folder`, as a reader sees them, without the folder."""
    plan = bytes.fromhex(case.hex) if case.hex else case.plan.encode()
    (folder / "plan.yaml").write_bytes(plan)
    for name, text in case.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, size in case.sized.items():
        (folder / name).write_bytes(bytes(size))
    faults: Sequence[Fault]
    try:
        loaded = load_plan(folder / case.load, settings=case.settings)
        faults = check_names(loaded, case.nodes, case.links, case.strategies)
    except PlanError as error:
        faults = error.faults
    return [_shown(fault, folder) for fault in faults]


def _shown(fault: Fault, folder: Path) -> dict[str, str]:
    """A fault as texts; keys that say nothing are left out."""
    underlined = ""
    if fault.excerpt is not None:
        underlined = fault.excerpt[fault.column - 1 : fault.column - 1 + fault.span]
    shown = {
        "at": fault.position(),
        "path": fault.path,
        "marks": underlined,
        "message": fault.message,
        "suggestion": fault.suggestion or "",
    }
    return {
        key: text.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
        for key, text in shown.items()
        if text
    }
