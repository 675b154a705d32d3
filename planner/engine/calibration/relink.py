"""One link of a calibrated machine measured again, while all else keeps its numbers and dates."""

from __future__ import annotations

from difflib import get_close_matches

from planner.engine.calibration.assemble import Found, link_names, link_of, provenance, warnings_of
from planner.errors import InputError
from planner.machine.schema import Link, Machine

MEASURED = ("storage", "pcie", "nvlink")
"""How the names of links that a calibration measures begin."""


def wanted_link(machine: Machine, text: str) -> str:
    """The name of the link that `text` names, or whose ends it gives: `host0->gpu0`.

    Raises `InputError` where the machine has no such link, or a calibration does not measure it.
    """
    name = text
    if "->" in text:
        ends = {part.strip() for part in text.split("->", 1)}
        name = next((n for n, link in machine.links.items() if set(link.ends) == ends), text)
    known = [n for n in machine.links if n.startswith(MEASURED)]
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
        raise InputError(f"{machine.name} has no measured link {text}", hint=hint)
    return name


def relinked(machine: Machine, name: str, found: Found) -> Machine:
    """The machine with the link `name` as it was found now, under a source of its own."""
    fresh = link_of(found, name) if name in link_names(found) else None
    if fresh is None:
        raise InputError(f"nothing of {name} could be measured")
    source = f"{name} again"
    kept = machine.links[name]
    link = fresh.model_copy(update={"source": source, "ports": kept.ports})
    links: dict[str, Link] = {**machine.links, name: _with_rest(kept, link)}
    return machine.model_copy(
        update={
            "links": links,
            "sources": {**machine.sources, source: provenance(found, found.cells)},
            "warnings": warnings_of(links),
        }
    )


def _with_rest(old: Link, new: Link) -> Link:
    """The new link, with those curves of the old one that were not measured this time.

    A curve that is kept names its source, since the link's is another now.
    """
    update = {}
    for way in ("forward", "backward"):
        before, after = getattr(old, way), getattr(new, way)
        if before is None or after is None:
            update[way] = after or before
            continue
        source = before.source or old.source
        rest = {
            name: curve.model_copy(update={"source": curve.source or source})
            for name, curve in before.curves.items()
            if name not in after.curves
        }
        more = {"curves": {**after.curves, **rest}}
        if after.requests is None:
            more["requests"] = before.requests
        update[way] = after.model_copy(update=more)
    return new.model_copy(update=update)
