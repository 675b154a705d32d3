"""Read a machine: one of the catalogue by its name, or a file, YAML or JSON.

The text is read as nodes with positions and every scalar stays text until the schema parses it, so
`no`, `1:30` and `010` mean what they look like. All faults are reported in one go.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from pydantic import ValidationError

from planner.errors import Fault, MachineError
from planner.machine.names import name_faults
from planner.machine.override import with_overrides
from planner.machine.schema import Machine
from planner.machine.shift import knows_spread, shifted
from planner.machine.written import Mark, Path as KeyPath, Written, nearest_of
from planner.wording import quoted

__all__ = [
    "CATALOG",
    "catalogue",
    "is_machine_text",
    "knows_spread",
    "load_machine",
    "parse_machine",
    "shifted",
    "with_overrides",
]

CATALOG: Final = Path(__file__).parent / "catalog"
"""The folder of the machines that come with the package."""

_SUFFIXES: Final = (".yaml", ".yml", ".json")
# A machine of 64 hosts with 8 GPUs each writes about 150,000 keys and scalars. Aliases of aliases
# (`&a [*b, *b]`, `&b [*c, *c]` …) write more in a few lines than fits into memory.
_MOST_NODES: Final = 5_000_000
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OF_OTHERS: Final = frozenset({"flows", "compute", "vars", "machine", "include", "format"})
"""Keys of plans and of saved results, which may have some words of machine files beside them."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_NO_OVERRIDES: Final[Mapping[str, str]] = MappingProxyType({})


def catalogue() -> list[str]:
    """The names of the machines that come with the package, sorted."""
    return sorted(path.stem for path in CATALOG.glob("*.yaml"))


def load_machine(
    name_or_path: str,
    *,
    directory: Path | None = None,
    overrides: Mapping[str, str] = _NO_OVERRIDES,
) -> Machine:
    """The machine of that name in the catalogue, or in that file.

    Parameters
    ----------
    name_or_path
        A name of `catalogue()`, or the path of a YAML or JSON file; it is a path when it has one
        of their suffixes or a `/`.
    directory
        Where a relative path starts; the current directory by default.
    overrides
        Key paths and new values, like `{"links.pcie0.rate": "22GB/s"}`.

    Raises
    ------
    MachineError
        If there is no such machine, the file is wrong, or an override does not fit. For `here`
        too: what this computer is has to be measured, which is more than reading a file.
    """
    path = _path_of(name_or_path, directory)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MachineError(
            f"{path} is not text in UTF-8 (byte {error.start})", hint="save the file as UTF-8"
        ) from error
    except OSError as error:
        raise MachineError(
            f"{path} cannot be read: {error.strerror}", hint="see who may read it: ls -l"
        ) from error
    return with_overrides(parse_machine(text, str(path)), overrides)


