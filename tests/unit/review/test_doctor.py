"""The checks of the doctor: each is right about what was seen, and none ends the examination."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.engine.calibration.degraded import link_warning
from planner.errors import ExitCode, InputError, MachineError
from planner.machine.discover_details import GpuDetails
from planner.machine.discover_nics import Adapter
from planner.machine.discover_pairs import GpuPair, NvLinks
from planner.machine.load import load_machine
from planner.machine.made import FULL
from planner.machine.observation import Calibration, Cuda, Observation, Scratch, Storage
from planner.machine.schema import Machine
from planner.machine.system import FileSystem, NumaNode
from planner.report.style import Style
from planner.report.text import text
from planner.results.doctor import Doctor, Finding
from planner.review import doctor as doctors
from planner.review.checks import host
from planner.review.checks.base import Check
from planner.review.doctor import CHECKS, chosen_checks, doctor, examine
from tests.helpers import seen
from tests.helpers.golden import Golden
from tests.helpers.seen import GB, GIB

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20


def findings(word: str, observation: Observation) -> list[Finding]:
    """What one check finds."""
    return list(examine(observation, only=[word]).findings)


def only_one(word: str, **changes: Any) -> Finding:
    """The one finding of a check in a computer that is changed so."""
    (finding,) = findings(word, seen.observation(**changes))
    assert finding.check == word
    return finding


def no_gpus(**changes: Any) -> Observation:
    """A computer without GPUs, calibrated with emulated ones."""
    machine = seen.calibrated()
    nodes = {
        name: node.model_copy(update={"emulated": True}) if node.kind == "hbm" else node
        for name, node in machine.nodes.items()
    }
    emulated = machine.model_copy(update={"nodes": nodes, "emulated": True})
    given: dict[str, Any] = {
        "about": seen.discovery(gpus=(), driver=None, no_gpu="no driver"),
        "details": GpuDetails(reason="no driver"),
        "cuda": Cuda(driver_library=False),
        "calibration": Calibration(emulated, seen.NOW),
    }
    return seen.observation(**(given | changes))


def test_a_computer_that_is_well_passes() -> None:
    found = examine(seen.observation())
    assert found.findings == ()
    assert (found.verdict.passed, found.verdict.exit_code) == (True, ExitCode.DONE)
    assert found.verdict.sentence == f"{len(CHECKS)} checks found nothing."
    outcomes = {check.check: check.outcome for check in found.checks}
    assert outcomes.pop("numa") == "absent"  # one node: nothing is far
    assert set(outcomes.values()) == {"fine"}


def test_without_gpus_their_checks_have_nothing_to_look_at() -> None:
    found = examine(no_gpus())
    absent = {check.check for check in found.checks if check.outcome == "absent"}
    assert absent == {
        *("pcie", "rate", "peer", "nvlink", "cuda", "gpu-memory", "gpu-health", "numa", "gds")
    }
    assert [finding.level for finding in found.findings] == ["note"]  # emulated
    assert found.verdict.exit_code == ExitCode.DONE


def test_a_link_below_its_maximum_counts_under_load_alone() -> None:
    slow = seen.with_link("pcie1", generation=3, width=8)
    found = only_one("pcie", calibration=slow)
    assert found.level == "problem"
    assert "PCIe 3 x8" in found.seen
    # PCIe 3 x8 carries 8e9 * 8 / 8 * 128 / 130 = 7.88 GB/s, 5 x16 63.0: eight times as much. The
    # measured 54.8 GB/s of the file would be 438.4 GB/s then; 10 GB take 182.5 and 22.8 ms.
    assert found.cost is not None
    assert found.cost.now_s == pytest.approx(10e9 / 54.8e9)
    assert found.cost.could_s == pytest.approx(10e9 / 438.4e9)
    # Idle links show generation 1, which says nothing.
    (unknown,) = findings("pcie", seen.observation(calibration=None))
    assert (unknown.level, "under load" in unknown.seen) == ("unknown", True)
    narrow = seen.discovery(gpus=(seen.gpu(0), seen.gpu(1, width=8)))
    warned, unknown = findings("pcie", seen.observation(calibration=None, about=narrow))
    assert (warned.level, warned.about, unknown.level) == ("warning", "gpu1", "unknown")


def scaled(machine: Machine, name: str, rate: float) -> Calibration:
    """The machine with another rate forward on one link, measured as the link was."""
    link = machine.links[name]
    assert link.forward is not None
    forward = link.forward.model_copy(update={"rate": rate, "source": None})
    changed = link.model_copy(update={"forward": forward})
    links = {**machine.links, name: changed}
    return Calibration(machine.model_copy(update={"links": links}), seen.NOW)


@pytest.mark.parametrize(
    ("rate", "level", "told"),
    [
        # Of the 63.0 GB/s of PCIe 5 x16: 25 are 40 % (39.7), 40 are 63 %, 42 are 67 %.
        (25e9, "problem", "40 % of the 63 GB/s"),
        (40e9, "warning", "63 % of the 63 GB/s"),
        # Above 65 % it is of its kind, but pcie1 carries 54.8: 42 / 54.8 = 0.77.
        (42e9, "warning", "its equal pcie1 54.8 GB/s"),
    ],
)
def test_a_rate_is_held_against_the_standard_and_against_equals(
    rate: float, level: str, told: str
) -> None:
    found = only_one("rate", calibration=scaled(seen.calibrated(), "pcie0", rate))
    assert (found.level, found.about) == (level, "pcie0 (host0 → gpu0)")
    assert told in found.seen
    assert found.cost is not None
    assert found.cost.now_bytes_per_s == rate


def test_usual_rates_and_rates_that_nobody_measured_are_left_alone() -> None:
    machine = seen.calibrated()
    # 45 / 54.8 = 0.82
    assert findings("rate", seen.observation(calibration=scaled(machine, "pcie0", 45e9))) == []
    cited = machine.sources["calibration"].model_copy(update={"kind": "cited"})
    sources = {**machine.sources, "calibration": cited}
    told = machine.model_copy(update={"sources": sources})
    assert [
        (finding.level, finding.seen)
        for finding in findings("rate", seen.observation(calibration=scaled(told, "pcie0", 1e9)))
    ] == [("unknown", "no link of a known standard was measured")]
    (unknown,) = findings("rate", seen.observation(calibration=None))
    assert unknown.level == "unknown"


def test_a_calibration_knows_of_nvlink_by_the_driver() -> None:
    bare = seen.with_link("nvlink0", generation=None, width=None)
    slow = scaled(bare.machine, "nvlink0", 150e9)
    # 18 links of generation 4 carry 450 GB/s: 150 are a third.
    found = only_one("rate", calibration=slow)
    assert (found.level, "33 % of the 450 GB/s" in found.seen) == ("problem", True)
    few = seen.details(pairs=(GpuPair(0, 1, nvlinks=4, generation=4),))
    assert findings("rate", seen.observation(calibration=slow, details=few)) == []


def test_gpus_that_should_reach_each_other() -> None:
    off = seen.with_link("nvlink0", peer_access=False)
    found = only_one("peer", calibration=off)
    assert (found.level, found.about) == ("problem", "nvlink0 (gpu0 – gpu1)")
    assert "18 NVLinks join them" in found.seen
    # Staged through the host it takes what the curve `peer_off` says, 38 GB/s; 0.85 * 450 = 382.5.
    assert found.cost is not None
    machine = off.machine
    forward = machine.links["nvlink0"].forward
    assert forward is not None
    assert found.cost.now_bytes_per_s == forward.curves["peer_off"].rate
    assert found.cost.could_bytes_per_s == pytest.approx(382.5e9)
    # The driver alone tells it as well, with its reason; once, not twice.
    pair = GpuPair(0, 1, nvlinks=0, near="one switch", peer=False, refused="switched off")
    root = seen.details(pairs=(pair,))
    found = only_one("peer", calibration=None, details=root)
    assert (found.level, "one root complex" in found.seen) == ("warning", True)
    assert "(switched off)" in found.seen
    assert len(findings("peer", seen.observation(calibration=off, details=root))) == 1


def test_gpus_that_lie_apart_need_not_reach_each_other() -> None:
    far = seen.details(pairs=(GpuPair(0, 1, nvlinks=0, near="far", peer=False),))
    off = seen.with_link("nvlink0", peer_access=False)
    assert findings("peer", seen.observation(calibration=off, details=far)) == []
    silent = seen.details(pairs=(GpuPair(0, 1),))
    (unknown,) = findings("peer", seen.observation(calibration=None, details=silent))
    assert unknown.level == "unknown"
    one = seen.observation(calibration=None, about=seen.discovery(gpus=(seen.gpu(0),)))
    alone = replace(one, cuda=Cuda(driver_library=True, cupy="14", devices=1))
    assert findings("peer", alone) == []


def test_a_dead_nvlink_is_seen_beside_its_equals() -> None:
    links = (NvLinks(18, 4), NvLinks(17, 4))
    found = only_one("nvlink", details=seen.details(links=links))
    assert (found.level, found.about) == ("problem", "gpu1")
    assert "17 of its NVLinks are up, its equals have 18" in found.seen
    assert findings("nvlink", seen.observation(details=seen.details(links=(None, None)))) == []


def test_cards_without_a_driver() -> None:
    found = findings("cuda", no_gpus(cards=2))
    assert [(finding.level, "(2)" in finding.seen) for finding in found] == [("warning", True)]


CUDA = Cuda(driver_library=True, cupy="14.2.0", runtime=12090, driver=13000, devices=2)


@pytest.mark.parametrize(
    ("look", "level", "told"),
    [
        (Cuda(driver_library=False), "problem", "libcuda.so.1 is not there"),
        (Cuda(driver_library=True, no_cupy="No module"), "problem", "No module"),
        (replace(CUDA, devices=None, no_devices="error 100"), "problem", "no GPU (error 100)"),
        (replace(CUDA, devices=0, visible=""), "problem", "CUDA_VISIBLE_DEVICES is ''"),
        (replace(CUDA, devices=1, visible="1"), "warning", "1 of 2 GPUs"),
        # A newer major version is refused; a newer minor one runs.
        (replace(CUDA, runtime=13000, driver=12080), "problem", "13.0, the driver supports up to"),
        (
            replace(CUDA, runtime=12090, driver=12080),
            "note",
            "12.9, the driver supports up to 12.8",
        ),
    ],
)
def test_driver_cuda_and_cupy_must_go_together(look: Cuda, level: str, told: str) -> None:
    found = only_one("cuda", cuda=look)
    assert found.level == level
    assert told in found.seen


def test_memory_that_others_take() -> None:
    # 71 of 141 GB are 50.4 %, 127 are 90.1 %.
    assert only_one("gpu-memory", details=seen.health(used_bytes=71 * GB)).level == "warning"
    full = only_one("gpu-memory", details=seen.health(used_bytes=127 * GB, processes=3))
    assert (full.level, full.about) == ("problem", "gpu1")
    assert "taken by 3 processes; 14 GB are free" in full.seen
    (unknown,) = findings("gpu-memory", seen.observation(details=seen.health(used_bytes=None)))
    assert unknown.level == "unknown"


@pytest.mark.parametrize(
    ("state", "level", "told"),
    [
        ({"failed": True, "pending": True}, "problem", "could not be replaced; a faulty row waits"),
        ({"uncorrected": 2}, "problem", "2 memory errors were not mended"),
        ({"remapped": 1}, "note", "1 rows of its memory were replaced"),
        ({"slowed": ("power brake",)}, "warning", "held down: power brake"),
        ({"replays": 5000}, "warning", "5000 packets"),
        ({"persistent": False}, "note", "persistence mode is off"),
    ],
)
def test_gpus_that_are_not_well(state: dict[str, Any], level: str, told: str) -> None:
    found = only_one("gpu-health", details=seen.health(**state))
    assert (found.level, found.about) == (level, "gpu1")
    assert told in found.seen


def test_a_driver_that_tells_nothing_is_unknown() -> None:
    dumb = seen.health(uncorrected=None, remapped=None, slowed=None, replays=None)
    (unknown,) = findings("gpu-health", seen.observation(details=dumb))
    assert unknown.level == "unknown"
    silent = GpuDetails(reason="the NVIDIA driver does not answer: locked")
    for word in ("gpu-health", "gpu-memory", "nvlink", "peer"):
        (unknown,) = findings(word, seen.observation(details=silent))
        assert (unknown.level, "does not answer" in unknown.seen) == ("unknown", True)


def test_cores_that_may_not_be_used() -> None:
    found = only_one("cores", about=seen.discovery(quota=4.0, cores=4))
    assert (found.level, found.seen) == (
        "warning",
        "the control group grants 4 cores of the 32 that it sees",
    )
    # Four workers fill a ring of 16 MiB at 26.73 GB/s (table `file`), the link takes 54.8.
    assert found.cost is not None
    assert found.cost.now_bytes_per_s == pytest.approx(26.73e9)
    assert found.cost.could_bytes_per_s == 54.8e9
    strain = seen.observation().strain
    assert strain is not None
    # Sixteen of 32 cores copy at 82.5 GB/s, more than the link takes: good to know, no more.
    half = replace(strain, allowed_cpus=16)
    assert only_one("cores", about=seen.discovery(cores=16), strain=half).level == "note"
    few = replace(strain, allowed_cpus=2)
    assert only_one("cores", about=seen.discovery(cores=2), strain=few).level == "warning"
    (unknown,) = findings("cores", seen.observation(strain=None, unknown={"strain": "no /proc"}))
    assert (unknown.level, unknown.seen) == ("unknown", "no /proc")


def test_memory_that_may_not_be_used() -> None:
    # 100 GiB are less than half of 256, and less than the 141 GB of a GPU.
    found = only_one("memory", about=seen.discovery(memory_limit_bytes=100 * GIB))
    assert found.level == "warning"
    # From the disk at 1.9 GB/s; the page cache gives what 16 workers reach at best, 82.48 GB/s.
    assert found.cost is not None
    assert found.cost.now_bytes_per_s == 1.9e9
    assert found.cost.could_bytes_per_s == pytest.approx(82.48e9)
    roomy = only_one("memory", about=seen.discovery(memory_limit_bytes=200 * GIB))
    assert (roomy.level, roomy.cost) == ("note", None)


def test_locked_memory_matters_to_rdma() -> None:
    about = seen.discovery(locked_limit_bytes=8 * MIB)
    # The table `file` is best at 16 workers and 64 MiB.
    found = only_one("memlock", about=about)
    assert (found.level, "a ring needs 64 MiB" in found.seen) == ("note", True)
    nic = Adapter("ib0", rdma="mlx5_0")
    assert only_one("memlock", about=about, adapters=(nic,)).level == "warning"
    bare = seen.observation(calibration=None, about=about)
    assert "a ring needs 128 MiB" in findings("memlock", bare)[0].seen
    enough = seen.discovery(locked_limit_bytes=64 * MIB)
    assert findings("memlock", seen.observation(about=enough)) == []


def test_huge_pages_and_swap() -> None:
    assert only_one("hugepages", about=seen.discovery(huge_pages="never")).level == "note"
    assert only_one("hugepages", about=seen.discovery(huge_pages=None)).level == "unknown"
    strain = seen.observation().strain
    assert strain is not None
    used = replace(strain, swap_bytes=8 * GIB, swap_used_bytes=4 * GIB)
    assert only_one("swap", strain=used).level == "note"
    pressed = only_one("swap", strain=replace(used, pressure=0.2))
    assert (pressed.level, "in 20% of the last minute" in pressed.seen) == ("warning", True)
    assert "nobody says" in only_one("swap", strain=replace(used, pressure=None)).seen
    assert only_one("swap", strain=replace(strain, swap_used_bytes=None)).level == "unknown"


def test_gpus_far_from_all_that_may_be_used() -> None:
    numa = (NumaNode(0, tuple(range(16)), 128 * GIB), NumaNode(1, (), 128 * GIB))
    about = seen.discovery(numa=numa, gpus=(seen.gpu(0), seen.gpu(1, numa=1)))
    found = only_one("numa", about=about)
    assert (found.level, found.about) == ("warning", "gpu1")
    assert "no cores and no memory" in found.seen
    strain = seen.observation().strain
    assert strain is not None
    both = replace(strain, memory_nodes=(0, 1))
    assert only_one("numa", about=about, strain=both).seen.endswith("no cores")
    unknown = replace(about, gpus=(seen.gpu(0, numa=None),))
    assert only_one("numa", about=unknown).level == "unknown"


def test_guests_and_iommus_are_notes() -> None:
    guest = only_one("virtual", about=seen.discovery(virtualization="QEMU"))
    assert (guest.level, "QEMU" in guest.seen) == ("note", True)
    assert only_one("virtual", iommu=40).about == "IOMMU"


def disk(**changes: Any) -> Any:
    base = FileSystem("/", "ext4", "/dev/vda1", 500 * GB, 1000 * GB)
    return seen.discovery(filesystem=replace(base, **changes))


@pytest.mark.parametrize(
    ("changes", "level", "told"),
    [
        ({"about": disk(kind="tmpfs", free_bytes=0)}, "warning", "lie in memory (tmpfs)"),
        ({"about": disk(kind="nfs4")}, "note", "network"),
        ({"about": disk(kind="overlay")}, "note", "container's layer"),
        ({"about": disk(free_bytes=5 * GB)}, "note", "5 GB are free on /"),
        ({"about": disk(free_bytes=GB // 2)}, "problem", "500 MB are free on /"),
        ({"scratch": Scratch("/x", exists=False)}, "problem", "does not exist"),
        ({"scratch": Scratch("/x", writable=False)}, "problem", "cannot be written"),
        (
            {"calibration": scaled(seen.calibrated(), "storage0", 0.25e9)},
            "warning",
            "cold reads of the disk reach 250 MB/s",
        ),
    ],
)
def test_where_scratch_files_go(changes: dict[str, Any], level: str, told: str) -> None:
    found = only_one("scratch", **changes)
    assert found.level == level
    assert told in found.seen


def test_files_that_gpus_cannot_read_directly_are_a_note() -> None:
    module = only_one("gds", storage=Storage(module=False, kvikio=True))
    library = only_one("gds", storage=Storage(module=True, kvikio=False))
    assert ("nvidia-fs" in module.seen, "KvikIO" in library.seen) == (True, True)
    assert module.level == library.level == "note"


def sources(**changes: Any) -> Calibration:
    """The calibration with another source of its first numbers."""
    machine = seen.calibrated()
    changed = machine.sources["calibration"].model_copy(update=changes)
    update = {"sources": {**machine.sources, "calibration": changed}}
    return Calibration(machine.model_copy(update=update), seen.NOW)


def calibrations() -> Iterator[tuple[dict[str, Any], str, str]]:
    kept = seen.observation().calibration
    assert kept is not None
    yield {"calibration": replace(kept, at_s=seen.NOW - 31 * seen.DAY)}, "warning", "31 days old"
    yield {"calibration": sources(spread=0.12)}, "warning", "spread by 12 %"
    yield {"calibration": sources(disturbed=11)}, "warning", "11 cells stayed disturbed"
    yield {"calibration": None}, "warning", "there is none"
    for facts, told in (
        ({"kernel": "6.1.0"}, "with kernel 6.1.0 (now 6.8.0), on 2026-11-"),
        ({"driver": "570.1"}, "with driver 570.1 (now 580.159)"),
        ({"cores": "16"}, "with 16 cores (now 32)"),
        ({}, "with other limits or on another disk"),
    ):
        hardware = {**kept.machine.hardware, **facts}
        other = replace(kept, machine=kept.machine.model_copy(update={"hardware": hardware}))
        yield {"calibration": None, "others": (other,)}, "warning", told
    emulated = kept.machine.model_copy(update={"emulated": True})
    yield {"calibration": replace(kept, machine=emulated)}, "warning", "though there are real ones"
    yield {"calibration": None, "unknown": {"calibration": "OSError: x"}}, "unknown", "OSError: x"


@pytest.mark.parametrize(("changes", "level", "told"), list(calibrations()))
def test_the_calibration(changes: dict[str, Any], level: str, told: str) -> None:
    found = only_one("calibration", **changes)
    assert found.level == level
    assert told in found.seen


def test_a_machine_file_is_calibrated_where_its_machine_is() -> None:
    kept = seen.observation().calibration
    assert kept is not None
    for one in (
        sources(spread=0.12),
        sources(disturbed=11),
        replace(kept, at_s=seen.NOW - 31 * seen.DAY),
    ):
        here = only_one("calibration", calibration=one)
        assert here.mend.startswith("planner calibrate")
        assert "-o FILE" not in here.mend
        there = only_one("calibration", calibration=one, computer=False)
        assert there.mend.startswith("planner calibrate --full -o FILE on that machine")


def test_a_full_calibration_is_measured_again_in_full() -> None:
    kept = sources(by=FULL, spread=0.12)
    assert only_one("calibration", calibration=kept).mend.startswith("planner calibrate --full, ")
    old = replace(sources(by=FULL), at_s=seen.NOW - 31 * seen.DAY)
    assert only_one("calibration", calibration=old).mend.startswith("planner calibrate --full; ")


def test_a_check_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(observation: Observation) -> Iterator[Finding]:
        yield from host.virtual(observation)
        raise ZeroDivisionError("division by zero")

    checks = (Check("broken", "a bug", broken), *CHECKS)
    monkeypatch.setattr(doctors, "CHECKS", checks)
    found = examine(seen.observation(iommu=3))
    assert [(f.check, f.level) for f in found.findings] == [
        ("broken", "note"),
        ("virtual", "note"),
        ("broken", "unknown"),
    ]
    assert "ZeroDivisionError: division by zero" in found.findings[-1].seen
    assert found.verdict.exit_code == ExitCode.DONE  # nobody is blamed for what was not seen


def test_no_check_fails_where_nothing_was_seen() -> None:
    blind = Observation("here", "box", seen.NOW)
    found = examine(blind)
    failed = [f.seen for f in found.findings if f.seen.startswith("the check failed")]
    assert failed == []
    outcomes = {check.check: check.outcome for check in found.checks}
    # That there is no calibration is seen; of all else nobody can say that it is fine.
    assert outcomes.pop("calibration") == "found"
    assert set(outcomes) == {check.word for check in CHECKS} - {"calibration"}
    assert set(outcomes.values()) <= {"unknown"}


def test_words_choose_checks() -> None:
    assert [check.word for check in chosen_checks(["gpu", "pcie"])] == [
        *("pcie", "gpu-memory", "gpu-health")
    ]
    with pytest.raises(InputError, match='no check "pci"') as caught:
        doctor(only=["pci"])
    assert caught.value.hint == "did you mean pcie?"


def test_of_a_machine_file_what_it_says_is_examined() -> None:
    found = doctor("h200-sxm-2")
    assert [check.check for check in found.checks] == ["pcie", "rate", "peer", "calibration"]
    # What the entry's own provenance says of its measurement, and nothing of this computer.
    of_links = [finding for finding in found.findings if finding.check != "calibration"]
    assert of_links == []
    bare = seen.with_link("nvlink0", generation=None, width=None, peer_access=False).machine
    (finding,) = doctor(bare, only=["peer"]).findings
    assert (finding.level, "nothing says" in finding.seen) == ("warning", True)
    with pytest.raises(MachineError):
        doctor("nonsense")


def test_of_a_machine_that_nobody_measured_it_says_so() -> None:
    found = doctor("pcie4-a100")
    assert found.calibrated is None
    assert [(finding.check, finding.level) for finding in found.findings] == [
        ("calibration", "note"),
        ("rate", "unknown"),
    ]
    assert found.verdict.exit_code == ExitCode.DONE


def test_what_a_file_warns_of_is_told_once() -> None:
    slow = seen.with_link("pcie1", generation=3).machine
    own = link_warning("pcie1", slow.links["pcie1"])
    assert own is not None
    warned = slow.model_copy(update={"warnings": (own, "gpu1 hangs from a riser")})
    kept = Calibration(warned, seen.NOW)
    found = examine(seen.observation(calibration=kept), only=["pcie", "calibration"])
    assert [(finding.check, finding.level) for finding in found.findings] == [
        ("pcie", "problem"),
        ("calibration", "warning"),
    ]
    assert found.findings[1].seen == "gpu1 hangs from a riser"


def test_a_class_of_equal_gpus_counts_as_all_of_them() -> None:
    machine = load_machine(str(ROOT / "plans" / "machines" / "h200-8.yaml"))
    assert doctor(machine, only=["peer"]).findings == ()
    off = machine.links["peer{gpu}"].model_copy(update={"peer_access": False})
    apart = machine.model_copy(update={"links": {**machine.links, "peer{gpu}": off}})
    (finding,) = doctor(apart, only=["peer"]).findings
    assert (finding.level, "18 NVLinks" in finding.seen) == ("problem", True)


def unwell() -> Doctor:
    """A computer with one of each kind of finding."""
    slow = seen.with_link("pcie1", generation=3)
    # Measured as such a link is: 54.8 GB/s * 2^(3 - 5) = 13.7.
    kept = scaled(slow.machine, "pcie1", 13.7e9)
    return examine(
        seen.observation(
            calibration=replace(kept, at_s=seen.NOW - 40 * seen.DAY),
            about=disk(kind="tmpfs"),
            details=seen.health(used_bytes=100 * GB, processes=2),
            storage=Storage(module=False, kvikio=False),
            strain=None,
            unknown={"strain": "PermissionError: /proc/meminfo"},
        )
    )


def test_the_worst_comes_first_and_decides() -> None:
    found = unwell()
    levels = [finding.level for finding in found.findings]
    assert levels == sorted(levels, key=["problem", "warning", "note", "unknown"].index)
    assert found.findings[0].about == "pcie1 (host0 → gpu1)"
    assert found.verdict.exit_code == ExitCode.OBJECTIVE
    body = json.loads(found.model_dump_json())
    assert body["format"] == "planner.doctor/1"
    assert body["verdict"]["passed"] is False


@pytest.mark.parametrize(
    ("name", "style"), [("unwell", Style()), ("narrow", Style(width=60, unicode=False))]
)
def test_the_page(name: str, style: Style, golden: Golden) -> None:
    golden.check(f"doctor/{name}.txt", text(unwell(), style))
