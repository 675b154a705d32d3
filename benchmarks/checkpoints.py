"""Safetensors files of a known table of tensors and incompressible bytes, and their headers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.units import parse_size

GB = 10**9
TENSORS = 288
"""Of a file that is given by its size alone."""
PIECE = 64 << 20
LENGTH = 8
"""Bytes of the header's length, little-endian, at the front of a file."""

Table = dict[str, tuple[int, ...]]
"""Shape of each tensor; all are bf16."""


def even_table(size: int, count: int) -> Table:
    """`count` equal tensors of `size` bytes in all, less what does not divide."""
    rows = max(1, size // count // 2 // 64)
    return {f"model.layers.{k}.weight": (rows, 64) for k in range(count)}


def llama_7b() -> Table:
    """The 291 tensors of Llama-2-7B (hidden 4096, MLP 11008, 32 layers, 32,000 tokens): 13.5 GB."""
    hidden, wide, tokens, layers = 4096, 11008, 32_000, 32
    table: Table = {"model.embed_tokens.weight": (tokens, hidden)}
    for k in range(layers):
        name = f"model.layers.{k}."
        for part in "qkvo":
            table[f"{name}self_attn.{part}_proj.weight"] = (hidden, hidden)
        table[f"{name}mlp.gate_proj.weight"] = (wide, hidden)
        table[f"{name}mlp.up_proj.weight"] = (wide, hidden)
        table[f"{name}mlp.down_proj.weight"] = (hidden, wide)
        table[f"{name}input_layernorm.weight"] = (hidden,)
        table[f"{name}post_attention_layernorm.weight"] = (hidden,)
    return table | {"model.norm.weight": (hidden,), "lm_head.weight": (tokens, hidden)}


def tables(words: Sequence[str], scale: float) -> dict[str, Table]:
    """The files to make, by their names."""
    found: dict[str, Table] = {}
    for word in words:
        if word == "7b":
            whole = llama_7b()
            shrink = max(1, round(1 / scale))
            found[word] = {n: (max(1, s[0] // shrink), *s[1:]) for n, s in whole.items()}
        elif word == "100k":
            found[word] = even_table(int(8 * GB * scale), 100_000)
        else:
            found[word] = even_table(int(parse_size(word) * scale), TENSORS)
    return found


def _bytes(shape: tuple[int, ...]) -> int:
    return 2 * int(np.prod(shape))


def data_bytes(table: Table) -> int:
    """Bytes of all tensors."""
    return sum(_bytes(shape) for shape in table.values())


def header_of(table: Table) -> bytes:
    """The JSON header, padded so that the data begins at a multiple of eight bytes."""
    entries, at = {}, 0
    for name, shape in table.items():
        end = at + _bytes(shape)
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def make(path: Path, table: Table) -> int:
    """Write the file to the disk, and wait; returns its bytes. A file written half is removed.

    Random words with the exponent's top bit cleared: finite as bf16, no two pieces alike.
    """
    generator = np.random.default_rng(7)
    base = generator.integers(0, 1 << 64, PIECE // 8, np.uint64) & np.uint64(0xBFFFBFFFBFFFBFFF)
    header, size = header_of(table), data_bytes(table)
    try:
        with path.open("wb", buffering=0) as file:
            file.write(len(header).to_bytes(LENGTH, "little") + header)
            for piece, at in enumerate(range(0, size, PIECE)):
                block = np.roll(base, 4099 * piece + 1)[: -(-min(PIECE, size - at) // 8)]
                _write(
                    file.fileno(), memoryview(block.view(np.uint8).data)[: min(PIECE, size - at)]
                )
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path.stat().st_size


def _write(fd: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += os.write(fd, view[done:])


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: `start` and `stop` are bytes of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: str) -> tuple[int, list[Entry]]:
    """Where the data begins, and every tensor of a safetensors file."""
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(LENGTH), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    start = LENGTH + length
    return start, list(_entries(header, start))


def _entries(header: dict[str, Any], start: int) -> Iterator[Entry]:
    for name, body in header.items():
        if name != "__metadata__":
            low, high = body["data_offsets"]
            yield Entry(name, body["dtype"], tuple(body["shape"]), start + low, start + high)
