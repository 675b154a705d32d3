"""Reads the package's source for what its layout forbids; `tests/test_floors.py` holds the rules.

A module may import only from its own floor or a lower one, each heavy library has one home, and
only the command line prints or ends the process. Imports inside functions and under
TYPE_CHECKING count as well: an idea that depends on a higher floor is in the wrong place,
whenever the import happens.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

FLOORS: Final = {
    "_version": 0,
    "arguments": 0,
    "errors": 0,
    "files": 0,
    "native": 0,
    "quantities": 0,
    "units": 0,
    "wording": 0,
    "machine": 1,
    "plan": 2,
    "results": 2,
    "schedule": 2,
    "model": 3,
    "engine": 4,
    "review": 5,
    "report": 6,
    "cli": 7,
}
IDEAS: Final = {
    0: "errors, arguments, files, units, quantities, words, native reads, version",
    1: "what the hardware is",
    2: "what people write, and what is emitted",
    3: "what will happen",
    4: "what does happen",
    5: "how they compare",
    6: "how it is shown",
    7: "the command line",
    8: "the front door, for the command line and for those outside",
}
DOOR: Final = 8
"""`planner/__init__.py` and `__main__.py`: they may import everything; only `cli/` uses them."""


class Home(NamedTuple):
    """Where a library may be imported: patterns of paths below the package."""

    patterns: tuple[str, ...]
    why: str

    def has(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.patterns)


_CUDA: Final = Home(("engine/backends/cuda*",), "the model and the other backends run without it")
_DOOR: Final = Home(("cli/*",), "everything below is used as a library")
HOMES: Final = {
    "cupy": _CUDA,
    "cupyx": _CUDA,
    "cuda": _CUDA,
    "kvikio": _CUDA,
    "torch": Home(("engine/serving/in_torch.py",), "whoever asks for its tensors has it"),
    "networkx": Home(("machine/topology.py",), "the rest sees routes, not graphs"),
    "yaml": Home(
        ("plan/load.py", "plan/yaml_*.py", "machine/load.py"), "the rest sees checked schemas"
    ),
    "jinja2": Home(("report/*",), "only reports are rendered"),
    "typer": _DOOR,
    "click": _DOOR,
    "rich": Home(("cli/*", "report/text.py"), "only the terminal is drawn on"),
    "numba": Home(("model/_fluid*.py",), "only the simulation's inner loop is compiled"),
    "pynvml": Home(("machine/discover*.py", "engine/calibrate*"), "the rest sees the machine file"),
}
SPEAKERS: Final = Home(("cli/*", "__main__.py"), "a library returns or raises")

_ENDS: Final = {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}


def floor_of(module: str) -> int:
    """Floor of a dotted name such as `planner.model.estimate`.

    What is on no floor (`planner.estimate`) is a public name, taken from the front door.
    """
    parts = module.split(".")
    return FLOORS.get(parts[1], DOOR) if len(parts) > 1 else DOOR


def imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, also relative ones and `import_module("…")`.

    `path` lies below the package (`model/estimate.py`). For `from a import b` the name is `a.b`,
    since `b` may be a module.
    """
    package = ("planner/" + path).split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = _dotted(node.func)
            name = node.args[0]
            if called.split(".")[-1] in {"import_module", "__import__"} and isinstance(
                name, ast.Constant
            ):
                yield node.lineno, str(name.value)


def misplaced(source: str, path: str) -> list[str]:
    """Say what `source` may not hold when it lies at `path` below the package, and where it may."""
    tree = ast.parse(source)
    faults = [
        f"planner/{path}:{line}: {fault}"
        for line, name in imports(tree, path)
        if (fault := _wrong_import(name, path))
    ]
    if not SPEAKERS.has(path):
        faults += [
            f"planner/{path}:{line}: {what} belongs in planner/cli/ ({SPEAKERS.why})"
            for line, what in _speech(tree)
        ]
    return faults


def _wrong_import(name: str, path: str) -> str:
    """Say why `path` may not import `name` and what to do; empty when it may."""
    top = name.split(".", maxsplit=1)[0]
    if top != "planner":
        home = HOMES.get(top)
        if home is None or home.has(path):
            return ""
        return f"{top} belongs in {' or '.join(home.patterns)}: {home.why}"
    module = "planner." + path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    own, other = floor_of(module), floor_of(name)
    if own == FLOORS["cli"] and other == DOOR:  # a verb calls what the public names offer
        return ""
    if other <= own:
        return ""
    return (
        f"{name} is on floor {other} ({IDEAS[other]}), above floor {own} ({IDEAS[own]}): "
        f"move what uses it to floor {other}, or what it defines to floor {own} or below"
    )


def _speech(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that prints or ends the process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _dotted(node.func)) in {"print", *_ENDS}:
            yield node.lineno, f"{name}(…)"
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            if node.exc.id == "SystemExit":
                yield node.lineno, "raise SystemExit"
        elif isinstance(node, ast.Attribute) and _dotted(node) in {"sys.stdout", "sys.stderr"}:
            yield node.lineno, _dotted(node)
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            names = {alias.name for alias in node.names} & {"exit", "stdout", "stderr"}
            yield from ((node.lineno, f"sys.{name}") for name in sorted(names))


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain on a name; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


MOST_LINES: Final = 350
MOST_FUNCTION_LINES: Final = 60


def too_long(source: str, path: str) -> list[str]:
    """Say which file and which functions hold more than one idea."""
    count = len(source.splitlines())
    faults = []
    if count > MOST_LINES:
        faults.append(f"planner/{path}: {count} lines, over {MOST_LINES}: one idea a file")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_FUNCTION_LINES:
                faults.append(
                    f"planner/{path}:{node.lineno}: {node.name} has {length} lines, over "
                    f"{MOST_FUNCTION_LINES}: name its steps"
                )
    return faults
