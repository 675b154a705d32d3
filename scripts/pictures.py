"""Make the pictures of the guides: what the tool prints, in its colours, as SVG.

    python scripts/pictures.py [--check]

Each picture is one command on a machine of the catalogue, so it is the same wherever it is made.
`--check` writes nothing and names the pictures that are no longer what the command prints.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "pictures"

PICTURES: Final = {
    "slow-load": "planner estimate plans/llm_load.yaml",
    "shape": "planner sweep plans/llm_load.yaml --sweep chunk=64KiB,1MiB,16MiB --sweep depth=1,2,8",
    "machines": "planner sweep plans/llm_load.yaml --machine h200-sxm-1,pcie4-a100,desktop-rtx4090",
    "nodes": "planner sweep plans/cluster_cold_start.yaml --sweep nodes=16,64,128",
    "links": "planner sweep plans/llm_load.yaml --sweep links.pcie0.rate=25%,50%,100%",
}
"""Every picture by its name, and the command that it shows."""

# Of a dark terminal; each has a contrast of 4.5 or more on the ground (WCAG 2.2, AA).
_GROUND: Final = "#16181d"
_PLAIN: Final = "#d7dae0"
_COLOURS: Final = {"32": "#8cd17d", "31": "#ff8a80", "33": "#f2c14e", "2": "#9aa0ab"}
_SIZE, _WIDE, _HIGH, _EDGE = 14, 8.43, 19, 14
"""Pixels: font, character, line, margin."""
_CODE: Final = re.compile(r"\x1b\[(\d+)m")


def main(arguments: Sequence[str]) -> int:
    """Write all pictures, or check them; 1 where one is stale."""
    stale = []
    for name, line in PICTURES.items():
        path = FOLDER / f"{name}.svg"
        made = svg(line, printed(line))
        if "--check" not in arguments:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(made, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != made:
            stale.append(name)
    for name in stale:
        print(f"docs/pictures/{name}.svg is stale: python scripts/pictures.py")
    return 1 if stale else 0


def printed(line: str) -> str:
    """What the command prints, with its colours."""
    _, *words = shlex.split(line)
    more = ["--color", "always", "--width", "100", "--no-progress"]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "planner", *words, *more],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.stderr:
        raise RuntimeError(done.stderr.decode())
    return done.stdout.decode()


def svg(line: str, text: str) -> str:
    """A terminal with the command and its answer; the text stays text, for search and readers."""
    lines = [f"$ {line}", *text.rstrip("\n").splitlines()]
    columns = max(len(_CODE.sub("", row)) for row in lines)
    width, height = round(columns * _WIDE + 2 * _EDGE), len(lines) * _HIGH + 2 * _EDGE
    rows = []
    for at, row in enumerate(lines):
        spans = " ".join(_span(*stretch) for stretch in _pieces(row))
        rows.append(f'<text y="{_EDGE + _HIGH * at + _SIZE}">{spans}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{_SIZE}" '
        f'fill="{_PLAIN}">'
    )
    ground = f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}"/>'
    return "\n".join([head, f"<title>{escape(line)}</title>", ground, *rows, "</svg>", ""])


def _pieces(row: str) -> Iterator[tuple[int, str, str]]:
    """Column, text and colour code of each stretch; blanks between columns are left out.

    A viewer may take several blanks for one, so every stretch is put at its own place.
    """
    code, column = "0", 0
    for at, part in enumerate(_CODE.split(row)):
        if at % 2:
            code = part
            continue
        for found in re.finditer(r"\S+( \S+)*", part):
            yield column + found.start(), found[0], code
        column += len(part)


def _span(column: int, piece: str, code: str) -> str:
    """A stretch at its column, as wide as its characters whatever the font."""
    look = ' font-weight="bold"' if code == "1" else ""
    if code in _COLOURS:
        look = f' fill="{_COLOURS[code]}"'
    place = f'x="{round(_EDGE + column * _WIDE, 2)}" textLength="{round(len(piece) * _WIDE, 2)}"'
    return f'<tspan {place} lengthAdjust="spacingAndGlyphs"{look}>{escape(piece)}</tspan>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
