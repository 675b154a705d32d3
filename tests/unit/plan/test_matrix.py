from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from planner.errors import PlanError
from planner.plan.load import loads_plan
from planner.plan.matrix import Axis, AxisError, count, points, read_axis, setting
from planner.units import parse_size

FLOW = "flows: { w: { from: disk0, to: gpu0, size: 1GB } }\n"


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (["1MiB", "16MiB"], ("1MiB", "16MiB")),
        ("16MiB", ("16MiB",)),
        ([["gpu0", "gpu1"], "gpu2"], ("[gpu0, gpu1]", "gpu2")),
        ([{"disk0 -> gpu0": "gds"}], ("{disk0 -> gpu0: gds}",)),
        ([["a:b"]], ('["a:b"]',)),
        # 64 KiB x 8 = 512 KiB, x 8 = 4 MiB; x 8 again is beyond the end.
        ({"from": "64KiB", "to": "5MiB", "times": "8"}, ("64KiB", "512KiB", "4MiB")),
        ({"from": "100us", "to": "1ms", "times": "3"}, ("100us", "300us", "900us")),
        ({"from": "600ms", "to": "2s", "step": "700ms"}, ("600ms", "1.3s", "2s")),
        ({"from": "10GB/s", "to": "20GB/s", "step": "5GB/s"}, ("10GB/s", "15GB/s", "20GB/s")),
        ({"from": "100Gb/s", "to": "400Gb/s", "times": "2x"}, ("100Gb/s", "200Gb/s", "400Gb/s")),
        ({"from": "50%", "to": "100%", "step": "25%"}, ("50%", "75%", "100%")),
        ({"from": "512B", "to": "2KiB", "times": "2"}, ("512B", "1KiB", "2KiB")),
        ({"from": "1", "to": "3"}, ("1", "2", "3")),
        ({"from": "1", "to": "8", "times": "2"}, ("1", "2", "4", "8")),
        ({"from": "1", "to": "1", "times": "2"}, ("1",)),
        # 1, 1.5, 2.25 and 3.375, as whole numbers, each once.
        ({"from": "1", "to": "4", "times": "1.5"}, ("1", "2", "3")),
    ],
)
def test_what_an_axis_stands_for(written: object, values: tuple[str, ...]) -> None:
    assert read_axis("key", written) == Axis("key", values)


@pytest.mark.parametrize(
    ("written", "message", "index"),
    [
        ([], "has no values", None),
        ("", "has no values", None),
        (["1", ""], "empty", 1),
        (["1", "2", "1"], "1 is given twice", 2),
        ({"from": "1"}, "both ends", None),
        ({"from": "1", "to": "2", "by": "1"}, 'no "by"', None),
        ({"from": "1", "to": "2", "times": "2", "step": "1"}, "not both", None),
        ({"from": "1MiB", "to": "2MiB"}, "needs times or step", None),
        ({"from": "2", "to": "1", "step": "1"}, "backwards", None),
        ({"from": "1", "to": "2", "times": "1"}, "above 1", None),
        ({"from": "0", "to": "2", "times": "2"}, "starts above 0", None),
        ({"from": "1", "to": "2", "step": "0"}, "above 0", None),
        ({"from": "1MiB", "to": "2s", "times": "2"}, "different kinds", None),
        ({"from": "1MiB", "to": "2MiB", "step": "1s"}, "same kind", None),
        ({"from": "few", "to": "2", "step": "1"}, '"few" is not a quantity', None),
        ({"from": "1", "to": "1_000_000", "step": "1"}, "more than 10000", None),
        ({"from": "1", "to": "1e40", "times": "2"}, "more than there is", None),
    ],
)
def test_an_axis_that_cannot_be_read(written: object, message: str, index: int | None) -> None:
    with pytest.raises(AxisError) as caught:
        read_axis("key", written)
    assert message in caught.value.message
    assert caught.value.index == index


def test_the_last_axis_turns_fastest() -> None:
    axes = [Axis("a", ("1", "2")), Axis("b", ("x", "y", "z"))]
    assert points(axes) == [("1", "x"), ("1", "y"), ("1", "z"), ("2", "x"), ("2", "y"), ("2", "z")]
    assert count(axes) == 6
    assert setting(axes[0], "2") == "a=2"


@given(first=st.integers(1, 2**40), times=st.integers(11, 80), steps=st.integers(0, 12))
def test_a_range_of_bytes_is_exact(first: int, times: int, steps: int) -> None:
    factor = Decimal(times) / 10
    last = int(first * factor**steps) + 1
    values = read_axis("k", {"from": f"{first}B", "to": f"{last}B", "times": f"{factor}"}).values
    powers = [first * factor**power for power in range(steps + 8)]
    wanted = [round(value) for value in powers if value <= last]
    assert [parse_size(value) for value in values] == list(dict.fromkeys(wanted))


def test_faults_of_a_matrix_stand_where_they_are_written() -> None:
    text = FLOW + "matrix:\n  chunk: [1MiB, 1MiB]\n  depth: { from: 4, to: 1 }\n"
    with pytest.raises(PlanError) as caught:
        loads_plan(text, "p.yaml")
    assert [(f.position(), f.path, f.message) for f in caught.value.faults] == [
        ("p.yaml:3:17", "matrix.chunk[1]", "1MiB is given twice"),
        ("p.yaml:4:3", "matrix.depth", "the range runs backwards, from 4 to 1"),
    ]
