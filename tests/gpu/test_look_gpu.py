"""Looking at real GPUs: what the driver tells, quickly, and without a context on any of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli import main
from planner.engine.backends import cuda_look
from planner.engine.calibration.shown import shown
from planner.engine.observe import TOPOLOGY, observe
from planner.errors import ExitCode
from planner.machine.discover import discover
from planner.machine.discover_details import read_details
from planner.review.doctor import examine
from planner.review.topo import topo_here

cupy = pytest.importorskip("cupy", reason="the cuda backend needs CuPy")
pytestmark = pytest.mark.gpu

# cuDevicePrimaryCtxGetState tells whether this process has a context, without making one.
SCRIPT = """
import ctypes, json, time
from planner.engine.observe import observe
from planner.review.doctor import examine
from planner.review.topo import topo_here
start = time.perf_counter()
seen = observe()
found, shown = examine(seen), topo_here(seen)
took = time.perf_counter() - start
library = ctypes.CDLL("libcuda.so.1")
assert library.cuInit(0) == 0
contexts = []
for device in range(seen.cuda.devices):
    flags, active = ctypes.c_uint(), ctypes.c_int()
    state = library.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    assert state == 0
    contexts.append(active.value)
print(json.dumps([took, contexts, len(found.checks), len(shown.nodes)]))
"""


def test_looking_makes_no_context_and_takes_little_time(devices: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    took, contexts, checks, nodes = json.loads(done.stdout.splitlines()[-1])
    assert contexts == [0] * devices
    assert checks > 10
    assert nodes >= 2 + devices
    # Two seconds of imports and of the driver's start on an idle computer; others may be at work.
    assert took < 20


def test_the_driver_tells_of_every_gpu_and_pair(devices: int) -> None:
    start = time.perf_counter()
    details = read_details()
    assert time.perf_counter() - start < 10
    assert details.reason is None
    count = len(details.health)
    assert count >= devices  # CUDA may be shown fewer
    assert len(details.pairs) == count * (count - 1) // 2
    for health in details.health:
        assert health.memory_bytes is not None
        assert health.used_bytes is not None
        assert 0 <= health.used_bytes <= health.memory_bytes
    assert details.cuda is not None
    assert details.cuda >= 12000


def test_peer_access_is_what_cuda_says(devices: int) -> None:
    if devices < 2 or len(read_details().health) != devices:
        pytest.skip("needs two GPUs, all of which CUDA shows")
    runtime = cupy.cuda.runtime
    buses = [runtime.deviceGetPCIBusId(gpu)[-10:].lower() for gpu in range(devices)]
    seen = observe(TOPOLOGY)
    assert seen.about is not None
    assert seen.details is not None
    by_bus = {(gpu.bus or "")[-10:]: gpu.index for gpu in seen.about.gpus}
    for one in range(devices):
        for other in range(one + 1, devices):
            pair = seen.details.pair(by_bus[buses[one]], by_bus[buses[other]])
            assert pair is not None
            if pair.peer is not None:
                assert pair.peer == bool(runtime.deviceCanAccessPeer(one, other))


def test_every_device_is_found_among_the_drivers_gpus(devices: int) -> None:
    addresses = cuda_look.addresses()
    assert len(addresses) == devices
    about, pairs = shown(discover(Path("/")), read_details().pairs, addresses)
    assert [gpu.index for gpu in about.gpus] == list(range(devices))
    for gpu in about.gpus:
        name = cupy.cuda.runtime.getDeviceProperties(gpu.index)["name"]
        assert gpu.name == (name.decode() if isinstance(name, bytes) else name)
    assert len(pairs) == devices * (devices - 1) // 2


def test_every_check_can_tell_or_says_why(devices: int) -> None:
    found = examine(observe())
    outcomes = {check.check: check.outcome for check in found.checks}
    assert outcomes["cuda"] in ("fine", "found")
    assert outcomes["gpu-memory"] in ("fine", "found")
    assert "absent" not in {outcomes[word] for word in ("pcie", "rate", "gpu-health", "gds")}
    assert (outcomes["peer"] == "absent") == (devices < 2)
    assert [f.seen for f in found.findings if f.seen.startswith("the check failed")] == []


def test_the_verbs_end_as_their_verdict_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path))
    assert main(["doctor", "--json"]) == ExitCode.OBJECTIVE  # it has no calibration
    body = json.loads(capsys.readouterr().out)
    assert body["verdict"]["exit_code"] == ExitCode.OBJECTIVE
    assert main(["topo", "--json"]) == ExitCode.DONE
    printed = json.loads(capsys.readouterr().out)
    gpus = [node for node in printed["nodes"] if node["kind"] == "hbm"]
    assert gpus
    assert all(node["capacity_bytes"] for node in gpus)
    assert topo_here(observe(TOPOLOGY)).verdict.passed
