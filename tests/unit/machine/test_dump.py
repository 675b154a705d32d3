from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from planner.machine.curve import Curve, Point
from planner.machine.dump import dump_machine
from planner.machine.load import catalogue, load_machine, parse_machine
from planner.machine.schema import Direction, Link, Machine, Provenance, Ram, Setup

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.floats(1e-12, 1e6)
RATES = st.floats(1e-3, 1e15)


@pytest.mark.parametrize("name", catalogue())
def test_every_machine_of_the_catalogue_survives_being_written(name: str) -> None:
    machine = load_machine(name)
    assert parse_machine(dump_machine(machine), "again.yaml") == machine


@given(
    note=TEXT,
    key=TEXT,
    size=st.integers(1, 2**60),
    seconds=TIMES,
    latency=TIMES | st.just(0.0),
    rate=RATES,
    factor=st.floats(0, 1),
)
def test_every_number_and_text_comes_back_to_the_last_digit(
    note: str, key: str, size: int, seconds: float, latency: float, rate: float, factor: float
) -> None:
    point = Point(size_bytes=size, seconds=seconds)
    curve = Curve(points=(point,), latency=latency, gap=latency, rate=rate, spread=factor)
    source = Provenance(kind="measured", where=note, when=key, note=note, spread=factor)
    machine = Machine(
        name=note or "x",
        hardware={key: note},
        sources={"first": source},
        nodes={
            "host0": Ram(kind="ram", capacity=size, cores=1, setup=Setup(host_alloc=rate)),
            "host1": Ram(kind="ram", capacity=1, cores=2),
        },
        links={
            "wire": Link(
                kind="interconnect",
                ends=("host0", "host1"),
                peer_access=False,
                forward=Direction(rate=rate, against=factor, curves={"pinned": curve}),
            )
        },
    )
    assert parse_machine(dump_machine(machine), "again.yaml") == machine


def test_quantities_are_written_with_the_unit_of_their_field() -> None:
    point = Point(size_bytes=4096, seconds=5.616e-6)
    curve = Curve(points=(point,), latency=0, gap=2e-9, rate=54.81e9)
    machine = Machine(
        name="m",
        sources={"s": Provenance(kind="assumed", where="w", when="t")},
        nodes={
            "host0": Ram(kind="ram", capacity=3 * 2**34, cores=1, setup=Setup(workers=0.003)),
            "host1": Ram(kind="ram", capacity=10**9 + 1, cores=1),
        },
        links={
            "wire": Link(
                kind="pcie",
                ends=("host0", "host1"),
                forward=Direction(rate=1.5e12, curves={"pinned": curve}),
            )
        },
    )
    text = dump_machine(machine)
    for expected in (
        "[4KiB, 5.616us]",
        "latency: 0",
        "gap: 2ns",
        "rate: 54.81GB/s",
        "rate: 1.5TB/s",
        "capacity: 48GiB",
        "capacity: 1000000001B",
        "workers: 3ms",
        "cores: 1",
    ):
        assert expected in text
    assert text.startswith("#")
    assert "null" not in text  # keys at their default are left out


@pytest.mark.parametrize(
    "text", ["null", "~", "no", "", " a", "a: b", "a #b", "é", "\t", "\U0001f600"]
)
def test_text_that_yaml_reads_as_something_else_is_quoted(text: str) -> None:
    source = Provenance(kind="assumed", where=text, when="t")
    nodes = {"host0": Ram(kind="ram", capacity=1, cores=1)}
    machine = Machine(name="m", sources={"s": source}, nodes=nodes)
    assert parse_machine(dump_machine(machine), "again.yaml").sources["s"].where == text
