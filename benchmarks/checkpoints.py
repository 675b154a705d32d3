"""Safetensors files of a known table of tensors and incompressible bytes, and their headers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.units import parse_size

GB = 10**9
TENSORS = 288
"""Of a file that is given by its size alone."""
PIECE = 32 << 20
WORD = 8
WRITERS = 8
"""Threads that write a file: 2 GB in memory took them 0.7 s on two cores, one thread 0.9 to 1.1."""
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
    """Write the file through the page cache and to the disk, by several threads; its bytes.

    What stayed dirty would be written back later, beside the loads. Random words with the
    exponent's top bit cleared: finite as bf16, no two pieces alike. A file written half is removed.

    Raises
    ------
    InfeasibleError
        If the disk has no room for it.

    """
    from planner.engine.scratch import require_space  # who only reads a header does without

    head, size = header_of(table), data_bytes(table)
    front = len(head).to_bytes(LENGTH, "little") + head
    require_space(path.parent, len(front) + size)
    words = np.random.default_rng(7).integers(0, 1 << 64, PIECE // WORD, np.uint64)
    noise = memoryview((words & np.uint64(0xBFFFBFFFBFFFBFFF)).view(np.uint8).data)
    try:
        with path.open("wb", buffering=0) as file:
            file.write(front)
            file.truncate(len(front) + size)
            fd = file.fileno()

            def put(at: int) -> None:
                turned = WORD * (4099 * (at // PIECE) + 1) % PIECE
                length = min(PIECE, size - at)
                _write(fd, noise[turned : turned + length], len(front) + at)
                rest = length - (PIECE - turned)
                _write(fd, noise[: max(0, rest)], len(front) + at + PIECE - turned)

            with ThreadPoolExecutor(WRITERS) as pool:
                list(pool.map(put, range(0, size, PIECE)))
            os.fsync(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return len(front) + size


def _write(fd: int, view: memoryview, at: int) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], at + done)


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
