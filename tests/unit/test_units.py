"""Quantities: what is read, what is refused and with which advice, what is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from planner.units import (
    UnitError,
    format_rate,
    format_share,
    format_size,
    format_time,
    parse_count,
    parse_factor,
    parse_rate,
    parse_share,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("14GB", 14 * 10**9),
        ("14 GB", 14 * 10**9),
        ("  14GB ", 14 * 10**9),
        ("14GiB", 14 * 2**30),
        ("13.5GB", 13_500_000_000),
        ("0.1GB", 100_000_000),  # exact: no binary fraction on the way
        ("4096B", 4096),
        ("1_000MB", 10**9),
        ("2e3kB", 2_000_000),
        (".5KiB", 512),
        ("1KB", 1000),
        ("3TB", 3 * 10**12),
        ("1PiB", 2**50),
    ],
)
def test_sizes_are_whole_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("14", "14B, 14MiB or 14GB"),
        ("14Gb", "14GB (bytes)"),
        ("14b", "14B (bytes)"),
        ("14gb", "14GB"),
        ("14gib", "14GiB"),
        ("14k", "14kB"),
        ("14 gbytes", "14GB"),
        ("14GB/s", "a size has no /s"),
        ("14 lumps", "use B, kB"),
        ("1.5B", "round it"),
        ("-1GB", "from 0 up"),
        ("", "write it like 14GB"),
        ("GB", "write it like 14GB"),
        ("nan GB", "write it like 14GB"),
        ("1e99GB", "write it like 14GB"),
        ("1e-99GB", "write it like 14GB"),
        ("1" + " " * 10_000 + "GB", "write it like 14GB"),
    ],
)
def test_a_size_that_cannot_be_read_comes_with_advice(text: str, advice: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_size(text)
    assert caught.value.suggestion is not None
    assert advice in caught.value.suggestion
    assert caught.value.suggestion in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("3μs", 3e-6),
        ("80ns", 8e-8),
        ("12ms", 0.012),
        ("2.5s", 2.5),
        ("5min", 300.0),
        ("2h", 7200.0),
    ],
)
def test_times_are_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("12", "12s or 12ms"),
        ("12MS", "12ms"),
        ("1:30", "seconds, like 90s"),
        ("12 days", "use ns, us, ms"),
        ("soon", "write it like 12ms"),
    ],
)
def test_a_time_that_cannot_be_read_comes_with_advice(text: str, advice: str) -> None:
    with pytest.raises(UnitError, match=advice):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("0", 0.0),
        ("25GB/s", 25e9),
        ("400Gb/s", 50e9),  # 400e9 bits / 8
        ("1GiB/s", float(2**30)),
        ("100Gbps", 12.5e9),
        ("1MBps", 1e6),
    ],
)
def test_rates_are_bytes_per_second(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("25", "25GB/s"),
        ("25GB", "25GB/s"),
        ("25 GT/s", "use GB/s"),
        ("25 /s", "use GB/s"),
        ("25GB/parsec", "use GB/s"),
        ("fast", "write it like 25GB/s"),
    ],
)
def test_a_rate_that_cannot_be_read_comes_with_advice(text: str, advice: str) -> None:
    with pytest.raises(UnitError, match=advice):
        parse_rate(text)


def test_shares_factors_and_counts() -> None:
    assert (parse_share("95%"), parse_share("0.95"), parse_share("0")) == (0.95, 0.95, 0.0)
    assert (parse_factor("1.15x"), parse_factor("1.15"), parse_factor("2×")) == (1.15, 1.15, 2.0)
    assert (parse_count("8"), parse_count(" 1_000 ")) == (8, 1000)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_share, "101%"),
        (parse_share, "95GB"),
        (parse_factor, "1.15%"),
        (parse_count, "-1"),
        (parse_count, "8.0"),
        (parse_count, ""),
        (parse_count, "9" * 5000),
    ],
)
def test_wrong_shares_factors_and_counts(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(UnitError):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (2.06, "2.060 s"),
        (0.01234, "12.34 ms"),
        (5.8e-6, "5.800 µs"),
        (0.99999, "1.000 s"),  # would be 1000.0 ms
        (123.456, "123.5 s"),
        (12345.6, "12346 s"),
        (3e-9, "0.003000 µs"),
        (float("inf"), "never"),
    ],
)
def test_times_are_shown_with_four_digits(seconds: float, shown: str) -> None:
    assert format_time(seconds) == shown


@pytest.mark.parametrize(
    ("rate", "shown"),
    [
        (54.8e9, "54.8 GB/s"),
        (54.85e9, "54.9 GB/s"),
        (396e9, "396 GB/s"),
        (3.35e12, "3.35 TB/s"),
        (999.9e6, "1 GB/s"),
        (3.2e15, "3.2 PB/s"),
        (0.0, "0 B/s"),
        (1500.0, "1.5 kB/s"),
        (float("inf"), "unbounded"),
    ],
)
def test_rates_are_shown_with_three_digits(rate: float, shown: str) -> None:
    assert format_rate(rate) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (64 * 2**20, "64 MiB"),
        (13_500_000_000, "13.5 GB"),
        (14 * 10**9, "14 GB"),
        (999, "999 B"),
        (1536, "1.5 KiB"),
        (2**40, "1 TiB"),
        (2**50, "1 PiB"),
        (3 * 10**15, "3 PB"),
        (999_949, "999.9 kB"),
        (999_950, "1 MB"),  # would be 1000 kB
    ],
)
def test_sizes_are_shown_as_people_write_them(size: int, shown: str) -> None:
    assert format_size(size) == shown


def test_shares_are_shown_with_a_decimal_below_ten() -> None:
    assert (format_share(0.12), format_share(0.021), format_share(1.0)) == (
        "12 %",
        "2.1 %",
        "100 %",
    )


@given(st.integers(min_value=0, max_value=10**16))
def test_a_shown_size_reads_back_within_its_digits(size: int) -> None:
    """Decimal sizes keep four digits: half a unit of the fourth is at most 5e-4."""
    assert parse_size(format_size(size)) == pytest.approx(size, rel=5.001e-4)


@given(st.integers(min_value=1, max_value=1023), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_whole_binary_sizes_read_back_exactly(number: int, unit: str) -> None:
    size = parse_size(f"{number}{unit}")
    assert parse_size(format_size(size)) == size


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_shown_time_reads_back_within_its_digits(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == pytest.approx(seconds, rel=5.001e-4)


@given(st.floats(min_value=1.0, max_value=1e14))
def test_a_shown_rate_reads_back_within_its_digits(rate: float) -> None:
    """Three digits: half a unit of the third is at most 5e-3."""
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=5.001e-3)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_by_a_unit_error(text: str) -> None:
    for parse in (parse_size, parse_time, parse_rate, parse_share, parse_factor, parse_count):
        try:
            value: Any = parse(text)
        except UnitError:
            continue
        assert value >= 0
