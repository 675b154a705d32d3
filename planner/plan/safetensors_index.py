"""All entries of a safetensors header at once, as arrays: what lies where, checked, not yet named.

The writer of the format's own library puts every tensor down in one form, without spaces:

    "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}

A header in this form, in which no name holds a backslash, has ten quotation marks a tensor, so
arrays find and check everything that the JSON parser and a loop would, in a fifth of the time and
mostly without the interpreter's lock: 100,000 tensors delay nobody who moves their bytes meanwhile.
Names become text when they are first asked for. For any other header, and for one with a fault,
`index_of` says nothing: `safetensors.parse_header` reads it, and finds the words for what is wrong.
"""

from __future__ import annotations

import json
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from planner.plan.byte_words import WORD, OtherForm, numbers, require, window
from planner.plan.safetensors import BITS, LENGTH_BYTES, Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_METADATA: Final = b'{"__metadata__":'
_QUOTES: Final = 10
"""Quotation marks of a tensor: its name, three keys, the dtype."""
_SHORT: Final = 1 << 16
"""Bytes of a header's front that hold its metadata, mostly."""
_TAIL: Final = 64
"""Bytes at the end of a header in which its padding begins, mostly."""
_EXACT: Final = float(1 << 53)
"""Up to here whole numbers in floating point are exact."""


class Index:
    """The tensors of one file, numbered in the order of their bytes.

    Attributes
    ----------
    data_offset, data_bytes, metadata
        As in `safetensors.Header`.
    begins, ends
        Each tensor's bytes, counted from the start of the data.
    dtypes, kinds
        The dtypes that occur, and which of them each tensor has.

    """

    def __init__(
        self, text: bytes, metadata: dict[str, str], sizes: tuple[int, int], table: _Table
    ) -> None:
        self.metadata = metadata
        self.data_offset, self.data_bytes = sizes
        self.begins, self.ends = table.begins, table.ends
        self.dtypes, self.kinds = table.dtypes, table.kinds
        self._text, self._names, self._shapes = text, table.names, table.shapes
        self._turns = table.turns

    def __len__(self) -> int:
        """How many entries the header has."""
        return len(self.begins)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Names to numbers, in the order of the bytes; of a name that stands twice the last one."""
        low, high = (marks.tolist() for marks in self._names)
        text = self._text
        if text.isascii():  # one decoding for all names
            plain = text.decode("ascii")
            names = [plain[i:j] for i, j in zip(low, high, strict=True)]
        else:
            names = [text[i:j].decode() for i, j in zip(low, high, strict=True)]
        count = len(names)
        if self._turns is None:
            found = dict(zip(names, range(count), strict=True))
        else:
            turns = self._turns.tolist()
            found = {names[k]: k for k in turns}
        if self._turns is not None or len(found) != count:
            found = dict(sorted(found.items(), key=itemgetter(1)))
        return found

    def tensor(self, name: str, number: int) -> Tensor:
        """The entry of one tensor."""
        low, high = int(self._shapes[0][number]), int(self._shapes[1][number])
        inside = self._text[low:high]
        shape = tuple(int(part) for part in inside.split(b",")) if inside else ()
        dtype = self.dtypes[self.kinds[number]]
        return Tensor(name, dtype, shape, int(self.begins[number]), int(self.ends[number]))


class _Table:
    """Where in the header everything stands, sorted by the tensors' bytes.

    `turns` are the numbers in the order of the header, `None` where that is the order of the bytes.
    """

    names: tuple[Ints, Ints]
    shapes: tuple[Ints, Ints]
    begins: Ints
    ends: Ints
    dtypes: list[str]
    kinds: Ints
    turns: Ints | None = None


def index_of(raw: bytes, size: int) -> Index | None:
    """The index of the header `raw` of a file of `size` bytes; `None`: parse it instead."""
    data_offset = LENGTH_BYTES + len(raw)
    try:
        start, metadata = _metadata(raw)
        # Mostly a few spaces. To strip a long text copies it: 10 ms in which nobody else runs.
        tail = raw[-_TAIL:].rstrip(b" ")
        end = max(0, len(raw) - _TAIL) + len(tail) if tail else len(raw.rstrip(b" "))
        if raw[end - 3 : end] != b"]}}":
            return None
        table = _table(raw, start, end, size - data_offset)
    except OtherForm:
        return None
    return Index(raw, metadata, (data_offset, size - data_offset), table)


def _metadata(raw: bytes) -> tuple[int, dict[str, str]]:
    """Where the first tensor's name begins, and what stands before it."""
    if not raw.startswith(_METADATA):
        if raw[:2] != b'{"':
            raise OtherForm
        return 1, {}
    # Mostly it is short, and to decode a long header takes milliseconds.
    for text in (raw[:_SHORT].decode("utf-8", "ignore"), raw.decode("utf-8", "replace")):
        try:
            found, end = json.JSONDecoder().raw_decode(text, len(_METADATA))
            break
        except (ValueError, RecursionError):
            continue
    else:
        raise OtherForm
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise OtherForm
    if text[end : end + 2] != ',"':
        raise OtherForm
    return len(text[: end + 1].encode()), found


