"""The guides tell the truth: commands run, transcripts and pictures are what is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scripts import pictures
from tests.test_readme import BLOCK, ROOT, command, run

DOCS = ROOT / "docs"
GUIDES = sorted(DOCS.glob("guide-*.md"))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plans, where commands may leave files."""
    folder = tmp_path_factory.mktemp("guides")
    (folder / "plans").symlink_to(ROOT / "plans")
    return folder


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_commands_of_a_guide_do_what_it_shows(
    guide: Path, checkout: Path, request: pytest.FixtureRequest
) -> None:
    text = guide.read_text(encoding="utf-8")
    rewritten = text
    for block in BLOCK.finditer(text):
        if block["info"].strip() == "skip":
            continue
        if block["kind"] == "sh":
            for line in block["body"].splitlines():
                run(command(line), checkout)
        if block["kind"] == "python":
            subprocess.run(
                [sys.executable, "-c", block["body"]],
                check=True,
                capture_output=True,
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                timeout=60,
            )
        if block["kind"] == "console":
            line, *shown = block["body"].splitlines()
            printed = run(command(line[2:]), checkout).rstrip("\n").splitlines()
            if request.config.getoption("--update-golden"):
                body = "\n".join([line, *printed, ""])
                rewritten = rewritten.replace(block["body"], body)
            else:
                assert shown == printed
    if rewritten != text:
        guide.write_text(rewritten, encoding="utf-8")


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_what_its_command_prints(name: str, request: pytest.FixtureRequest) -> None:
    line = pictures.PICTURES[name]
    made = pictures.svg(line, pictures.printed(line))
    path = pictures.FOLDER / f"{name}.svg"
    if request.config.getoption("--update-golden"):
        path.write_text(made, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == made
    drawing = ET.fromstring(made)  # noqa: S314 - made above
    texts = ["".join(row.itertext()) for row in drawing if row.tag.endswith("text")]
    assert texts[0] == f"$ {line}"
    # Columns stand by their places: no stretch counts on blanks that a viewer may drop.
    stretches = [part.text or "" for row in drawing for part in row]
    assert stretches
    assert not [text for text in stretches if "  " in text or text != text.strip()]
    assert len(made) < 40_000


def test_every_picture_is_shown_and_every_shown_one_is_made() -> None:
    shown = {
        link
        for guide in GUIDES
        for link in re.findall(r"!\[[^\]]+\]\(pictures/(.+?)\.svg\)", guide.read_text("utf-8"))
    }
    assert shown == set(pictures.PICTURES)
    assert {path.stem for path in pictures.FOLDER.iterdir()} == shown


def test_every_page_is_listed_and_every_link_leads_somewhere() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    listed = set(re.findall(r"\]\(([^)#:]+\.md)\)", index))
    assert listed == pages
    for page in [*GUIDES, DOCS / "index.md"]:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (DOCS / link).exists()] == []