def _path_of(name_or_path: str, directory: Path | None) -> Path:
    """The file to read, which exists; a catalogue name wins over a file of the same name."""
    if name_or_path == "here":
        raise MachineError(
            "the machine `here` is this computer: it is measured, not read from a file",
            hint="run `planner calibrate`, or name a machine of the catalogue",
        )
    names = catalogue()
    if not name_or_path.strip():
        raise MachineError(
            "no machine is named",
            hint="name one of the catalogue, a file, or here; or nothing: here",
        )
    if name_or_path in names:
        return CATALOG / f"{name_or_path}.yaml"
    path = (directory or Path()) / Path(name_or_path).expanduser()
    if _is_file(path):
        return path
    if _is_folder(path):
        raise MachineError(f"{path} is a folder", hint="name the machine file in it")
    if "/" in name_or_path or name_or_path.endswith(_SUFFIXES):
        raise MachineError(
            f"there is no machine file {path}", hint=f"relative to {path.parent.resolve()}"
        )
    raise MachineError(
        f"there is no machine {quoted(name_or_path)}",
        hint=nearest_of(name_or_path, [*names, "here"])
        or f"the catalogue has {', '.join(names)}; a file needs its .yaml",
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than names can be
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def is_machine_text(text: str) -> bool:
    """Whether `text` has keys of a machine file and none of a plan or of a result.

    Its values may be wrong; of a text that is not YAML nobody can tell.
    """
    try:
        # Where a tab is a fault, who reads all of it tells.
        plain = text.removeprefix("\ufeff").replace("\t", " ")
        root = yaml.compose(plain, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError):
        return False
    if not isinstance(root, yaml.MappingNode):
        return False
    keys = {str(key.value) for key, _ in root.value if isinstance(key, yaml.ScalarNode)}
    return not keys & _OF_OTHERS and bool(keys & {"nodes", "links", "sources"})


def parse_machine(text: str, file: str) -> Machine:
    """The machine that `text` describes; raises `MachineError` with all faults, named by `file`."""
    written = _read(text, file)
    if not written.faults and not isinstance(written.tree, dict):
        message = "the file is empty" if written.tree is None else "a machine is a block of keys"
        hint = "`planner calibrate -o FILE` writes a whole one"
        written.faults.append(written.fault((), message, hint))
    if not written.faults:
        machine = _check(written)
        if machine is not None:
            return machine
    faults = sorted(written.faults, key=lambda fault: (fault.line, fault.column))
    several = f" ({len(faults)} faults)" if len(faults) > 1 else ""
    first = faults[0]
    where = f"{first.path}: " if first.path else ""
    raise MachineError(
        f"{first.position()}: {where}{first.message}{several}",
        faults=faults,
        hint=first.suggestion,
    )


def _check(written: Written) -> Machine | None:
    """The machine, or `None` and the faults noted."""
    unknown = name_faults(written.tree)
    try:
        machine = Machine.model_validate(written.tree)
    except ValidationError as error:
        written.faults += written.of_validation(error)
    else:
        return machine
    written.faults += written.of_names(unknown)
    return None


def _read(text: str, file: str) -> Written:
    """The text as nested dicts, lists and strings; what the YAML itself gets wrong is noted."""
    if file.endswith(".json"):
        # A tab may stand between JSON tokens but starts none in YAML; inside JSON strings a raw
        # tab is forbidden, so a space in its place changes nothing and keeps the columns.
        text = text.replace("\t", " ")
    written = Written(file=file, lines=text.splitlines())
    try:
        root = yaml.compose(text.removeprefix("\ufeff"), Loader=_LOADER)
        if root is not None:
            written.tree = _Reader(written).read(root, ())
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1, 1) if at else Mark(1, 1, 1)
        problem = error.problem or error.context or "it cannot be read"
        hint = "write out what is meant" if "alias" in problem else None
        written.faults.append(written.fault((), f"this is not YAML: {problem}", hint, mark=mark))
    except yaml.YAMLError as error:
        problem = str(error).splitlines()[0]
        written.faults.append(written.fault((), f"this is not YAML: {problem}"))
    except RecursionError:
        message = "the blocks are nested too deeply to be read"
        written.faults.append(
            written.fault((), message, "close each brace and bracket where it belongs")
        )
    return written


class _Reader:
    """Walks YAML nodes into `written`; `null` is the only scalar that does not stay text."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self.seen = 0
        self.open: set[int] = set()

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        self.written.values[path] = _mark(node)
        self.seen += 1
        if self.seen > _MOST_NODES or id(node) in self.open:
            problem = "an alias contains itself" if id(node) in self.open else "too many aliases"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            plain = node.style is None or node.style == ""
            return None if plain and node.value in _NULLS else str(node.value)
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            value: Any = self._mapping(node, path)
        else:
            value = [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        self.open.discard(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        block: dict[str, Any] = {}
        for key, value in node.value:
            mark = _mark(key)
            if not isinstance(key, yaml.ScalarNode):
                self._note(path, "a key is one word", mark)
                continue
            name = str(key.value)
            at = (*path, name)
            if name in block:
                first = self.written.keys[at].line
                self._note(at, f'the key "{name}" is written twice (first in line {first})', mark)
                continue
            self.written.keys[at] = mark
            block[name] = self.read(value, at)
        return block

    def _note(self, path: KeyPath, message: str, mark: Mark) -> None:
        fault: Fault = self.written.fault(path, message, mark=mark)
        self.written.faults.append(fault)


def _mark(node: yaml.Node) -> Mark:
    """Where a node stands; one that goes over several lines is marked by its first character."""
    start, end = node.start_mark, node.end_mark
    if start is None:  # nodes that were composed from text have marks
        return Mark(1, 1, 1)
    one_line = end is not None and end.line == start.line
    span = end.column - start.column if one_line and end is not None else 1
    return Mark(start.line + 1, start.column + 1, max(span, 1))
