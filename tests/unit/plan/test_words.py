from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from planner.plan.words import (
    MOST_COPIES,
    Cache,
    Count,
    Fraction,
    Values,
    Whole,
    Words,
    WrittenError,
    fill,
    parse_range,
    placeholders,
    read_strategy,
)


@pytest.mark.parametrize(
    ("text", "values"), [("0..3", (0, 1, 2, 3)), ("5", (5,)), (" 2 .. 2 ", (2,))]
)
def test_a_range_counts_both_ends(text: str, values: tuple[int, ...]) -> None:
    assert parse_range(text) == values


@pytest.mark.parametrize("text", ["3..1", "a..b", "1-3", "", f"0..{MOST_COPIES}"])
def test_a_range_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(WrittenError) as caught:
        parse_range(text)
    assert caught.value.suggestion


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Words, "gpu0", ("gpu0",)),
        (Words, ["gpu0", "gpu1"], ("gpu0", "gpu1")),
        (Words, "", ()),
        (Count, "8", 8),
        (Count, 8, 8),
        (Whole, "0", 0),
        (Fraction, "25%", 0.25),
        (Cache, "warm", "warm"),
        (Cache, "40%", 0.4),
        (Cache, 0.4, 0.4),
        (Values, "0..2", (0, 1, 2)),
        (Values, ["0", "4..6", 9], (0, 4, 5, 6, 9)),
        (Values, (1, 2), (1, 2)),
    ],
)
def test_words_are_read(kind: Any, written: object, value: object) -> None:
    assert TypeAdapter(kind).validate_python(written) == value


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Count, "0"),
        (Count, "2.5"),
        (Count, "-1"),
        (Whole, "-1"),
        (Fraction, "0%"),
        (Fraction, "101%"),
        (Cache, "hot"),
        (Cache, "200%"),
        (Cache, 1.5),
        (Values, []),
        (Values, ["1", "0..3"]),
        (Values, [["1"]]),
        (Values, {"a": "b"}),
        (Words, {"a": "b"}),
    ],
)
def test_other_words_are_refused(kind: Any, written: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(written)


def test_hops_are_spelled_one_way() -> None:
    assert read_strategy({"host0->gpu0": "pinned"}) == {"host0 -> gpu0": "pinned"}
    assert read_strategy("pinned") == "pinned"
    for hop in ("gpu0", "a -> b -> c", "-> b"):
        with pytest.raises(WrittenError, match="is not a hop"):
            read_strategy({hop: "pinned"})


def test_placeholders_are_filled() -> None:
    name = "node{node}.gpu{gpu}"
    assert placeholders(name) == ("node", "gpu")
    assert fill(name, {"node": 3, "gpu": 0}) == "node3.gpu0"
    assert placeholders("gpu0") == ()
