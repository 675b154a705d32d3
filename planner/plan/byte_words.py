"""Many places of a text looked at together, eight bytes at a time, by arrays.

Each function takes arrays of places and does all of them in a few passes. Most of that time other
threads may run: numpy lets the interpreter go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

WORD: Final = 8
"""Bytes that are looked at as one number."""


class OtherForm(Exception):  # noqa: N818 - no fault, another form
    """The text is not in the form that is read here, or something is wrong with it."""


def window(raw: bytes) -> NDArray[np.uint64]:
    """The eight bytes from each place on as one number, the first byte the highest."""
    import numpy as np

    return np.ndarray((len(raw) - WORD + 1,), ">u8", raw, strides=(1,))


def require(raw: bytes, at: Ints, wanted: bytes) -> None:
    """Each of the places must have these bytes."""
    import numpy as np

    if not at.size:
        return
    if len(wanted) < WORD:
        wanted, at = wanted.rjust(WORD, b"\0"), at - (WORD - len(wanted))
    if at.min() < 0 or at.max() + len(wanted) > len(raw):
        raise OtherForm
    words = window(raw)
    for k in {*range(0, len(wanted) - WORD, WORD), len(wanted) - WORD}:
        part = wanted[k : k + WORD]
        mask = np.uint64(int.from_bytes(bytes(255 * (byte > 0) for byte in part), "big"))
        if (words[at + k] & mask != np.uint64(int.from_bytes(part, "big"))).any():
            raise OtherForm


def numbers(raw: bytes, low: Ints, high: Ints) -> Ints:
    """The whole numbers that stand from `low` to `high`, as JSON writes them."""
    import numpy as np

    if not low.size:
        return np.zeros(0, np.int64)
    length = high - low
    longest = int(length.max())
    if length.min() < 1 or longest > 2 * WORD:
        raise OtherForm
    found = _digits(raw, high, np.minimum(length, WORD))
    if longest > WORD:
        found += _digits(raw, high - WORD, np.maximum(length - WORD, 0)) * 10**WORD
    # JSON has no leading zeros.
    if ((np.frombuffer(raw, np.uint8)[low] == ord("0")) & (length > 1)).any():
        raise OtherForm
    return found


def _digits(raw: bytes, high: Ints, count: Ints) -> Ints:
    """The numbers of up to eight digits that end at `high`, all digits of one at a time."""
    import numpy as np

    def word(text: str) -> np.uint64:
        return np.uint64(int(text, 16))

    shift = ((WORD - count) * 8).astype(np.uint64)
    full = shift == np.uint64(WORD * 8)  # a shift by all bits is undefined
    zeros, high_half, six = word("30" * WORD), word("f0" * WORD), word("06" * WORD)
    value = window(raw)[high - WORD].astype(np.uint64)
    shift[full] = 0
    value = (value << shift) >> shift
    # Zeros in front of it, in place of what stands there.
    value |= ~(~np.uint64(0) >> shift) & zeros
    value[full] = zeros
    if ((value & high_half) != zeros).any() or (((value + six) & high_half) != zeros).any():
        raise OtherForm
    value -= zeros
    for bits, ten in ((8, 10), (16, 100), (32, 10_000)):
        low_half = word(("0" * (bits // 4) + "f" * (bits // 4)) * (32 // bits))
        value = ((value >> np.uint64(bits)) & low_half) * np.uint64(ten) + (value & low_half)
    return value.astype(np.int64)
