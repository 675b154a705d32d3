from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import ExitCode, Fault, MachineError
from planner.machine.load import catalogue, load_machine, parse_machine
from planner.machine.schema import Ram

SMALL = """\
name: small
sources:
  me: {kind: assumed, where: here, when: today}
nodes:
  host0: {kind: ram, capacity: 8GiB, cores: 4}
  gpu0: {kind: hbm, host: host0, device: 0, capacity: 4GB}
links:
  pcie0:
    kind: pcie
    ends: [host0, gpu0]
    forward:
      rate: 10GB/s
      curves:
        pinned: {latency: 5us, rate: 10GB/s, points: [[4KiB, 6us], [1MiB, 0.11ms]]}
"""


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(MachineError) as caught:
        parse_machine(text, "m.yaml")
    assert caught.value.exit_code is ExitCode.INPUT
    return caught.value.faults


def swapped(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def test_a_file_becomes_a_machine_with_bytes_seconds_and_rates() -> None:
    machine = parse_machine(SMALL, "m.yaml")
    forward = machine.links["pcie0"].forward
    assert forward is not None
    assert (machine.nodes["host0"].kind, forward.rate) == ("ram", 10e9)
    assert forward.curves["pinned"].points[1].seconds == 0.11e-3


def test_a_path_is_relative_to_the_given_directory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "m.yaml").write_text(SMALL)
    assert load_machine("deep/m.yaml", directory=tmp_path).name == "small"


def test_json_is_read_too_with_tabs_between_its_tokens(tmp_path: Path) -> None:
    text = """{
\t"name": "j", "sources": {"a": {"kind": "cited", "where": "x", "when": "y"}},
\t"nodes": {"host0": {"kind": "ram", "capacity": "1GiB", "cores": 2}}
}"""
    (tmp_path / "m.json").write_text(text)
    node = load_machine(str(tmp_path / "m.json")).nodes["host0"]
    assert isinstance(node, Ram)
    assert (node.capacity, node.cores) == (2**30, 2)


def test_words_that_yaml_would_turn_into_something_else_stay_text() -> None:
    text = swapped("where: here, when: today", "where: no, when: 2026-11-29, note: 1:30")
    source = parse_machine(text, "m.yaml").sources["me"]
    assert (source.where, source.when, source.note) == ("no", "2026-11-29", "1:30")


def test_an_empty_value_is_nothing_and_a_quoted_one_is_text() -> None:
    text = swapped("cores: 4}", "cores: 4, limit: null, source: ~, cache: }")
    node = parse_machine(text, "m.yaml").nodes["host0"]
    assert isinstance(node, Ram)
    assert (node.limit, node.source, node.cache) == (None, None, None)
    (fault,) = faults_of(swapped("cores: 4}", 'cores: 4, limit: "null"}'))
    assert fault.path == "nodes.host0.limit"


def test_an_alias_repeats_a_block() -> None:
    text = SMALL.replace("forward:", "forward: &way") + "    backward: *way\n"
    link = parse_machine(text, "m.yaml").links["pcie0"]
    assert link.backward == link.forward


