"""The parts of a plan, read one by one from the merged text, with all faults at their places."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from planner.errors import Fault, InputError
from planner.plan.check import check_objectives, check_parts
from planner.plan.include import EXAMPLE
from planner.plan.objectives import Objective, parse_objective
from planner.plan.schema import VERSION, Compute, Flow, Pieces, Plan
from planner.plan.tree import Items, Node, Place, Positions, Scalar, SourceText, Table, child
from planner.plan.typed import Complaint, build, refused
from planner.wording import quoted

_SECTIONS: Final = ("vars", "flows", "compute", "matrix", "budget")

_NEVER_FILES: Final = ("host", "gpu", "nic")


def is_machine_file(machine: str) -> bool:
    """Whether `machine` names a file, not an entry of the catalogue."""
    return machine.endswith((".yaml", ".yml")) or "/" in machine


@dataclass(frozen=True, slots=True)
class Home:
    """Where a plan comes from: what to call it, where its paths start, its default name."""

    file: str
    folder: Path
    name: str


def located(complaint: Complaint, positions: Positions, file: str) -> Fault:
    """The fault of a complaint, at the place that its path has in the text."""
    path, message = _as_written(complaint.path, positions), complaint.message
    alone = path.removesuffix("[0]")
    if path not in positions.values and alone in positions.values:
        path = alone  # a list of one is written without brackets
    place = positions.keys.get(path) if complaint.on_key else None
    place = place or positions.nearest(path) or Place(SourceText(file, Path()))
    for name, where in positions.variables.get(path, ()):
        message = f"{message} (${name} is set at {where})"
    return place.fault(path, message, complaint.suggestion)


def _as_written(path: str, positions: Positions) -> str:
    """A path below `route` of a flow by the word `via` where the text has that."""
    flow, _, rest = path.partition(".route")
    if path == flow or f"{flow}.route" in positions.keys or f"{flow}.via" not in positions.keys:
        return path
    return f"{flow}.via{rest}"


def _named_nothing(data: Any, path: str) -> Iterator[Complaint]:
    """Keys that are written and hold nothing, where leaving them out means something of its own."""
    for key, hint in (
        ("file", "leave it out for a scratch file, or name one"),
        ("for_each", "leave it out for one flow, or write it like { gpu: 0..7 }"),
    ):
        if isinstance(data, dict) and key in data and not data[key]:
            yield Complaint(child(path, key), "nothing is written here", hint, on_key=True)


class Parts:
    """Reads the parts of a plan one by one, so that a fault in one hides none in another.

    `whole` is false where some of its text could not be read: what is missing may stand there.
    """

    def __init__(
        self, root: Table, home: Home, overrides: Mapping[str, str], *, whole: bool = True
    ) -> None:
        self.positions = Positions()
        self.plan: Plan | None = None
        self._home = home
        self._complaints: list[Complaint] = []
        self._folders: dict[str, Path] = {}
        self._waits: dict[str, tuple[str, ...]] = {}
        data = self._plain_table(root, "")
        self._empty_sections(data)
        self._check_version(data)
        flows = self._section(data, "flows", self._flow)
        compute = self._section(data, "compute", self._compute)
        objectives = self._objectives(data)
        self._complaints.extend(check_parts(flows, compute, self._waits))
        named = [(path, objective) for path, objective in objectives if objective is not None]
        self._complaints.extend(check_objectives(named, flows, compute))
        if whole and not flows and not self._complaints:
            self._complaints.append(
                Complaint("flows", "the plan moves nothing", f"write {EXAMPLE}")
            )
        self._finish(data, overrides)
        if self.plan is not None:
            self.plan = self.plan.model_copy(
                update={
                    "flows": flows,
                    "compute": compute,
                    "objectives": tuple(objective for _, objective in named),
                }
            )

    def faults(self) -> list[Fault]:
        """Everything found, except about values whose variable has a fault of its own."""
        return [
            located(complaint, self.positions, self._home.file)
            for complaint in self._complaints
            if complaint.path not in self.positions.broken
        ]

    def _plain_table(self, table: Table, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, entry in table.entries.items():
            where = child(path, key)
            self.positions.keys[where] = entry.key
            data[key] = self._plain(entry.node, where, entry.key)
        return data

    def _plain(self, node: Node, path: str, key: Place | None) -> Any:
        """Text, lists and dictionaries; notes where each value stands on the way."""
        if isinstance(node, Scalar):
            self.positions.values[path] = node.place
            self._folders[path] = node.place.source.folder
            if node.variables:
                self.positions.variables[path] = node.variables
            if node.broken:
                self.positions.broken.add(path)
            return node.text
        self.positions.values[path] = key if key is not None else node.place
        if isinstance(node, Items):
            return [self._plain(item, child(path, i), None) for i, item in enumerate(node.items)]
        return self._plain_table(node, path)

    def _empty_sections(self, data: dict[str, Any]) -> None:
        """A section with everything in it commented out is empty, not wrong."""
        for section in _SECTIONS:
            if data.get(section) == "":
                data[section] = {}
        if data.get("objectives") == "":
            data["objectives"] = []

    def _check_version(self, data: dict[str, Any]) -> None:
        written = data.get("version")
        if isinstance(written, str) and written.isdecimal() and int(written) > VERSION:
            self._complaints.append(
                Complaint(
                    "version",
                    f"this plan is version {written}; this planner reads up to {VERSION}",
                    "update planner",
                )
            )

    def _section(
        self, data: dict[str, Any], section: str, read: Callable[[Any, str], Any]
    ) -> dict[str, Any]:
        """The parts of `flows` or `compute` by name; None where one could not be read."""
        written = data.pop(section, {})
        if not isinstance(written, dict):
            found = "a list" if isinstance(written, list) else "one value"
            self._complaints.append(
                Complaint(
                    section,
                    f"needs a mapping, found {found}",
                    "write name: { … } below it",
                    on_key=True,
                )
            )
            return {}
        for name, part in written.items():
            after = part.get("after", ()) if isinstance(part, dict) else ()
            names = (after,) if isinstance(after, str) else after
            self._waits[name] = tuple(other for other in names if isinstance(other, str))
        return {name: read(part, child(section, name)) for name, part in written.items()}

    def _compute(self, data: Any, path: str) -> Compute | None:
        block, complaints = build(Compute, data, path)
        self._complaints.extend(complaints)
        return block

    def _flow(self, data: Any, path: str) -> Flow | None:
        from_file = isinstance(data, dict) and data.get("pieces") == "file"
        if from_file:
            data = {key: value for key, value in data.items() if key != "pieces"}
        self._complaints.extend(_named_nothing(data, path))
        flow, complaints = build(Flow, data, path)
        self._complaints.extend(complaints)
        if flow is None:
            return None
        if from_file and not flow.file:
            self._complaints.append(
                Complaint(child(path, "pieces"), "there is no file", "add file:")
            )
        return self._with_bytes(flow, path, from_file=from_file)

    def _with_bytes(self, flow: Flow, path: str, *, from_file: bool) -> Flow | None:
        """`flow` with the files it reads or writes, and with its size."""
        if flow.file and not flow.source.rpartition(".")[2].startswith(_NEVER_FILES):
            return self._with_sources(flow, path, from_file=from_file)
        changes: dict[str, Any] = {}
        if flow.file:
            changes["sink"] = self._sink(flow, path)
        if flow.size is None and flow.pieces is not None and flow.pieces.sizes:
            changes["size"] = sum(flow.pieces.sizes)
        elif flow.size is None:
            self._complaints.append(
                Complaint(
                    path, 'needs "size"', "write size: 14GB, or file: to read it", on_key=True
                )
            )
            return None
        return flow.model_copy(update=changes)

    def _with_sources(self, flow: Flow, path: str, *, from_file: bool) -> Flow | None:
        from planner.plan.sources import clip, find_sources  # most plans name no file

        try:
            sources = find_sources(flow.file, self._folder(child(path, "file")))
            files = sources.files if flow.size is None else clip(sources, flow.size)
        except InputError as error:
            self._complaints.append(Complaint(child(path, "file"), error.message, error.hint))
            return None
        changes: dict[str, Any] = {"files": files, "size": sum(file.size_bytes for file in files)}
        if from_file:
            sizes = sources.tensor_sizes
            left = sources.size_bytes - sum(sizes)
            if left and flow.size is None:
                message = f"{left} bytes of the data belong to no tensor"
                hint = "write the file again, or leave pieces out: all bytes go in one"
                self._complaints.append(Complaint(child(path, "pieces"), message, hint))
                return None
            changes["pieces"] = Pieces(count=max(len(sizes), 1), sizes=sizes)
        return flow.model_copy(update=changes)

    def _sink(self, flow: Flow, path: str) -> str | None:
        """The absolute path that `flow` writes."""
        from planner.plan.paths import absolute

        where = child(path, "file")
        if not any(name.rpartition(".")[2].startswith("disk") for name in flow.destinations):
            ends = ", ".join(flow.destinations)
            self._complaints.append(
                Complaint(where, f"neither {flow.source} nor {ends} is a disk", "leave file: out")
            )
        elif len(flow.file) > 1:
            self._complaints.append(Complaint(where, "a flow writes one file", "name one file"))
        elif glob.has_magic(flow.file[0]):
            message = f"a flow writes one file, and {quoted(flow.file[0])} is a pattern of names"
            self._complaints.append(Complaint(where, message, "name the file"))
        try:
            return str(absolute(flow.file[0], self._folder(where)))
        except InputError as error:
            self._complaints.append(Complaint(where, error.message, error.hint))
            return None

    def _folder(self, path: str) -> Path:
        """The folder of the file that the value at `path` is written in."""
        return self._folders.get(path, self._folders.get(child(path, 0), self._home.folder))

    def _objectives(self, data: dict[str, Any]) -> list[tuple[str, Objective | None]]:
        written = data.pop("objectives", [])
        if not isinstance(written, list):
            self._complaints.append(
                Complaint("objectives", "needs a list", "start each line with -", on_key=True)
            )
            return []
        return [
            (child("objectives", index), self._objective(text, child("objectives", index)))
            for index, text in enumerate(written)
        ]

    def _objective(self, text: Any, path: str) -> Objective | None:
        if not isinstance(text, str):
            self._complaints.append(
                Complaint(path, "an objective is one line", "write - weights.duration <= 10s")
            )
            return None
        try:
            return parse_objective(text)
        except ValueError as error:
            self._complaints.append(refused(path, error))
            return None

    def _finish(self, data: dict[str, Any], overrides: Mapping[str, str]) -> None:
        """Read what is left: the keys of the plan itself."""
        self._place_machine(data)
        self._read_matrix(data)
        included = data.get("include", "")
        names = included if isinstance(included, list) else [included]
        if not all(isinstance(name, str) for name in names):
            del data["include"]  # its reader has said so already
        plan, complaints = build(Plan, data, "")
        self._complaints.extend(complaints)
        if plan is None:
            return
        own: dict[str, Any] = {
            "overrides": dict(overrides),
            "source_file": self._home.file,
            "directory": str(self._home.folder),
        }
        if "name" not in data:
            own["name"] = self._home.name
        self.plan = plan.model_copy(update=own)

    def _read_matrix(self, data: dict[str, Any]) -> None:
        """Complain of axes that cannot be read; which keys there are shows when they are set."""
        written = data.get("matrix")
        if not isinstance(written, dict) or not written:
            return
        from planner.plan.matrix import AxisError, read_axis  # most plans have no matrix

        for key, values in written.items():
            path = child("matrix", key)
            try:
                read_axis(key, values)
            except AxisError as error:
                where = path if error.index is None else child(path, error.index)
                self._complaints.append(refused(where, error))

    def _place_machine(self, data: dict[str, Any]) -> None:
        """A machine file named in an included file starts from that file's folder."""
        machine, folder = data.get("machine"), self._folder("machine")
        if isinstance(machine, str) and is_machine_file(machine) and folder != self._home.folder:
            data["machine"] = os.path.relpath(folder / machine, self._home.folder)
