"""What people write: the plan, as typed values.

A `Plan` comes from `planner.plan.load` (which gives every fault a position) or is built in Python
with the names below. Where the word in the file differs from the name here, the field's
`validation_alias` is the word in the file: `from` is `source`, `to` is `destinations`, `copy` is
`copy_mode` and `source: hot|cold` is `host_source`.

Sizes are bytes, times seconds and rates bytes per second, whatever was written. `Plan.model_dump`
gives JSON that `Plan.model_validate` reads back to an equal plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from planner.plan.objectives import Objective, parse_objective
from planner.plan.words import (
    Cache,
    Count,
    Fraction,
    Text,
    Values,
    Whole,
    Words,
    WrittenError,
    read_strategy,
)
from planner.quantities import Bytes, BytesPerSecond, Seconds
from planner.units import parse_count, parse_size

VERSION: Final = 1
"""The newest version of the plan format that this code reads."""

LEAST_CHUNK: Final = 4096
"""Bytes: a page. Below it calls are all there is, and a plan of some GB has millions of them."""

Memory = Literal["pageable", "pinned", "managed", "mapped"]
CopyMode = Literal["replicate", "shard"]
HostSource = Literal["hot", "cold"]
Pattern = Literal["dense", "strided", "random"]


class Written(BaseModel):
    """The base of all parts of a plan: frozen, and closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True
    )


class FileSource(Written):
    """A range of one file that a flow reads.

    `path` is absolute; `offset` is where the bytes start (behind the header of a safetensors
    file), `size_bytes` how many there are, `pieces` how many tensors (1 for another file).
    """

    path: str
    offset: int = Field(ge=0)
    size_bytes: int = Field(ge=0)
    pieces: int = Field(default=1, ge=0)


class Pieces(Written):
    """The separate pieces that the bytes of a flow are made of.

    `sizes` lists the bytes of each; it is empty where only their `count` is known (equal pieces).
    """

    count: Count
    sizes: tuple[Bytes, ...] = ()

    @model_validator(mode="after")
    def _one_size_each(self) -> Self:
        if self.sizes and len(self.sizes) != self.count:
            raise WrittenError(
                f"{self.count} pieces have {len(self.sizes)} sizes", "leave the count out"
            )
        return self


def _read_cap(rate: float) -> float:
    """A cap on a rate, which lets bytes through: at 0 nothing would ever arrive."""
    if rate <= 0:
        raise WrittenError("a cap on the rate is above 0", "leave it out where there is no cap")
    return rate


class Budget(Written):
    """What the tool may take: pinned bytes, CPU cores, bytes per second. None is no cap."""

    pinned: Bytes | None = Field(default=None, description="Most pinned host memory")
    cores: Count | None = Field(default=None, description="Most CPU cores", examples=[8])
    rate: Annotated[BytesPerSecond, AfterValidator(_read_cap)] | None = Field(
        default=None, description="Highest rate"
    )


class Use(Written):
    """How the GPU touches the data once it can reach it (matters for mapped and managed memory)."""

    fraction: Fraction = Field(default=1.0, description="Share of the bytes that is touched")
    reads: Count = Field(default=1, description="How often each touched byte is read")
    pattern: Pattern = Field(default="dense", description="Order in which they are touched")


def _read_pieces(value: object) -> object:
    """`288`, `[4MiB, 64KiB]` or `file`; the last becomes pieces only when the file is read."""
    if isinstance(value, list):
        if not value:
            raise WrittenError("there is no piece", "write a count, or sizes like [4MiB, 64KiB]")
        sizes = tuple(parse_size(v) if isinstance(v, str) else v for v in value)
        if not all(isinstance(size, int) for size in sizes):
            raise WrittenError("each piece must be a size", "write it like [4MiB, 64KiB]")
        return {"count": len(sizes), "sizes": sizes}
    if isinstance(value, str):
        count = parse_count(value)
        if count < 1:
            raise WrittenError("there is no piece", "write a count from 1 up")
        return {"count": count}
    return value


