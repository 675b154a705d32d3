from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from planner.plan import yaml_nodes
from planner.plan.tree import Items, Node, Scalar, SourceText, Table
from planner.plan.yaml_nodes import DEEPEST, NotReadableError, read_nodes


def read(text: str) -> Node | None:
    root, faults = read_nodes(text, SourceText("p.yaml", Path(), tuple(text.splitlines())))
    assert not faults
    return root


def plain(node: Node | None) -> object:
    """`node` as texts, lists and dictionaries."""
    match node:
        case Scalar():
            return node.text
        case Items():
            return [plain(item) for item in node.items]
        case Table():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
        case None:
            return None


@pytest.fixture(params=["with the C library", "in Python"])
def _loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(yaml_nodes, "_LOADER", yaml.SafeLoader)


@pytest.mark.usefixtures("_loader")
class TestBothParsers:
    def test_every_scalar_stays_text(self) -> None:
        text = "on: yes\n1: 1:30\ndate: 2026-11-29\nnull: ~\nhex: 0x1F\n"
        assert plain(read(text)) == {
            "on": "yes",
            "1": "1:30",
            "date": "2026-11-29",
            "null": "~",
            "hex": "0x1F",
        }

    def test_places_count_from_one(self) -> None:
        root = read("flows:\n  w: { size: 14GB }\n")
        assert isinstance(root, Table)
        flows = root.entries["flows"].node
        assert isinstance(flows, Table)
        entry = flows.entries["w"]
        assert (entry.key.line, entry.key.column, entry.key.span) == (2, 3, 1)
        assert isinstance(entry.node, Table)
        size = entry.node.entries["size"].node.place
        assert (size.line, size.column, size.span) == (2, 14, 4)
        assert str(size) == "p.yaml:2:14"

    def test_aliases_and_merge_keys(self) -> None:
        text = "a: &a { x: 1, y: 2 }\nb: { <<: *a, y: 3 }\nc: [*a]\nd: { <<: [{ x: 9 }, *a] }\n"
        assert plain(read(text)) == {
            "a": {"x": "1", "y": "2"},
            "b": {"y": "3", "x": "1"},
            "c": [{"x": "1", "y": "2"}],
            "d": {"x": "9", "y": "2"},
        }

    def test_quoted_text_is_not_plain(self) -> None:
        root = read("a: ''\nb:\n")
        assert isinstance(root, Table)
        assert [
            entry.node.empty for entry in root.entries.values() if isinstance(entry.node, Scalar)
        ] == [
            False,
            True,
        ]

    @pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n"])
    def test_an_empty_text_has_no_root(self, text: str) -> None:
        assert read(text) is None

    @pytest.mark.parametrize(
        "text",
        [
            "{ [a]: b }",
            "? [a]\n: b\n",
            "? *a\n: b\n",
            "a: &a [1]\n? *a\n: b\n",
            "a: &a [*a]",
            "a: b\n---\nc: d\n",
            "a: 'b",
            "a: [",
            "%FOO\n",
            "a: \x00",
            "[" * 100_000,
            "a: " * 100_000,
            "- " * 1000 + "a",
        ],
    )
    def test_what_is_no_plan_stops_the_reading(self, text: str) -> None:
        with pytest.raises(NotReadableError) as caught:
            read(text)
        assert caught.value.fault.message

    def test_depth_is_limited_and_the_limit_is_far(self) -> None:
        assert plain(read("[" * DEEPEST + "]" * DEEPEST)) is not None
        with pytest.raises(NotReadableError, match="deep"):
            read("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("a: { b: 1, b: 2 }", "a.b", "first at line 1, column 6"),
        ("a: [{ b: 1 }, { c: 1, c: 2 }]", "a[1].c", "is given twice"),
        ("a: { <<: text }", "a.<<", "takes a mapping"),
        ("a: !foo x", "", "the tag !foo"),
        ("a: !!int 3", "", "the tag !!int"),
    ],
)
def test_faults_that_do_not_stop_the_reading(text: str, path: str, message: str) -> None:
    root, faults = read_nodes(text, SourceText("p.yaml", Path(), (text,)))
    assert root is not None
    (fault,) = faults
    assert fault.path == path
    assert message in fault.message


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    fault = None
    try:
        read_nodes(text, SourceText("p.yaml", Path(), tuple(text.splitlines())))
    except NotReadableError as error:
        fault = error.fault
    assert fault is None or fault.message


SCALARS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=12,
)


@given(TREES)
def test_what_a_yaml_writer_quotes_reads_back(tree: object) -> None:
    """Against PyYAML's own writer; every scalar in double quotes, so that all are text."""
    text = yaml.safe_dump(tree, default_style='"')
    assert plain(read(text)) == tree
