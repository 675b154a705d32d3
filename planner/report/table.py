"""Tables of plain text: columns that align, and that give way when the page is narrow.

>>> from planner.report.style import Style
>>> columns = [Column("hop"), Column("busy", right=True)]
>>> table(columns, [["a", "1 s"], ["bb", "12 s"]], Style(), indent=0)
['hop  busy', 'a     1 s', 'bb   12 s']
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from planner.report.style import Style, Tone, bar


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, whether it aligns right, and whether a narrow page may drop it.

    `give_way` 0 stays; of the others the highest goes first. A `bar` column draws the share of
    each cell, as wide as the page allows.
    """

    title: str
    right: bool = False
    give_way: int = 0
    bar: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of one cell with its tone; in a bar column the share (0 to 1) that it draws."""

    text: str = ""
    tone: Tone = "plain"
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """A row that sums up: `label` stands right before the cell of column `title`."""

    label: str
    title: str
    text: str


Row = Sequence[str | Cell] | Total

GAP = "  "
BAR_CELLS = range(6, 21)
"""A bar shorter than 6 characters tells nothing; longer than 20 it says no more."""
LEAST_WIDTH = 40
"""Below this no column is dropped any more: the reader's terminal wraps."""
LEAST_CELLS = 6
"""Columns of words are squeezed no further than this."""


def table(
    columns: Sequence[Column], rows: Sequence[Row], style: Style, *, indent: int = 4
) -> list[str]:
    """The lines of a table that fits `style.width`: columns that may give way do, then cells wrap.

    Parameters
    ----------
    columns
        in the order shown; a column whose cells are all empty is left out.
    rows
        as many cells as columns, or a `Total`.
    style
        width, colour and characters of the page.
    indent
        blanks before each line.
    """
    grid = [[_cell(c, style) for c in row] for row in rows if not isinstance(row, Total)]
    kept = [i for i in range(len(columns)) if any(r[i].text or r[i].share for r in grid)]
    widths = {i: _width(columns, grid, rows, i, style) for i in kept}
    while _line_width(widths, indent) > max(style.width, LEAST_WIDTH):
        droppable = [i for i in widths if columns[i].give_way]
        if not droppable:
            break
        del widths[max(droppable, key=lambda i: (columns[i].give_way, i))]
    _squeeze(columns, widths, style, indent)
    room = style.width - _line_width(widths, indent)
    for i in [i for i in widths if columns[i].bar]:
        widths[i] = min(BAR_CELLS.stop - 1, BAR_CELLS.start + room)
        for line in grid:
            line[i] = _drawn(line[i], widths[i], style)
    lines = []
    if any(columns[i].title for i in widths):
        titles = [Cell(style.spell(c.title), "dim") for c in columns]
        lines += _lines(titles, columns, widths, style, indent)
    cells = iter(grid)
    for row in rows:
        if isinstance(row, Total):
            lines += _total(row, columns, widths, style, indent)
        else:
            lines += _lines(next(cells), columns, widths, style, indent)
    return lines


def _cell(value: str | Cell, style: Style) -> Cell:
    if isinstance(value, Cell):
        return Cell(style.spell(value.text), value.tone, value.share)
    return Cell(style.spell(value))


def _drawn(cell: Cell, width: int, style: Style) -> Cell:
    """The cell with its share drawn as a bar; as it is where it has none."""
    if cell.share is None:
        return cell
    text = bar(cell.share, width) if style.unicode else "#" * round(cell.share * width)
    return Cell(text, cell.tone)


def _width(
    columns: Sequence[Column], grid: list[list[Cell]], rows: Sequence[Row], i: int, style: Style
) -> int:
    if columns[i].bar:
        return BAR_CELLS.start
    totals = [r.text for r in rows if isinstance(r, Total) and r.title == columns[i].title]
    texts = [columns[i].title, *totals]
    return max(len(style.spell(t)) for t in texts + [row[i].text for row in grid])


def _line_width(widths: dict[int, int], indent: int) -> int:
    return indent + sum(widths.values()) + len(GAP) * max(0, len(widths) - 1)


def _squeeze(columns: Sequence[Column], widths: dict[int, int], style: Style, indent: int) -> None:
    """Take characters from the widest columns of words until the page holds the rest."""
    over = _line_width(widths, indent) - max(style.width, LEAST_WIDTH)
    words = [i for i in widths if not columns[i].right and not columns[i].bar]
    while over > 0 and words:
        widest = max(words, key=lambda i: widths[i])
        if widths[widest] <= LEAST_CELLS:
            return
        widths[widest] -= 1
        over -= 1


def _lines(
    cells: Sequence[Cell],
    columns: Sequence[Column],
    widths: dict[int, int],
    style: Style,
    indent: int,
) -> list[str]:
    """One row: a line, or more where a cell is too long for its column and wraps."""
    texts = {
        i: [cells[i].text]
        if len(cells[i].text) <= width
        else textwrap.wrap(cells[i].text, width, break_on_hyphens=False)
        for i, width in widths.items()
    }
    lines = []
    for at in range(max(map(len, texts.values()), default=1)):
        parts = []
        for i, width in widths.items():
            text = texts[i][at] if at < len(texts[i]) else ""
            padded = text.rjust(width) if columns[i].right else text.ljust(width)
            parts.append(style.paint(padded, cells[i].tone))
        lines.append((" " * indent + GAP.join(parts)).rstrip())
    return lines


def _total(
    row: Total, columns: Sequence[Column], widths: dict[int, int], style: Style, indent: int
) -> list[str]:
    """The line of a total; none where a narrow page has dropped its column."""
    before = 0
    for i, width in widths.items():
        if columns[i].title == row.title:
            label = style.spell(row.label)
            text = style.spell(row.text).rjust(width)
            # A label that is wider than the columns before it takes of the indent.
            start = label.rjust(indent + max(0, before - len(GAP)))
            gap = GAP if before else ""
            return [f"{start}{gap}{text}"]
        before += width + len(GAP)
    return []


def prose(text: str, style: Style, *, indent: int = 2, hang: int = 0) -> list[str]:
    """`text` wrapped to the page, `indent` blanks before it and `hang` more from line two on."""
    return textwrap.wrap(
        style.spell(text),
        width=max(style.width, LEAST_WIDTH),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )


def heading(name: str, facts: Sequence[str], style: Style, *, indent: int = 2) -> list[str]:
    """`name   fact   fact`, the name strong, wrapped to the page."""
    word = style.spell(name)
    first, *more = prose("   ".join([name, *facts]), style, indent=indent, hang=2)
    head = " " * indent + word
    if first.startswith(head):
        first = " " * indent + style.paint(word, "strong") + first.removeprefix(head)
    return [first, *more]
