"""What was worked out before: eight equal GPUs behind eight equal links need one search.

Two movements are alike if the same strategies carry as many bytes between the same kinds of memory
over links and places that differ in their names only.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from planner.model.movement import Movement
from planner.model.need import Need
from planner.model.pipeline import Trace
from planner.model.shapes import Choice, choose_shape as search_shape
from planner.model.strategies import Shape

MOST = 4096
"""Searches that are remembered; a plan for a large machine has some hundred different ones."""
_NAMES = frozenset({"ends", "ports", "source", "device", "uuid", "host", "cost"})
"""Fields that say which part it is, not what it can do."""

Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """Answers by what they depend on, all forgotten where they are too many."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Answer, object]] = {}

    def __contains__(self, key: object) -> bool:
        """Whether it is known."""
        return key in self._known

    def __getitem__(self, key: object) -> Answer:
        """What was kept."""
        return self._known[key][0]

    def keep(self, key: object, answer: Answer, kept: object) -> Answer:
        """Keep the answer; what is in `kept` stays alive with it: its identity is in the key."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = answer, kept
        return answer


_shapes: Answers[Choice] = Answers()
_traces: Answers[Trace] = Answers()


def trace(movement: Movement, shape: Shape) -> Trace:
    """What `movement.trace` answers, looked up where a movement like it was followed before."""
    kept: list[object] = []
    key = (movement_key(movement, kept), shape)
    return _traces[key] if key in _traces else _traces.keep(key, movement.trace(shape), kept)


def choose_shape(movement: Movement, need: Need) -> Choice | str:
    """What `planner.model.shapes.choose_shape` answers, looked up where it was asked before."""
    kept: list[object] = []
    key = (movement_key(movement, kept), need_key(need))
    if key in _shapes:
        return _shapes[key]
    choice = search_shape(movement, need)
    # A reason names the places it is about.
    return choice if isinstance(choice, str) else _shapes.keep(key, choice, kept)


def movement_key(movement: Movement, kept: list[object]) -> object:
    """What a movement has in common with those like it; `kept` keeps alive what is in the key."""
    rows = []
    for crossing, strategy in zip(movement.crossings, movement.strategies, strict=True):
        machine = crossing.machine
        places = [machine.nodes[crossing.start], machine.nodes[crossing.end], crossing.ram]
        parts: list[BaseModel] = [*places]
        if crossing.link:
            parts.append(crossing.wire)
        ways = [crossing.start == crossing.wire.ends[0]] if crossing.link else []
        own = (crossing.before, crossing.after, crossing.size, crossing.cached, crossing.hot)
        # Whatever else a crossing carries (how the bytes are used, say) is part of the question.
        rest = tuple(
            repr(getattr(crossing, name))
            for name in type(crossing).__dataclass_fields__
            if name not in ("machine", "link", "start", "end")
        )
        rows.append((strategy.name, own, rest, *ways, *(alike(part, kept) for part in parts)))
    return tuple(rows)


def alike(part: BaseModel, kept: list[object]) -> object:
    """What a part can do: its numbers, and the very same curves and tables."""
    found: list[Any] = []
    for name in type(part).model_fields:
        if name in _NAMES:
            continue
        value = getattr(part, name)
        if isinstance(value, dict):
            kept.append(value)
            found.append(tuple((key, id(inner)) for key, inner in value.items()))
        elif isinstance(value, BaseModel):
            kept.append(value)
            found.append(id(value))
        else:
            found.append(value)
    return tuple(found)


def need_key(need: Need) -> object:
    """Everything that a need says but for the names."""
    return tuple(
        repr(getattr(need, name))
        for name in type(need).__dataclass_fields__
        if name not in ("name", "start", "end")
    )