def test_all_faults_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = (
        SMALL.replace("8GiB", "8")
        .replace("cores: 4", "cores: many")
        .replace("[host0, gpu0]", "[host0, gpu7]")
        .replace("rate: 10GB/s\n", "speed: 10GB/s\n")
    )
    found = [(fault.line, fault.path) for fault in faults_of(text)]
    assert found == [
        (5, "nodes.host0.capacity"),
        (5, "nodes.host0.cores"),
        (10, "links.pcie0.ends[1]"),
        (11, "links.pcie0.forward.rate"),
        (12, "links.pcie0.forward.speed"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "place", "message", "suggestion"),
    [
        ("8GiB", "8", "8, cores", '"8" has no unit', "8GB"),
        ("8GiB", "8Gb", "8Gb", "number of bits", "8GB (bytes)"),
        ("10GB/s\n", "10GB\n", "10GB", "not a rate", "10GB/s"),
        ("kind: ram", "kind: rum", "rum", '"rum" is not known here', '"ram"'),
        ("kind: ram, ", "", "host0: {", 'key "kind" is missing', "hbm"),
        ("device: 0, ", "", "gpu0: {", 'key "device" is missing', "add device: 0"),
        ("cores: 4", "cors: 4, cores: 4", "cors: 4", 'unknown key "cors"', '"cores"'),
        ("cores: 4", "zzz: 4, cores: 4", "zzz: 4", 'unknown key "zzz"', "capacity, limit"),
        ("kind: pcie\n", "kind: pcie\n    wide: 1\n", "wide: 1", 'unknown key "wide"', "width"),
        ("name: small", "name: small\nnode: 1", "node: 1", 'unknown key "node"', '"nodes"'),
        ("here, when", "here, wenn: 1, when", "wenn", 'unknown key "wenn"', '"when"'),
        ("latency:", "gab: 1us, latency:", "gab", 'unknown key "gab"', '"gap"'),
        ("cores: 4", "cores: 4, setup: {rate: 1GB/s}", "rate", 'unknown key "rate"', "register"),
        ("cores: 4", "cores: 4, setup: {register: 0}", "0}", "a rate is above 0", None),
        ("cores: 4", "cores: 4, cipher: 0GB/s", "0GB/s", "leave the key out", None),
        ("4GB}", "4GB, rate: 0}", "0}", "a rate is above 0", None),
        ("cores: 4", "cores: 0", "0}", '"0" must be at least 1', None),
        ("cores: 4", "cores: 4.5", "4.5", "a whole number", None),
        ("cores: 4", "cores: 4, cost: inf", "inf", "a finite number", None),
        ("10GB/s\n", "1e400GB/s\n", "1e400", "out of all proportion", "25GB/s"),
        ("cores: 4", "cores: 4, cost: cheap", "cheap", "a number, like", None),
        ("4GB}", "4GB, emulated: perhaps}", "perhaps", "true or false", None),
        ("host: host0", "host: hots0", "hots0", "no ram node", '"host0"'),
        ("host: host0", "host: gpu0", "gpu0, device", "no ram node", "one of: host0"),
        ("kind: assumed", "kind: guessed", "guessed", '"guessed" is not known', "assumed"),
        ("pinned: {", "pined: {", "pined: {", '"pined" is not known', '"pinned"'),
        ("kind: pcie\n", "kind: pci\n", "pci", '"pci" is not known', '"pcie"'),
        ("[host0, gpu0]", "[host0, host0]", "pcie0:", "two different places", None),
        ("[host0, gpu0]", "host0", "host0", "a list", None),
        ("[host0, gpu0]", "[host0]", "[host0]", "no entry 2", None),
        ("[host0, gpu0]", "[host0, gpu0, gpu0]", "[host0, gpu0, ", "more than 2 entries", None),
        ("[4KiB, 6us]", "{size: 4KiB, seconds: 6us, size_bytes: 4KiB}", "size:", "key", "size_"),
        ("6us]", "6]", "6], [1MiB", '"6" has no unit', "6s or 6ms"),
        ("[4KiB, 6us]", "[4KiB]", "[4KiB]", "a point is a pair", None),
        ("latency: 5us, ", "", "pinned:", 'key "latency" is missing', "add latency: 12ms"),
        ("name: small\n", "", "sources", 'key "name" is missing', "add name:"),
        ("name: small\n", "name: small\nversion: 2\n", "2", '"2" is not known', "use one of: 1"),
        ("{kind: assumed, where: here, when: today}", "me", "me", "a block of keys", None),
        ("10GB/s, points", "10GB/s, source: you, points", "you", "no entry of sources", "me"),
        (
            "kind: pcie\n",
            "kind: pcie\n    ports: [rot, null]\n",
            "rot",
            "not in ports",
            '"rot" first',
        ),
        (
            "links:",
            "ports: {root: {forward: 9GB/s, source: you}}\nlinks:",
            "you",
            "no entry of sources",
            "me",
        ),
        ("links:", "ports: {root: {forwards: 9GB/s}}\nlinks:", "forwards", "key", '"forward"'),
        ("rate: 10GB/s, p", "rate: 0, p", "0, points", "must be above 0", None),
        ("name: small", "name: ''", "''", "must not be empty", None),
        ("name: small", "name:", "", "nothing is written where one line of text", None),
        ("cores: 4", "cores: null", "null", "where a whole number, like 8, belongs", None),
        ("cores: 4", "cores: 4, issue: null", "null", "where a time, like 12ms, belongs", None),
        ("cores: 4", "cores: 4, issue: [1us]", "[1us]", "where a time, like 12ms, belongs", None),
        ("8GiB", "null", "null", "nothing is written where a size, like 14GB, belongs", None),
        ("10GB/s, p", "null, p", "null", "where a rate, like 25GB/s, belongs", None),
        ("6us]", "null]", "null", "nothing is written where a time, like 12ms, belongs", None),
        (
            "cores: 4",
            "cores: 4, copy: {file: {workers: [1], rings: [1MB], rates: [[1GB/s]], lead: [null]}}",
            "null",
            "nothing is written where a time, like 12ms, belongs",
            None,
        ),
    ],
)
def test_a_fault_says_where_what_and_how_to_mend_it(
    old: str, new: str, place: str, message: str, suggestion: str | None
) -> None:
    text = swapped(old, new)
    (fault,) = faults_of(text)
    assert message in fault.message
    assert (fault.suggestion is None) == (suggestion is None)
    assert (suggestion or "") in (fault.suggestion or "")
    assert fault.excerpt == text.splitlines()[fault.line - 1]
    assert fault.excerpt[fault.column - 1 :].startswith(place)


