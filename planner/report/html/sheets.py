"""The templates: where they lie, and how they are filled."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


def folder() -> Path:
    """The folder of the templates: inside an installed package, else at the top of the checkout."""
    package = Path(__file__).resolve().parents[2]
    packed = package / "_templates"
    return packed if packed.is_dir() else package.parent / "templates"


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def fill(name: str, **values: Any) -> str:
    """The template filled in; a value that is missing is an error, not a gap."""
    return _environment().get_template(name).render(**values)


def plain(name: str) -> str:
    """A style sheet or a script as it goes into the page, without indentation and blank lines."""
    lines = (folder() / name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip())


def digest(text: str) -> str:
    """What a content security policy calls a text that it allows: `sha256-…`."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
