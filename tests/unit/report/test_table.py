"""Tables align, and give way on a narrow page."""

from __future__ import annotations

import re

import pytest

from planner.report.style import Style, bar
from planner.report.table import Cell, Column, Row, Total, prose, table

COLUMNS = [
    Column("hop"),
    Column("depth", right=True, give_way=1),
    Column("busy", right=True),
    Column("", bar=True, give_way=2),
]
ROWS: list[Row] = [
    ["disk0 → host0", "2", "2.000 s", Cell(share=1.0)],
    ["host0 → gpu0", "12", "250.0 ms", Cell(share=0.125)],
    Total("overlapped", "busy", "2.010 s"),
]


def test_columns_align_and_the_bar_takes_what_is_left() -> None:
    lines = table(COLUMNS, ROWS, Style(width=60), indent=2)
    assert lines == [
        "  hop            depth      busy",
        "  disk0 → host0      2   2.000 s  ████████████████████",
        "  host0 → gpu0      12  250.0 ms  ██▌",  # 20 cells x 0.125
        "            overlapped   2.010 s",
    ]


def test_a_bar_shrinks_before_anything_is_dropped() -> None:
    # 2 blanks, 13 + 5 + 8 characters and 2 gaps before the bar and its gap: 34 of 44 columns.
    line = table(COLUMNS, ROWS, Style(width=44), indent=2)[1]
    assert line == "  disk0 → host0      2   2.000 s  ██████████"


def test_a_narrow_page_drops_the_bar_then_the_depth() -> None:
    wide = [Column("hop"), *COLUMNS[1:]]
    rows: list[Row] = [["a long name of a hop →→→", "2", "2.000 s", Cell(share=1.0)]]
    assert table(wide, rows, Style(width=48))[0].split() == ["hop", "depth", "busy"]
    assert table(wide, rows, Style(width=40))[0].split() == ["hop", "busy"]


def test_a_total_goes_with_its_column() -> None:
    columns = [Column("hop"), Column("busy", right=True, give_way=1)]
    rows: list[Row] = [["x" * 38, "2 s"], Total("overlapped", "busy", "1 s")]
    # 40 columns less an indent of 4 leave 36 of the 38 characters on the first line.
    page = ["    hop", "    " + "x" * 36, "    xx"]
    assert table(columns, rows, Style(width=40)) == page


def test_words_wrap_in_their_column_when_nothing_more_gives_way() -> None:
    columns = [Column("setup"), Column("busy", right=True)]
    rows: list[Row] = [["register the ring of the workers", "4.959 ms"]]
    # 40 - 4 - 2 - 8 = 26 characters are left for the words.
    assert table(columns, rows, Style(width=40)) == [
        "    setup                           busy",
        "    register the ring of the    4.959 ms",
        "    workers",
    ]


def test_an_empty_column_is_left_out() -> None:
    columns = [Column("hop"), Column("workers"), Column("busy")]
    assert table(columns, [["a", "", "1 s"]], Style(), indent=0) == ["hop  busy", "a    1 s"]


def test_colour_does_not_move_anything() -> None:
    rows: list[Row] = [[Cell("✓", "good"), "a"], [Cell("✗", "bad"), "b"]]
    columns = [Column(""), Column("x")]
    plain = table(columns, rows, Style())
    colored = table(columns, rows, Style(color=True))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in colored] == plain
    assert "\x1b[32m✓\x1b[0m" in colored[1]


def test_ascii_is_spelled_before_it_is_measured() -> None:
    lines = table(COLUMNS, ROWS, Style(width=60, unicode=False), indent=2)
    assert lines[1].startswith("  disk0 -> host0      2")
    assert lines[2].endswith("##")  # 20 cells or fewer, by 0.125
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("obeyed", ["\x1b", "\x07", "\r", "\x9b", "\u202e"])
def test_what_a_terminal_would_obey_is_only_shown(obeyed: str) -> None:
    assert Style().spell(f"a{obeyed}[31mb\n") == "a\ufffd[31mb\n"
    assert Style(unicode=False).spell(f"a{obeyed}[31mb\n") == "a?[31mb\n"


def test_prose_wraps_and_hangs() -> None:
    assert prose("one two " * 6, Style(width=40), indent=2, hang=2) == [
        "  one two one two one two one two one",
        "    two one two",
    ]


def test_bars_in_eighths() -> None:
    assert [bar(eighths / 8, 1) for eighths in range(9)] == ["", *"▏▎▍▌▋▊▉█"]
    assert bar(2.0, 3) == "███"
    assert bar(-1.0, 3) == ""
