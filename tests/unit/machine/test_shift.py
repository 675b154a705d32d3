from __future__ import annotations

from typing import Literal

import pytest

from planner.machine.curve import Curve
from planner.machine.load import load_machine, parse_machine
from planner.machine.schema import Direction, Hbm, Machine, Ram
from planner.machine.shift import knows_spread, shifted

MiB = 2**20
TEXT = """\
name: small
sources:
  plain: {kind: assumed, where: here, when: today}
  noisy: {kind: measured, where: here, when: today, spread: 0.25}
nodes:
  disk0: {kind: disk, host: host0}
  host0:
    kind: ram
    capacity: 8GiB
    cores: 4
    copy:
      file: {workers: [1], rings: [1MiB], rates: [[8GB/s]], spread: 0.6, per_chunk: 10us}
      memory: {workers: [1], rings: [1MiB], rates: [[8GB/s]]}
    setup: {host_alloc: 10GB/s, workers: 4ms, register_latency: 8us, source: noisy}
  gpu0:
    kind: hbm
    host: host0
    device: 0
    capacity: 4GB
    rate: 1TB/s
    context: 1s
    source: noisy
    local: {latency: 8us, rate: 1TB/s, source: plain}
links:
  storage0:
    kind: storage
    ends: [disk0, host0]
    source: noisy
    forward: {rate: 1GB/s, requests: 1000}
  pcie0:
    kind: pcie
    ends: [host0, gpu0]
    source: plain
    forward:
      rate: 10GB/s
      source: noisy
      curves:
        pinned: {latency: 10us, rate: 10GB/s, spread: 0.5}
        pageable: {latency: 10us, rate: 4GB/s}
        zero_copy: {latency: 10us, rate: 8GB/s, source: plain}
"""


@pytest.fixture
def machine() -> Machine:
    return parse_machine(TEXT, "m.yaml")


@pytest.mark.parametrize(("side", "half", "quarter"), [("low", 1.5, 1.25), ("high", 0.5, 0.75)])
def test_times_move_by_the_nearest_spread(
    machine: Machine, side: Literal["low", "high"], half: float, quarter: float
) -> None:
    moved = shifted(machine, side)
    forward = moved.links["pcie0"].forward
    assert forward is not None
    # Its own spread; that of the direction's source; a source of its own without a spread.
    assert forward.curves["pinned"].latency == pytest.approx(10e-6 * half)
    assert forward.curves["pageable"].rate == pytest.approx(4e9 / quarter)
    assert forward.curves["zero_copy"].rate == 8e9
    # The capacity moves like the fastest curve; where there is none, like its source.
    assert forward.rate == pytest.approx(10e9 / half)
    storage = moved.links["storage0"].forward
    assert storage is not None
    assert storage.rate == pytest.approx(1e9 / quarter)
    assert storage.requests == pytest.approx(1000 / quarter)


def test_what_a_lone_copy_takes_beside_its_bytes_moves_by_its_own_spread(machine: Machine) -> None:
    forward = machine.links["pcie0"].forward
    assert forward is not None
    curve = forward.curves["pinned"].model_copy(update={"lone_spread": 0.2, "overhead": 20e-6})
    curves = {**forward.curves, "pinned": curve}
    link = machine.links["pcie0"].model_copy(
        update={"forward": forward.model_copy(update={"curves": curves})}
    )
    other = machine.model_copy(update={"links": {"pcie0": link}})
    moved = shifted(other, "low").links["pcie0"].forward
    assert moved is not None
    # Latency 10 us and overhead 20 us by a fifth, the bytes (10 GB/s) by a half.
    pinned = moved.curves["pinned"]
    assert (pinned.latency, pinned.overhead) == pytest.approx((12e-6, 24e-6))
    assert pinned.rate == pytest.approx(10e9 / 1.5)


def test_tables_setup_and_gpus_move_too(machine: Machine) -> None:
    moved = shifted(machine, "low")
    host, gpu = moved.nodes["host0"], moved.nodes["gpu0"]
    assert isinstance(host, Ram)
    assert isinstance(gpu, Hbm)
    assert host.copy_rates["file"].rate(1, MiB) == pytest.approx(8e9 / 1.6)
    assert host.copy_rates["memory"].rate(1, MiB) == 8e9
    assert host.setup.host_alloc == pytest.approx(8e9)
    assert host.setup.touch_fresh is None
    assert host.setup.workers == pytest.approx(5e-3)
    assert host.setup.register_latency == pytest.approx(10e-6)
    assert gpu.rate == pytest.approx(0.8e12)
    assert gpu.context == pytest.approx(1.25)
    assert gpu.local is not None
    assert gpu.local.rate == 1e12


def test_a_spread_of_more_than_everything_stays_a_time(machine: Machine) -> None:
    table = machine.nodes["host0"]
    assert isinstance(table, Ram)
    wide = table.copy_rates["file"].model_copy(update={"spread": 2.0})
    host = table.model_copy(update={"copy_rates": {"file": wide}})
    fast = shifted(machine.model_copy(update={"nodes": {"host0": host}, "links": {}}), "high")
    node = fast.nodes["host0"]
    assert isinstance(node, Ram)
    assert node.copy_rates["file"].rate(1, MiB) == pytest.approx(80e9)


def test_a_spread_is_known_where_anything_has_one(machine: Machine) -> None:
    assert knows_spread(machine)
    curve = Curve(latency=1e-5, rate=1e9, lone_spread=0.1)
    alone = Direction(rate=1e9, curves={"pinned": curve})
    link = machine.links["pcie0"].model_copy(update={"forward": alone, "source": None})
    plain: dict[str, object] = {"nodes": {}, "sources": {}}
    assert knows_spread(machine.model_copy(update={**plain, "links": {"pcie0": link}}))
    assert not knows_spread(machine.model_copy(update={**plain, "links": {}}))
    assert knows_spread(load_machine("h200-sxm-1"))
    assert not knows_spread(load_machine("pcie4-a100"))


def test_without_a_spread_nothing_moves() -> None:
    machine = load_machine("pcie4-a100")
    assert shifted(machine, "low") == machine == shifted(machine, "high")


def test_low_is_never_faster_than_high() -> None:
    machine = load_machine("h200-sxm-1")
    low, high = shifted(machine, "low"), shifted(machine, "high")
    for name, link in machine.links.items():
        for way in ("forward", "backward"):
            slow, fast = (getattr(m.links[name], way) for m in (low, high))
            assert slow.rate <= getattr(link, way).rate <= fast.rate
