"""Turn a full calibration of a computer into an entry of the catalogue.

    python scripts/catalogue_entry.py CALIBRATION.yaml --name h200-sxm-2 \
        --description "two NVIDIA H200 SXM" --machine "virtual machine, 32 cores"

What belongs to that one computer goes (serial numbers, its scratch folder), numbers keep the four
digits that measurements have, and every part names the calibration as its source. The entry is
printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a checkout not installed

from planner.machine.dump import dump_machine
from planner.machine.load import load_machine
from planner.machine.schema import Disk, Hbm, Machine

SOURCE = "calibration"
DIGITS = 4


def rounded(value: Any) -> Any:
    """The value with every number to the digits that a measurement has.

    >>> rounded({"rate": 55_201_637_836.7, "workers": [1, 32], "why": None})
    {'rate': 55200000000.0, 'workers': [1, 32], 'why': None}
    """
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def entry(machine: Machine, name: str, description: str, where: str) -> Machine:
    """The machine as the catalogue holds it."""
    tree = rounded(machine.model_dump(mode="json", by_alias=True))
    tree |= {"name": name, "description": description}
    tree["hardware"] = {k: v for k, v in tree["hardware"].items() if k != "date"}
    tree["sources"][SOURCE] |= {"where": where}
    for key, node in machine.nodes.items():
        if isinstance(node, Disk):
            tree["nodes"][key]["path"] = None
        if isinstance(node, Hbm):
            tree["nodes"][key]["uuid"] = None
        tree["nodes"][key]["source"] = SOURCE
    for link in tree["links"].values():
        link["source"] = SOURCE
    return Machine.model_validate(tree)


def main() -> int:
    """Print the entry."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("calibration")
    parser.add_argument("--name", required=True)
    parser.add_argument("--description", required=True)
    parser.add_argument("--machine", required=True, help="what was measured, for the provenance")
    options = parser.parse_args()
    found = load_machine(options.calibration)
    sys.stdout.write(dump_machine(entry(found, options.name, options.description, options.machine)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