def _read_objective(value: object) -> object:
    return parse_objective(value) if isinstance(value, str) else value


AxisValues = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "minItems": 1},
                {
                    "type": "object",
                    "properties": {
                        key: {"type": ["string", "number"], "description": about}
                        for key, about in (
                            ("from", "First value"),
                            ("to", "Last value, where a step meets it"),
                            ("times", "Factor from one value to the next"),
                            ("step", "Difference of one value and the next"),
                        )
                    },
                    "required": ["from", "to"],
                    "additionalProperties": False,
                },
                {"type": ["string", "number"]},
            ]
        }
    ),
]
"""What an axis of `matrix` holds; `planner.plan.matrix` reads it."""


def _add_via(schema: dict[str, Any]) -> None:
    """The generated schema knows only the first of two words for one field."""
    schema["properties"]["via"] = schema["properties"]["route"]


class Flow(Written):
    """Named bytes to move from one node to one or more others."""

    model_config = ConfigDict(json_schema_extra=_add_via)

    source: Text = Field(
        validation_alias="from", description="Node the bytes start at", examples=["disk0"]
    )
    destinations: Words = Field(
        validation_alias="to",
        min_length=1,
        description="Node or nodes they go to",
        examples=["gpu0"],
    )
    size: Bytes | None = Field(default=None, description="How much; else the size of the file")
    file: Words = Field(
        default=(), description="File, list, glob or folder of safetensors at the disk end"
    )
    pieces: Annotated[
        Pieces | None,
        BeforeValidator(_read_pieces),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"type": "array", "items": {"type": "string"}},
                    {"type": "string"},
                ]
            }
        ),
    ] = Field(default=None, description="Separate pieces: a count, their sizes, or `file`")
    cache: Cache = Field(default="auto", description="Page cache of a disk source")
    memory: Memory = Field(default="pageable", description="What the user's host buffer is")
    host_source: HostSource = Field(
        default="cold", validation_alias="source", description="Was the host buffer just written?"
    )
    fsync: bool = Field(default=False, description="Wait until a disk has what it was sent")
    release_cache: bool = Field(
        default=False, description="Let the page cache of a disk source go behind the reads"
    )
    after: Words = Field(default=(), description="Flows or compute blocks that end before")
    start: Seconds = Field(default=0.0, ge=0, description="Earliest start")
    repeat: Count = Field(default=1, description="How many times the flow runs")
    buffers: Count = Field(default=2, description="Repeats that may be under way or unconsumed")
    priority: Whole = Field(default=0, description="Higher goes first on a shared link")
    copy_mode: CopyMode = Field(
        default="replicate", validation_alias="copy", description="What each destination gets"
    )
    for_each: dict[str, Values] = Field(
        default_factory=dict, description="One flow for each value", examples=[{"gpu": "0..7"}]
    )
    use: Use | None = Field(default=None, description="How the GPU touches the data")
    budget: Budget = Field(default_factory=Budget, description="Caps for this flow")
    route: Words = Field(
        default=(),
        validation_alias=AliasChoices("route", "via"),
        description="Nodes that the way passes, in order; the ends may be left out",
    )
    strategy: Annotated[str | dict[str, str] | None, BeforeValidator(read_strategy)] = Field(
        default=None, description="Pinned strategy: for all hops, or by hop `a -> b`"
    )
    chunk: Bytes | None = Field(
        default=None, ge=LEAST_CHUNK, description="Pinned chunk size, 4 KiB or more"
    )
    depth: Count | None = Field(default=None, description="Pinned slots per worker")
    workers: Count | None = Field(default=None, description="Pinned number of workers")
    files: SkipJsonSchema[tuple[FileSource, ...]] = ()
    sink: SkipJsonSchema[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _names_to_words(cls, data: Any) -> Any:
        """Built in Python, `source` is where the bytes start; in a file it is `hot` or `cold`."""
        if not isinstance(data, Mapping) or "destinations" not in data or "source" not in data:
            return data
        rest = {key: value for key, value in data.items() if key not in ("source", "host_source")}
        rest["from"] = data["source"]
        if "host_source" in data:
            rest["source"] = data["host_source"]
        return rest

    @property
    def copies(self) -> int:
        """How many equal flows `for_each` stands for; 1 without it."""
        return math.prod(len(values) for values in self.for_each.values())

    def instances(self) -> Iterator[dict[str, int]]:
        """The values of every copy, the last key of `for_each` turning fastest."""
        keys = tuple(self.for_each)
        for values in product(*self.for_each.values()):
            yield dict(zip(keys, values, strict=True))


class Compute(Written):
    """Work on a GPU that takes `time` seconds, or as long as reading `bytes` from its HBM takes."""

    gpu: Text = Field(description="Node the work runs on", examples=["gpu0"])
    time: Seconds | None = Field(default=None, ge=0, description="How long one run takes")
    bytes: Bytes | None = Field(default=None, description="Or: bytes it reads from HBM")
    after: Words = Field(default=(), description="Flows or compute blocks that end before")
    start: Seconds = Field(default=0.0, ge=0, description="Earliest start")
    repeat: Count = Field(default=1, description="How many times the work runs")

    @model_validator(mode="after")
    def _time_or_bytes(self) -> Self:
        if (self.time is None) == (self.bytes is None):
            found = "neither" if self.time is None else "both"
            raise WrittenError(f'needs "time" or "bytes", found {found}', "write time: 12ms")
        return self


class Plan(Written):
    """Everything a person wrote in one plan, includes merged and variables substituted."""

    version: Count = Field(default=1, description="Version of the plan format", examples=[1])
    name: Text = Field(default="plan", description="Name in results; else the name of the file")
    description: Text | None = Field(default=None, description="One sentence for the reader")
    machine: Text = Field(
        default="here", description="Catalogue name, machine file, or `here`", examples=["here"]
    )
    include: Words = Field(default=(), description="Plan file or files to merge below this one")
    vars: dict[str, Text] = Field(default_factory=dict, description="Values for $name")
    flows: dict[str, Flow] = Field(default_factory=dict, description="What moves")
    compute: dict[str, Compute] = Field(default_factory=dict, description="What the GPUs do")
    objectives: tuple[
        Annotated[Objective, BeforeValidator(_read_objective), WithJsonSchema({"type": "string"})],
        ...,
    ] = Field(default=(), description="What must hold, like weights.duration <= 10s")
    budget: Budget = Field(default_factory=Budget, description="Caps for the whole plan")
    matrix: dict[str, AxisValues] = Field(
        default_factory=dict,
        description="Axes of a sweep: what --set takes, with its values",
        examples=[{"flows.weights.chunk": ["1MiB", "16MiB"]}],
    )
    overrides: SkipJsonSchema[dict[str, str]] = Field(default_factory=dict)
    source_file: SkipJsonSchema[str] = ""
    directory: SkipJsonSchema[str] = "."

    def canonical(self) -> dict[str, Any]:
        """What the plan says, as JSON-able values with sorted keys: equal plans, equal text.

        Leaves out where the plan lies and how it was written (file names, `vars`, `include`):
        two files that mean the same have the same canonical form. Files are named relative to
        the plan's folder, so a moved checkout changes nothing.
        """
        left_out = {"source_file", "directory", "include", "vars", "description"}
        data = self.model_dump(mode="json", exclude=left_out)
        folder = Path(self.directory).resolve()
        for flow in data["flows"].values():
            flow.pop("file")
            for source in flow["files"]:
                source["path"] = _relative(source["path"], folder)
            if flow["sink"] is not None:
                flow["sink"] = _relative(flow["sink"], folder)
        return {key: _sorted(data[key]) for key in sorted(data)}


def _relative(path: str, folder: Path) -> str:
    """`path` seen from `folder` where it lies below it, else as it is."""
    absolute = Path(path)
    return str(absolute.relative_to(folder)) if absolute.is_relative_to(folder) else path


def _sorted(value: object) -> object:
    """`value` with the keys of every mapping in order; lists keep theirs."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
