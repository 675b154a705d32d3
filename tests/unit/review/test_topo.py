"""What `planner topo` says of machines of the catalogue, large ones, and computers as found."""

from __future__ import annotations

from pathlib import Path

import pytest

import planner
from planner.errors import MachineError
from planner.machine.discover_details import GpuDetails
from planner.machine.discover_nics import Adapter
from planner.machine.discover_pairs import GpuPair
from planner.machine.load import load_machine
from planner.machine.observation import Calibration
from planner.machine.replicate import written_out
from planner.machine.system import NumaNode
from planner.report.style import Style
from planner.report.text import text
from planner.report.topo import topo_text
from planner.results.topo import Topo
from planner.review.topo import topo, topo_here
from tests.helpers import seen
from tests.helpers.machines import linked_gpus, many_gpus, two_gpus

PLAN = Path(__file__).resolve().parents[3] / "plans" / "gpu_to_gpu.yaml"


def page(found: Topo, *, width: int = 100, view: str = "matrix") -> str:
    return topo_text(found, Style(width=width), view="tree" if view == "tree" else "matrix")


def test_a_machine_of_the_catalogue_in_its_order() -> None:
    machine = load_machine("h200-sxm-2")
    found = topo(machine="h200-sxm-2")
    assert [node.name for node in found.nodes] == ["disk0", "host0", "gpu0", "gpu1"]
    assert [link.name for link in found.links] == ["storage0", "pcie0", "pcie1", "nvlink0"]
    pcie, nvlink = found.links[1], found.links[3]
    assert (pcie.generation, pcie.width, pcie.below_maximum) == (5, 16, False)
    assert pcie.nominal_bytes_per_s == pytest.approx(63.015e9, rel=1e-4)
    wire = machine.links["pcie0"]
    assert wire.forward is not None
    assert wire.backward is not None
    assert [way.rate_bytes_per_s for way in pcie.ways] == [wire.forward.rate, wire.backward.rate]
    assert (pcie.peer_access, nvlink.peer_access) == (None, "on")
    assert nvlink.nominal_bytes_per_s == 18 * 25e9
    (port,) = found.ports
    ((name, shared),) = machine.ports.items()
    assert (port.name, port.forward_bytes_per_s) == (name, shared.forward)
    assert port.links == ("pcie0", "pcie1")
    assert found.measured
    assert found.verdict.exit_code == 0


def test_what_crosses_a_port_is_told() -> None:
    machine = seen.calibrated()
    port = machine.ports["uplink0"].model_copy(update={"forward_across": 0.25})
    found = topo(machine=machine.model_copy(update={"ports": {"uplink0": port}}))
    assert (found.ports[0].forward_across, found.ports[0].backward_across) == (0.25, 0.0)
    told = "107 GB/s out in all; a byte the other way over another link takes 0.25 of a byte out"
    assert told in page(found, width=200)


def test_the_machine_of_a_plan_with_its_settings() -> None:
    assert topo(PLAN).machine == "h200-sxm-2"
    assert topo(str(PLAN), machine="h200-sxm-1").machine == "h200-sxm-1"
    plan = planner.load_plan(PLAN, settings=["links.pcie0.forward.rate=13GB/s"]).plan
    assert topo(plan).links[1].ways[0].rate_bytes_per_s == 13e9
    with pytest.raises(MachineError, match="no machine"):
        topo(machine="nonsense")


def test_a_link_below_its_maximum_is_marked_loudly() -> None:
    machine = load_machine("h200-sxm-2")
    slow = machine.links["pcie1"].model_copy(update={"generation": 3, "width": 8})
    found = topo(machine=machine.model_copy(update={"links": {**machine.links, "pcie1": slow}}))
    assert [link.below_maximum for link in found.links] == [None, False, True, None]
    # 2^(3 - 5) * 8 / 16 = 12.5 %
    assert "pcie1 runs as PCIe 3 x8" in found.warnings[0]
    matrix, tree = page(found), page(found, view="tree")
    assert "PCIe3x8!!" in matrix
    assert "PCIe 3 x8 !! of 5 x16" in matrix
    assert "PCIe 3 x8 !! of 5 x16" in tree
    assert matrix.count("!! pcie1 runs as") == tree.count("!! pcie1 runs as") == 1
    assert found.verdict.sentence.endswith("1 warning.")


def test_a_calibrated_computer_learns_of_nvlinks_and_numa_nodes() -> None:
    machine = seen.calibrated()
    bare = machine.links["nvlink0"].model_copy(update={"generation": None, "width": None})
    machine = machine.model_copy(update={"links": {**machine.links, "nvlink0": bare}})
    kept = Calibration(machine, seen.NOW)
    two = (NumaNode(0, tuple(range(16)), 128 << 30), NumaNode(1, tuple(range(16, 32)), 128 << 30))
    about = seen.discovery(numa=two, gpus=(seen.gpu(0), seen.gpu(1, numa=1)))
    found = topo_here(seen.observation(calibration=kept, about=about))
    assert (found.links[3].generation, found.links[3].width) == (4, 18)
    assert [node.numa for node in found.nodes] == [None, None, 0, 1]
    assert found.pairs == ()  # they have a link
    tree = page(found, view="tree")
    rows = [line.split("  ")[1].strip() for line in tree.splitlines() if "─" in line]
    assert len(rows) == 7  # disk, two NUMA nodes with a GPU each, and a link of each GPU
    assert tree.index("NUMA node 0") < tree.index("gpu0") < tree.index("NUMA node 1")
    # Timed by the calibration, but no NVLink lies between them.
    apart = GpuDetails(pairs=(GpuPair(0, 1, nvlinks=0, near="one switch", peer=False),))
    found = topo_here(seen.observation(calibration=kept, details=apart))
    assert (found.links[3].kind, found.links[3].nominal_bytes_per_s) == ("pcie", None)


