"""A machine as a page of text."""

from __future__ import annotations

import re

import pytest

from planner.machine.load import catalogue, load_machine
from planner.report.machine import machine_text
from planner.report.style import Style


def test_each_direction_of_a_link_has_its_line() -> None:
    machine = load_machine("h200-sxm-1")
    page = machine_text(machine, Style())
    lines = [line for line in page.splitlines() if "pcie0" in line]
    assert [re.split(r"  +", line.strip())[1] for line in lines] == [
        "host0 → gpu0",
        "gpu0 → host0",
    ]
    forward = machine.links["pcie0"].forward
    assert forward is not None
    assert f"{forward.rate / 1e9:.1f} GB/s" in lines[0]


def test_emulation_is_said_first() -> None:
    machine = load_machine("h200-sxm-1").model_copy(update={"emulated": True})
    assert "emulated: HBM stands in RAM" in machine_text(machine, Style()).splitlines()[0]


@pytest.mark.parametrize("name", catalogue())
def test_the_page_keeps_its_width(name: str) -> None:
    page = machine_text(load_machine(name), Style(width=80, unicode=False), saved="m.yaml")
    assert page.isascii()
    assert max(map(len, page.splitlines())) <= 80
