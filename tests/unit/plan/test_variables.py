from __future__ import annotations

import pytest

from planner.errors import PlanError
from planner.plan.load import loads_plan
from planner.plan.variables import DEEPEST, LONGEST


def description(variables: str, text: str) -> str | None:
    """What `description: text` becomes with these variables."""
    flows = "flows: { w: { from: disk0, to: gpu0, size: 1GB } }"
    return loads_plan(f"vars: {variables}\ndescription: {text}\n{flows}\n").plan.description


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("$a", "1"),
        ("x${a}".replace("{", "").replace("}", ""), "x1"),
        ("$a$b", "12"),
        ("$a-$b", "1-2"),
        ("cost $$5", "cost $5"),
        ("$$a", "$a"),
        ("$c", "<1>"),
        ("no variable", "no variable"),
    ],
)
def test_variables_are_put_in(text: str, filled: str) -> None:
    assert description('{ a: 1, b: 2, c: "<$a>" }', text) == filled


def test_variables_reach_every_value_but_no_key() -> None:
    plan = loads_plan(
        "vars: { a: gpu0, w: 1GB, n: 2 }\n"
        "flows:\n"
        "  f: { from: disk0, to: [$a, gpu1], size: $w, repeat: $n, budget: { cores: $n } }\n"
        "objectives: [f.duration <= ${s}]\n".replace("${s}", "1${n}s".replace("${n}", "0"))
    ).plan
    flow = plan.flows["f"]
    assert (flow.destinations, flow.size, flow.repeat) == (("gpu0", "gpu1"), 10**9, 2)
    assert flow.budget.cores == 2
    assert plan.vars == {"a": "gpu0", "w": "1GB", "n": "2"}


def faults(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        loads_plan(text)
    return [fault.message for fault in caught.value.faults]


def test_variables_that_double_each_other_are_stopped() -> None:
    # 40 doublings of one character would be 10**12 characters.
    doubling = "".join(f"  v{i + 1}: $v{i}$v{i}\n" for i in range(40))
    flows = "flows: { w: { from: disk0, to: gpu0, size: $v40 } }\n"
    (message,) = faults(f"vars:\n  v0: x\n{doubling}{flows}")
    assert str(LONGEST) in message


def test_a_long_chain_of_variables_is_stopped() -> None:
    chain = "".join(f"  v{i}: $v{i + 1}\n" for i in range(DEEPEST + 5))
    last = f"  v{DEEPEST + 5}: 1GB\n"
    flows = "flows: { w: { from: disk0, to: gpu0, size: $v0 } }\n"
    assert any("nested more than" in message for message in faults(f"vars:\n{chain}{last}{flows}"))


def test_each_circle_of_variables_is_told_once() -> None:
    text = (
        "vars: { a: $b, b: $a, c: $c, d: $a }\n"
        "flows: { w: { from: disk0, to: gpu0, size: $a }, v: { from: $c, to: $d, size: $b } }\n"
    )
    assert faults(text) == [
        "the variables go round in a circle: $a -> $b -> $a",
        "the variables go round in a circle: $c -> $c",
    ]


def test_a_name_in_braces_is_not_supported() -> None:
    text = 'vars: { a: 1 }\ndescription: "${a}"\nflows: { w: { from: d, to: g, size: 1GB } }\n'
    (message,) = faults(text)
    assert "lone $" in message


def test_vars_must_be_a_mapping() -> None:
    flows = "flows: { w: { from: disk0, to: gpu0, size: 1GB } }\n"
    assert faults(f"vars: [a]\n{flows}") == ["needs a mapping, found a list"]
    assert loads_plan(f"vars:\n{flows}").plan.vars == {}
