"""What the start of the command line imports. `benchmarks/startup.py` measures the seconds.

Imports are what the start costs, and they do not vary with the load of the computer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.app import VERBS

ROOT = Path(__file__).resolve().parent.parent

HEAVY = {"cupy", "jinja2", "networkx", "numpy", "psutil", "pydantic", "pynvml", "rich", "yaml"}

SCRIPT = """
import io, json, sys
sys.stdout = io.StringIO()
from planner.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.__stdout__)
"""


def loaded(*arguments: str) -> set[str]:
    """Names of all modules that `planner ARGUMENTS` imports; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    code, modules = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["-h"]])
def test_help_imports_nothing_heavy_and_no_verb(arguments: list[str]) -> None:
    modules = loaded(*arguments)
    assert not modules & HEAVY
    assert not {f"planner.cli.{verb}" for verb in VERBS} & modules


@pytest.mark.parametrize(
    "verb",
    ["check", "estimate", "execute", "diff", "calibrate", "topo", "doctor", "history", "schema"],
)
def test_the_help_of_a_verb_imports_that_verb_alone(verb: str) -> None:
    modules = loaded(verb, "--help")
    # Newer versions of typer read the types of options with pydantic.
    assert not modules & (HEAVY - {"pydantic"})
    assert f"planner.cli.{verb}" in modules
    assert not any(m.startswith(("planner.engine", "planner.model")) for m in modules)


def test_an_estimate_takes_what_it_needs_and_nothing_that_draws_or_moves() -> None:
    modules = loaded("estimate", "plans/llm_load.yaml")
    assert not modules & {"cupy", "jinja2", "psutil", "pynvml", "rich", "numba"}
    assert not any(m.startswith("planner.engine") for m in modules)
    assert not {m for m in modules if m.startswith("planner.report")} & {"planner.report.run"}
    assert not modules & UNUSED


# What a plan of one flow over the only route there is does without: other plans load it.
UNUSED = {
    "planner.model.fanout",  # several copies of one flow
    "planner.model.split",  # several routes
    "planner.plan.safetensors",  # a file
    "planner.plan.settings",  # --set
    "planner.plan.sources",
    "planner.results.diff",  # a comparison
}


def test_what_one_plan_does_without_another_one_loads() -> None:
    modules = loaded("estimate", "plans/tensor_parallel_load.yaml", "--set", "name=eight")
    assert modules >= {"planner.model.fanout", "planner.model.split", "planner.plan.settings"}


def test_only_the_end_of_the_process_is_spared_the_search_for_cycles() -> None:
    script = (
        "import gc, sys; from planner.cli import main\n"
        "sys.argv = ['planner', '--version']\n"
        "spared = gc.get_freeze_count()\n"  # Python 3.12 spares some objects from the start
        "called = main(['--version']), gc.get_freeze_count() - spared\n"
        "ended = main(), gc.get_freeze_count() - spared\n"
        "print(*called, ended[0], ended[1] > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    # A program that calls `main` with a command line goes on, and its memory must be collected.
    assert done.stdout.splitlines()[-1] == "0 0 0 True"


def test_importing_the_package_takes_no_library_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import planner, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    assert not set(done.stdout.split()) & (HEAVY | {"typer"})


def test_a_load_starts_without_the_model_and_the_schemas() -> None:
    # They would take three times as long to import as all that a load needs, before its first read.
    script = "import planner.engine.load, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(done.stdout.split())
    assert not modules & (HEAVY - {"numpy"})
    assert not {"planner.results", "planner.plan.schema", "planner.machine.schema"} & modules
    assert not any(m.startswith("planner.model") for m in modules)


LOADED = """
import sys
from contextlib import closing
from tests.helpers.cuda_library import installed
from planner.engine.backends.base import Engine
from planner.engine.serving.opening import open_for
with installed(), closing(open_for("cuda", 1)) as backend:
    target = backend.allocate(1, 100)
    backend.register(1 << 20, 100)
    lane = backend.lane(Engine("h2d", 1), 2, timed=False)
    lane.copy(0, target.address, 1 << 20, 100)
    lane.wait(0)
    lane.close()
    print(*(name for name in sys.modules if sys.modules[name]))  # forgotten behind the block
"""


def test_what_a_load_does_on_a_gpu_goes_without_cupy() -> None:
    # Its import takes up to most of a second, which a first load would wait for.
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(done.stdout.split())
    assert not modules & (HEAVY - {"numpy"})
    assert not {"cupyx", "kvikio"} & modules
    # Nor the model and the schemas: building those takes a tenth of a second more.
    assert not {"planner.model.strategies", "planner.machine.schema", "planner.results"} & modules