def test_an_unknown_port_gets_the_nearest_one_that_the_file_has() -> None:
    """Whatever reads the file says so, not only what follows the link."""
    text = swapped("links:", "ports: {root0: {forward: 9GB/s}}\nlinks:")
    text = text.replace("kind: pcie\n", "kind: pcie\n    ports: [null, rot0]\n")
    (fault,) = faults_of(text)
    assert (fault.path, fault.suggestion) == ("links.pcie0.ports[1]", 'did you mean "root0"?')


def test_a_placeholder_without_a_range_is_told_in_any_file() -> None:
    (fault,) = faults_of(
        swapped("  gpu0: {kind", "  gpu{i}: {kind").replace(", gpu0]", ", 'gpu{i}']")
    )
    assert 'replicate has no "i"' in fault.message


def test_the_path_of_a_fault_has_no_word_that_the_file_has_not() -> None:
    (fault,) = faults_of(swapped("6us]", "6]"))
    assert fault.path == "links.pcie0.forward.curves.pinned.points[0][1]"
    assert fault.span == 1


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", (1, 1), "the file is empty"),
        ("- a\n", (1, 1), "a machine is a block of keys"),
        ("name: [a\n", (2, 1), "this is not YAML"),
        ("name: a\nname: b\n", (2, 1), 'the key "name" is written twice (first in line 1)'),
        ("name: &a [*a]\n", None, "an alias contains itself"),
        ("? [a]\n: b\n", (1, 3), "a key is one word"),
        ("name: *b\n", (1, 7), "this is not YAML"),
        ("name: \x00\n", (1, 1), "this is not YAML"),
        ("[" * 2000, None, "this is not YAML"),
        ("{a: " * 900 + "}" * 900, None, "nested too deeply"),
    ],
)
def test_what_is_no_machine_at_all_is_one_fault(
    text: str, position: tuple[int, int] | None, message: str
) -> None:
    (fault,) = faults_of(text)
    assert message in fault.message
    assert position is None or (fault.line, fault.column) == position


def test_aliases_of_aliases_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.machine.load._MOST_NODES", 1000)
    # Each line holds ten of the line before: 10**4 scalars from four lines.
    text = "a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
    text += "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
    (fault,) = faults_of(text + "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n")
    assert "too many aliases" in fault.message
    assert fault.suggestion == "write out what is meant"


def test_a_name_that_is_nowhere_gets_the_nearest_of_the_catalogue() -> None:
    with pytest.raises(MachineError, match='no machine "h200-smx-1"') as caught:
        load_machine("h200-smx-1")
    assert caught.value.hint == 'did you mean "h200-sxm-1"?'
    with pytest.raises(MachineError) as caught:
        load_machine("zzz")
    assert all(name in (caught.value.hint or "") for name in catalogue())


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no machine file"):
        load_machine("gone.yaml", directory=tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\n")
    with pytest.raises(MachineError, match="UTF-8"):
        load_machine("bytes.yaml", directory=tmp_path)


def test_a_file_that_may_not_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.yaml").write_text(SMALL)

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(MachineError, match=r"m\.yaml cannot be read: Permission denied"):
        load_machine("m.yaml", directory=tmp_path)


def test_here_is_measured_and_not_loaded() -> None:
    with pytest.raises(MachineError, match="measured") as caught:
        load_machine("here")
    assert "calibrate" in (caught.value.hint or "")
