"""Reports as tests read them: their parts by id, and plans that fill a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from planner.machine.load import load_machine
from planner.results import Estimate, Run
from planner.review import answers
from planner.review.study import study
from tests.helpers.plans import plan_of

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source"}


class Outline(HTMLParser):
    """Checks that every tag is closed in turn, and collects ids, links and visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def outline(page: str) -> Outline:
    """The page, looked through."""
    found = Outline()
    found.feed(page)
    found.faults += [f"<{tag}> is never closed" for tag in found.open]
    return found


def visible(page: str) -> str:
    """What a person reads, blanks made one."""
    return re.sub(r"\s+", " ", "".join(outline(page).text))


def page_of(result: Estimate | Run) -> str:
    """The report of a result."""
    from planner.report.html import report_html

    return report_html(result, study(result))


def twenty_flows() -> Any:
    """A plan of 20 flows of several sizes on one GPU, one after another in pairs."""
    flows: dict[str, Any] = {}
    for i in range(20):
        flows[f"shard{i:02}"] = {
            "from": "disk0",
            "to": "gpu0",
            "size": (i + 1) * 200_000_000,
            "cache": "warm",
            **({"after": f"shard{i - 2:02}"} if i > 1 else {}),
        }
    return plan_of(flows, objectives=["makespan <= 20s"])


def twenty_estimated() -> Estimate:
    """The estimate of `twenty_flows`."""
    return answers.estimate(twenty_flows(), machine=load_machine("h200-sxm-1"))