def _table(raw: bytes, start: int, end: int, data_bytes: int) -> _Table:
    """Everything, checked; raises `OtherForm`."""
    import numpy as np

    text = np.frombuffer(raw, np.uint8)[:end]
    _plain(raw, text[start:])
    marks = np.flatnonzero(text[start:] == ord('"')) + start
    if marks.size == 0 or marks.size % _QUOTES or marks[0] != start:
        raise OtherForm
    quote = np.ascontiguousarray(marks.reshape(-1, _QUOTES).T)
    closed = np.append(quote[0][1:] - 3, end - 3)  # the bracket behind the offsets
    inside = quote[0][quote[1] - quote[0] == len(_METADATA) - 3]
    if (window(raw)[inside] == int.from_bytes(_METADATA[1 : 1 + WORD], "big")).any():
        raise OtherForm  # the metadata stand elsewhere, it seems
    # What stands between the marks; where they are is then known of their distances.
    require(raw, quote[1], b'":{"dtype":"')
    require(raw, quote[5], b'","shape":[')
    require(raw, quote[8] - 2, b'],"data_offsets":[')
    require(raw, closed[:-1], b']},"')
    distances = {(1, 2): 3, (2, 3): 6, (3, 4): 2, (5, 6): 2, (6, 7): 6, (8, 9): 13}
    if any((quote[b] - quote[a] != gap).any() for (a, b), gap in distances.items()):
        raise OtherForm

    table = _Table()
    commas = np.flatnonzero(text == ord(","))
    # The comma before the offsets is known, so the next one is theirs; it must be the only one.
    middle = np.searchsorted(commas, quote[8] - 1) + 1
    if middle[-1] != commas.size - 1 or (commas[middle[:-1] + 1] != closed[:-1] + 2).any():
        raise OtherForm
    between = commas[middle]
    table.begins = numbers(raw, quote[9] + 3, between)
    table.ends = numbers(raw, between + 1, closed)
    table.names = quote[0] + 1, quote[1]
    table.shapes = quote[7] + 3, quote[8] - 2
    table.dtypes, table.kinds = _dtypes(raw, quote[4] + 1, quote[5])
    _check_sizes(table, _elements(raw, table.shapes, commas, middle - 1))
    _sort(table)
    _check_layout(table, data_bytes)
    return table


def _plain(raw: bytes, text: NDArray[np.uint8]) -> None:
    """Whether the tensors' part is UTF-8 without escapes and what JSON would refuse."""
    if (text == ord("\\")).any() or (text < ord(" ")).any():
        raise OtherForm
    if not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise OtherForm from error


def _elements(raw: bytes, shapes: tuple[Ints, Ints], commas: Ints, behind: Ints) -> Ints:
    """The elements of each tensor: the product of its shape.

    `behind` is the number of the comma behind each shape.
    """
    import numpy as np

    low, high = shapes
    first = np.searchsorted(commas, low)
    ranks = np.where(high > low, behind - first + 1, 0)
    filled = ranks > 0
    found = np.ones(low.size, np.int64)
    if not filled.any():
        return found
    ends = np.cumsum(ranks)
    # Extent j of a tensor ends at its j-th comma, the last one at the bracket before it.
    heads, tails = (ends - ranks)[filled], ends[filled] - 1
    inner = np.arange(int(ends[-1])) - np.repeat(heads, ranks[filled])
    stops = commas[np.repeat(first[filled], ranks[filled]) + inner]
    stops[tails] = high[filled]
    starts = np.empty_like(stops)
    starts[1:] = stops[:-1] + 1
    starts[heads] = low[filled]
    extents = numbers(raw, starts, stops)
    if (np.multiply.reduceat(extents.astype(np.float64), heads) >= _EXACT).any():
        raise OtherForm
    found[filled] = np.multiply.reduceat(extents, heads)
    return found


def _dtypes(raw: bytes, low: Ints, high: Ints) -> tuple[list[str], Ints]:
    """The dtypes' names that occur, and each tensor's."""
    import numpy as np

    length = high - low
    if length.min() < 1 or length.max() > WORD:
        raise OtherForm
    unwanted = ((WORD - length) * 8).astype(np.uint64)
    packed = window(raw)[low].astype(np.uint64) >> unwanted
    found, kinds = np.unique(packed, return_inverse=True)
    names = [int(one).to_bytes(WORD, "big").lstrip(b"\0") for one in found]
    if not all(name.isascii() for name in names):
        raise OtherForm
    return [name.decode("ascii") for name in names], kinds


def _check_sizes(table: _Table, elements: Ints) -> None:
    """Dtype and shape must take as many bytes as there are."""
    import numpy as np

    sizes = table.ends - table.begins
    bits = np.array([BITS.get(name, 0) for name in table.dtypes], np.int64)[table.kinds]
    if (sizes < 0).any() or ((sizes * 8 != elements * bits) & (bits > 0)).any():
        raise OtherForm


def _sort(table: _Table) -> None:
    """Number the tensors in the order of their bytes, equal ones in the order of the header."""
    import numpy as np

    begins, ends = table.begins, table.ends
    later = begins[1:] - begins[:-1]
    if ((later > 0) | ((later == 0) & (ends[1:] >= ends[:-1]))).all():
        return
    order = np.lexsort((ends, begins))
    table.begins, table.ends, table.kinds = begins[order], ends[order], table.kinds[order]
    table.names = table.names[0][order], table.names[1][order]
    table.shapes = table.shapes[0][order], table.shapes[1][order]
    table.turns = np.argsort(order)


def _check_layout(table: _Table, data_bytes: int) -> None:
    """No two tensors may share bytes, and all of them must be there."""
    import numpy as np

    reached = np.maximum.accumulate(table.ends)
    low, high = table.begins[1:], table.ends[1:]
    if reached[-1] > data_bytes or ((low < reached[:-1]) & (low < high)).any():
        raise OtherForm
