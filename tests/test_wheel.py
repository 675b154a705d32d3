"""The wheel, as a stranger gets it: built from the tree, installed beside nothing else, used.

The environment is really clean: pip brings the declared dependencies and no more, which takes
about 10 s from a near or cached index (measured 2026-11-29 on two cores). Borrowing the libraries
of the running environment would be quicker, and would hide a dependency that nobody declared.
Without an index the tests here fail; they do not pass or skip unseen.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 300  # a slow index, not a slow installation
PACKED = ("planner/", "templates/")
PROBE = "templates/probe/page.html.j2"
PLAN = """\
version: 1
name: outside
machine: h200-sxm-1
flows:
  weights: { from: disk0, to: gpu0, size: 64MB }
"""

# A library that an extra brings may be missing, as long as only its own modules miss it.
IMPORT_ALL = """\
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        homes = {
            "cupy": "planner.engine.backends.cuda",
            "cuda": "planner.engine.backends.cuda",
            "numba": "planner.model._fluid",
        }
        home = homes.get((missing.name or "").partition(".")[0])
        if home is None or not name.startswith(home):
            raise
"""


def _run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in `cwd` with nothing of this environment or checkout to import from."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def _done(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed."""
    result = _run(*command, cwd=cwd)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@dataclass(frozen=True)
class Installed:
    """A wheel and the environment that holds it; `desk` is a folder far from the checkout."""

    wheel: Path
    sources: frozenset[str]
    python: Path
    desk: Path

    def planner(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _run(self.python.parent / "planner", *arguments, cwd=self.desk)

    def prints(self, *arguments: str) -> str:
        return _done(self.python.parent / "planner", *arguments, cwd=self.desk)


def _sources() -> list[str]:
    """Files that belong to the tree: those that git tracks, and new ones that it does not ignore.

    From an unpacked source archive, which has no history, everything but environments.
    """
    if (ROOT / ".git").exists():
        command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = _done(*command, cwd=ROOT).split("\0")
    else:
        files = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [
            path.as_posix()
            for path in files
            if not any(part.startswith(".venv") or part == "__pycache__" for part in path.parts)
        ]
    return [name for name in names if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("wheel")
    tree, home, desk = base / "tree", base / "environment", base / "desk"
    names = _sources()
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    # One template more than the tree has, so that their way into the wheel is proven by itself.
    (tree / PROBE).parent.mkdir(parents=True)
    (tree / PROBE).write_text("{{ title }}\n", encoding="utf-8")
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", base)
    _done(sys.executable, *build, tree, cwd=base)
    (wheel,) = base.glob("*.whl")
    # pip stays out of the environment, so that nothing lies there but what the wheel asks for.
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    pip = ("-m", "pip", "--python", python, "install", "--quiet", "--no-input")
    _done(sys.executable, *pip, "--disable-pip-version-check", wheel, cwd=base)
    desk.mkdir()
    (desk / "plan.yaml").write_text(PLAN, encoding="utf-8")
    packed = frozenset(name for name in [*names, PROBE] if name.startswith(PACKED))
    return Installed(wheel, packed, python, desk)


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(installed: Installed) -> None:
    held = set(zipfile.ZipFile(installed.wheel).namelist())
    wanted = {re.sub(r"^templates/", "planner/_templates/", name) for name in installed.sources}
    assert {name for name in held if ".dist-info/" not in name} == wanted
    assert any(re.fullmatch(r".*\.dist-info/licenses/LICENSE", name) for name in held)


@pytest.mark.parametrize(
    "pattern",
    [
        r"planner/py\.typed",
        r"planner/machine/catalog/.+\.yaml",
        r"planner/_templates/probe/page\.html\.j2",
    ],
)
def test_the_wheel_holds_what_is_no_code(installed: Installed, pattern: str) -> None:
    held = zipfile.ZipFile(installed.wheel).namelist()
    assert any(re.fullmatch(pattern, name) for name in held), f"no {pattern} in the wheel"


def test_the_package_comes_from_the_environment_not_the_checkout(installed: Installed) -> None:
    where = _done(
        installed.python, "-c", "import planner; print(planner.__file__)", cwd=installed.desk
    )
    assert Path(where.strip()).is_relative_to(installed.python.parent.parent)


def test_every_module_can_be_imported_with_the_declared_libraries(installed: Installed) -> None:
    modules = sorted(
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in installed.sources
        if name.endswith(".py")
    )
    _done(installed.python, "-c", IMPORT_ALL, *modules, cwd=installed.desk)


def test_version(installed: Installed) -> None:
    version = installed.wheel.name.split("-")[1]
    assert installed.prints("--version") == f"planner {version}\n"


def test_every_verb_explains_itself(installed: Installed) -> None:
    listing = installed.prints("--help").partition("Verbs:\n")[2].partition("\n\n")[0]
    verbs = re.findall(r"^  (\w+)  ", listing, flags=re.MULTILINE)
    known = {"calibrate", "check", "doctor", "estimate", "execute", "report", "schema", "topo"}
    assert known <= set(verbs)
    for verb in verbs:
        assert f"planner {verb}" in installed.prints(verb, "--help")


def test_schema(installed: Installed) -> None:
    assert "flows" in json.loads(installed.prints("schema"))["properties"]


def test_check(installed: Installed) -> None:
    installed.prints("check", "plan.yaml")
    (installed.desk / "bad.yaml").write_text(PLAN.replace("64MB", "64Mb"), encoding="utf-8")
    refused = installed.planner("check", "bad.yaml")
    assert refused.returncode == 3
    assert "bad.yaml:5:" in refused.stdout + refused.stderr


def test_estimate(installed: Installed) -> None:
    assert "weights" in installed.prints("estimate", "plan.yaml")
    result = json.loads(installed.prints("estimate", "plan.yaml", "--json"))
    assert result["format"].startswith("planner.estimate/")
    assert [flow["name"] for flow in result["flows"]] == ["weights"]


def test_execute_on_the_virtual_clock(installed: Installed) -> None:
    result = json.loads(installed.prints("execute", "plan.yaml", "--backend", "null", "--json"))
    assert result["format"].startswith("planner.run/")


def test_topo_of_the_catalogue_and_of_this_computer(installed: Installed) -> None:
    assert "gpu1" in installed.prints("topo", "--machine", "h200-sxm-2")
    found = json.loads(installed.prints("topo", "--json"))
    assert found["format"].startswith("planner.topo/")
    assert "host0" in [node["name"] for node in found["nodes"]]


def test_doctor_examines_a_machine_and_this_computer(installed: Installed) -> None:
    examined = installed.planner("doctor", "--machine", "h200-sxm-1", "--json")
    assert json.loads(examined.stdout)["format"].startswith("planner.doctor/")
    here = installed.planner("doctor", "--json")
    result = json.loads(here.stdout)
    assert here.returncode == result["verdict"]["exit_code"]
    assert len(result["checks"]) > 10


def test_report_finds_its_templates(installed: Installed) -> None:
    installed.prints("estimate", "plan.yaml", "--html", "page.html")
    page = (installed.desk / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert 'id="planner-result"' in page
