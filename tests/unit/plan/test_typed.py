from __future__ import annotations

from typing import Any

import pytest

from planner.plan.schema import Compute, Flow, Plan
from planner.plan.typed import build, written_keys


def complaints(**keys: Any) -> list[tuple[str, str]]:
    """Path and message of what is wrong with a flow of these keys."""
    _, found = build(Flow, {"from": "disk0", "to": "gpu0", **keys}, "flows.w")
    return [(complaint.path.removeprefix("flows.w."), complaint.message) for complaint in found]


def test_words_of_a_file_are_not_the_names_of_the_fields() -> None:
    words = written_keys(Flow)
    assert (words["from"], words["to"]) == ("source", "destinations")
    assert (words["source"], words["copy"]) == ("host_source", "copy_mode")
    assert words["route"] == words["via"] == "route"
    assert not {"files", "sink", "destinations"} & set(words)
    assert not {"overrides", "source_file", "directory"} & set(written_keys(Plan))


def test_what_is_right_is_built() -> None:
    block, found = build(Compute, {"gpu": "gpu0", "time": "12ms"}, "compute.step")
    assert (block, found) == (Compute(gpu="gpu0", time=0.012), [])


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"strategy": ["a"]}, "strategy", "needs one value, found a list"),
        ({"strategy": {"a -> b": ["c"]}}, "strategy", "needs one value, found a mapping"),
        ({"memory": ["pinned"]}, "memory", "needs one of pageable, pinned, managed, mapped"),
        ({"memory": "xyzzy"}, "memory", '"xyzzy" is not one of'),
        ({"to": ""}, "to", "needs a name or a list of names, found nothing"),
        ({"to": []}, "to", "needs a name or a list of names, found nothing"),
        ({"to": [["gpu0"]]}, "to[0]", "needs one value, found a list"),
        ({"budget": "1GB"}, "budget", "needs a mapping, found one value"),
        ({"for_each": ["a"]}, "for_each", "needs a mapping, found a list"),
        ({"for_each": {"g": {"a": "b"}}}, "for_each.g", "found a mapping"),
        ({"use": {"reads": "0"}}, "use.reads", "less than one"),
        ({"chunk": "0"}, "chunk", "must be at least 4 KiB"),
        ({"size": ""}, "size", '"" is not a size'),
        ({"repeat": {}}, "repeat", "needs one value, found a mapping"),
        ({"pieces": {"count": "0"}}, "pieces.count", "less than one"),
        ({"pieces": {"count": "2", "sizes": ["1kB"]}}, "pieces", "2 pieces have 1 sizes"),
        ({"pieces": {"count": "2", "size": "1kB"}}, "pieces.size", 'unknown key "size"'),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(
    keys: dict[str, Any], path: str, message: str
) -> None:
    ((where, said),) = complaints(**keys)
    assert where == path
    assert message in said


def test_unknown_keys_and_wrong_values_come_together() -> None:
    assert complaints(sise="1GB", size="1", budget={"pined": "1GB", "rate": "1"}) == [
        ("sise", 'unknown key "sise"'),
        ("budget.pined", 'unknown key "pined"'),
        ("size", '"1" has no unit'),
        ("budget.rate", '"1" has no unit'),
    ]