def test_a_computer_that_was_not_calibrated_is_shown_as_found() -> None:
    nic = Adapter("eth0", 50e9, "mlx5_0")
    found = topo_here(seen.observation(calibration=None, adapters=(nic,)))
    assert not found.measured
    names = ["storage0", "pcie0", "pcie1", "network0", "nvlink0"]
    assert [link.name for link in found.links] == names
    assert {link.source for link in found.links} == {"none"}
    assert all(way.rate_bytes_per_s is None for link in found.links for way in link.ways)
    # An idle link shows generation 1; that says nothing, and what it carries is that of 5.
    assert found.links[1].below_maximum is None
    assert found.links[1].nominal_bytes_per_s == pytest.approx(63.015e9, rel=1e-4)
    assert (found.links[4].width, found.links[4].peer_access) == (18, "on")
    shown = page(found)
    assert "nothing was measured" in shown
    assert "≤ 450 GB/s" in shown
    assert "≤ 50 GB/s" in shown
    assert "PCIe 1 x16 (idle; up to 5 x16)" in page(found, width=140)


def test_gpus_without_a_link_tell_how_they_reach_each_other() -> None:
    pair = GpuPair(0, 1, nvlinks=0, near="one root", peer=False, refused="no support")
    found = topo_here(seen.observation(calibration=None, details=GpuDetails(pairs=(pair,))))
    (told,) = found.pairs
    assert (told.gpus, told.near, told.peer_access) == (("gpu0", "gpu1"), "one root", "off")
    assert "peer access between GPUs: off (no support) gpu0–gpu1, one root" in page(found)
    unknown = topo_here(seen.observation(calibration=None, details=None))
    assert [pair.peer_access for pair in unknown.pairs] == ["unknown"]


def test_without_gpu_there_is_a_note() -> None:
    about = seen.discovery(gpus=(), driver=None, no_gpu="the NVIDIA driver does not answer")
    found = topo_here(seen.observation(calibration=None, about=about, details=None))
    assert [node.kind for node in found.nodes] == ["disk", "ram"]
    assert "no GPU: the NVIDIA driver does not answer" in page(found)
    nothing = topo_here(
        seen.observation(calibration=None, about=None, unknown={"about": "no /proc"})
    )
    assert (nothing.nodes, nothing.notes) == ((), ("not looked at: about: no /proc",))
    assert page(nothing)


def test_the_matrix_gives_up_rates_then_places() -> None:
    eight = topo(machine=linked_gpus(8))
    wide, narrow = page(eight, width=130), page(eight)
    assert "10 GB/s" in wide.split("link ")[0]
    assert "10 GB/s" not in narrow.split("link ")[0]  # the list of links below has them
    assert narrow.count("gpu7") > 1
    slim = page(eight, width=40)
    assert all(len(line) <= 40 for line in slim.splitlines())


def test_equal_places_of_a_large_machine_stand_together() -> None:
    machine = written_out(many_gpus(16, 8, filer=10e9, peers=True))
    found = topo(machine=machine)
    assert len(found.nodes) == 1 + 16 + 128
    for view in ("matrix", "tree"):
        shown = page(found, view=view)
        assert len(shown.splitlines()) < 30
        assert "node*.gpu* (128)" in shown
    # Each host has its own eight GPUs, each GPU one host and seven neighbours.
    assert "PCIe to 8" in page(found)
    assert "NVLink to 7" in page(found)
    classes = topo(machine=many_gpus(16, 8, peers=True))
    # 16 hosts times 8 * 7 / 2 pairs
    assert [link.members for link in classes.links] == [16, 128, 16 * 28]
    assert "145 places of 3 kinds, 592 links of 3 kinds" in classes.verdict.sentence


def test_parallel_links_are_counted_and_what_does_not_fit_is_told() -> None:
    machine = two_gpus()
    twice = machine.model_copy(
        update={"links": {**machine.links, "nvlink1": machine.links["nvlink0"]}}
    )
    assert "2×NVLink" in page(topo(machine=twice))
    several = topo(machine=linked_gpus(4))
    # No two GPUs alike: nothing can stand together.
    unlike = several.model_copy(
        update={
            "nodes": tuple(
                node.model_copy(update={"capacity_bytes": k})
                for k, node in enumerate(several.nodes)
            )
        }
    )
    assert "left out: gpu3; --json has every place and link" in page(unlike, width=50)


def test_the_page_of_the_library_and_the_plain_one_agree() -> None:
    found = topo(machine="pcie4-a100")
    assert text(found, saved="x.json") == topo_text(found, Style(), saved="x.json")
    assert "saved x.json" in text(found, saved="x.json")
    plain = topo_text(found, Style(unicode=False), view="tree")
    assert plain.isascii()
