"""The index of a header says what its parser says, and nothing where the parser must decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from planner.errors import InputError
from planner.plan.safetensors import BITS, parse_header
from planner.plan.safetensors_index import index_of

Document = dict[str, Any]
PATH = Path("m.safetensors")


def packed(document: Document, pad: int = 0) -> bytes:
    """As the format's own library writes it: no spaces but those at the end."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b" " * pad


def entry(dtype: str, shape: list[int], begin: int, end: int) -> Document:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def same(raw: bytes, data: int) -> bool:
    """Whether index and parser agree on everything; false where there is no index."""
    size = 8 + len(raw) + data
    index = index_of(raw, size)
    if index is None:
        return False
    header = parse_header(PATH, raw, size)
    found = [index.tensor(name, number) for name, number in index.numbers.items()]
    assert found == list(header.tensors)
    assert index.metadata == header.metadata
    assert (index.data_offset, index.data_bytes) == (header.data_offset, header.data_bytes)
    return True


PLAIN = st.text(
    st.characters(exclude_characters='"\\', min_codepoint=32, exclude_categories=["Cs"])
)
DTYPES = st.sampled_from([name for name, bits in BITS.items() if bits % 8 == 0])


@given(
    st.dictionaries(
        PLAIN.filter(lambda name: name != "__metadata__"),
        st.tuples(DTYPES, st.lists(st.integers(0, 12), max_size=4)),
        min_size=1,
        max_size=12,
    ),
    st.none()
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text('a}"\\')),
    st.integers(0, 7),
    st.randoms(use_true_random=False),
)
def test_it_agrees_with_the_parser(
    tensors: dict[str, tuple[str, list[int]]], metadata: Any, pad: int, random: Any
) -> None:
    at, rows = 0, []
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] // 8
        for extent in shape:
            size *= extent
        rows.append((name, entry(dtype, shape, at, at + size)))
        at += size
    random.shuffle(rows)  # the header's order need not be that of the bytes
    document = ({} if metadata is None else {"__metadata__": metadata}) | dict(rows)
    raw = packed(document, pad)
    assert same(raw, at)


@pytest.mark.parametrize("pad", [0, 1, 62, 63, 64, 65, 200])
def test_spaces_behind_it_do_not_matter(pad: int) -> None:
    assert same(packed({"a": entry("U8", [4], 0, 4)}, pad), 4)


def test_offsets_of_many_digits() -> None:
    # 17 digits are too many for the arrays (two words of eight), 16 are not.
    for digits, there in ((1, True), (8, True), (9, True), (15, True), (16, True), (17, False)):
        end = 10**digits - 1
        raw = packed({"a": entry("U8", [end], 0, end), "b": entry("U8", [0], end, end)})
        # 10^16 elements are more than floating point counts exactly: those the parser multiplies.
        assert same(raw, end) == (there and end < 1 << 53)


def test_a_name_that_stands_twice_means_the_last_one() -> None:
    one, two = (json.dumps(entry("U8", [4], at, at + 4), separators=(",", ":")) for at in (0, 4))
    for first, second in ((one, two), (two, one)):
        assert same(f'{{"a":{first},"b":{entry_text(8)},"a":{second}}}'.encode(), 12)


def entry_text(begin: int) -> str:
    return json.dumps(entry("U8", [4], begin, begin + 4), separators=(",", ":"))


A, B = entry_text(0), entry_text(4)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"__metadata__":{"a":"b"}}',
        json.dumps({"a": entry("U8", [4], 0, 4)}),  # with spaces
        f'{{"a\\u0062":{A}}}',
        f'{{"a\\"":{A}}}',
        f'{{"a":{A},"__metadata__":{{"a":"b"}}}}',
        f'{{"a":{A},\n"b":{B}}}',
        '{"a":{"shape":[4],"dtype":"U8","data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1}}',
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,+4]}}',
        '{"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[04],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[4,],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[,4],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,2,4]}}',
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[4]}}',
        '{"a":{"dtype":"","shape":[4],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"ANYTHING9","shape":[4],"data_offsets":[0,4]}}',
        # These are faults, whose words the parser has.
        f'{{"__metadata__":{A}}}',
        '{"__metadata__":{"a":1},"a":' + A + "}",
        f'{{"a":{A},"b":{A}}}',
        '{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}}',
        '{"a":{"dtype":"U8","shape":[99],"data_offsets":[0,99]}}',
        '{"a":{"dtype":"U8","shape":[0],"data_offsets":[4,0]}}',
        '{"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}',
        f'{{"a":{A}',
        f'{{"a":{A}}}}}',
        f'["a":{A}}}',
        f'{{"a":{A}x"b":{B}}}',
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]]}',
    ],
)
def test_any_other_form_is_left_to_the_parser(text: str) -> None:
    raw = text.encode()
    assert index_of(raw, 8 + len(raw) + 8) is None


def test_every_change_of_one_byte_is_refused_or_read_the_same() -> None:
    document = {"__metadata__": {"k": "v"}, "é": entry("F32", [2, 1], 0, 8)}
    raw = packed(document | {"b,": entry("U8", [], 8, 9), "c": entry("I16", [0, 3], 9, 9)})
    size = 8 + len(raw) + 9
    for at in range(len(raw)):
        for byte in b'"\\,:]}[{0 9a\x1f\xff':
            changed = raw[:at] + bytes([byte]) + raw[at + 1 :]
            try:
                header = parse_header(PATH, changed, size)
            except InputError:
                assert index_of(changed, size) is None, changed
                continue
            index = index_of(changed, size)
            if index is not None:
                found = [index.tensor(name, k) for name, k in index.numbers.items()]
                assert found == list(header.tensors), changed
                assert index.metadata == header.metadata
