"""Which network a parcel belongs to: told by its name, or by a file of the user's.

Two ways of naming say it: Schaefer's, "7Networks_LH_Vis_1", and CAB-NP's, "Visual1-04_L-Ctx". Otherwise a file does:
one entry a line in the order of the parcels, or a table with the columns ``name`` and ``network``.

CAB-NP's own ``cortex_parcel_network_assignments.txt`` has 360 whole numbers, Glasser's left hemisphere first, while
Glasser's own label file numbers the right one first. Where names of parcels tell the hemispheres apart, the numbers go
by them; numbers in a file of another name, where that would move them, are refused.

Sources: Schaefer et al. 2018, Cerebral Cortex 28, 3095; CAB-NP, Ji et al. 2019, NeuroImage 185, 35.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from posenc.tasks import simulated_brain

CAB_NP = tuple(simulated_brain.NETWORKS)
"""CAB-NP's networks 1 to 12."""
CAB_NP_FILE = "cortex_parcel_network_assignments.txt"
GLASSER = 360
NAMED = (r"\d+Networks_[LR]H_([A-Za-z]+)", r"(.+)-\d+_(?:[LR]|LR)-[A-Za-z]+$")
SIDES = (r"([LR])_", r".*_([LR])(?:_ROI)?$", r".*_([LR])-Ctx$", r"(?:\d+Networks_)?([LR])H_")


def networks_of(names: Sequence[str]) -> tuple[str, ...] | None:
    """The network of each parcel by its name, or None where the names do not all say one.

    >>> networks_of(["7Networks_LH_Vis_1", "7Networks_RH_SomMot_12"])
    ('Vis', 'SomMot')
    >>> networks_of(["L_V1_ROI"]) is None
    True
    """
    for pattern in NAMED:
        found = [re.match(pattern, name) for name in names]
        if found and all(found):
            return tuple(match[1] for match in found if match)
    return None


def side(name: str) -> str | None:
    """The hemisphere that the name of a parcel says: "L", "R" or None."""
    return next((match[1] for pattern in SIDES if (match := re.match(pattern, name))), None)


def read_networks(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """The network of each parcel of these names, by a file. Raises ValueError where it lacks one, or cannot be read."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as text ({error}).") from error
    divider = "\t" if lines and "\t" in lines[0] else ","
    header = [cell.strip().lower() for cell in next(csv.reader(lines[:1], delimiter=divider), [])]
    if "network" in header and "name" in header:
        told = {
            row[header.index("name")].strip(): row[header.index("network")].strip()
            for row in csv.reader(lines[1:], delimiter=divider)
            if len(row) == len(header)
        }
        if missing := [name for name in names if not told.get(name)]:
            raise ValueError(f"{path} tells no network of {missing[0]!r}, one of {len(missing)}. Add its row.")
        return tuple(told[name] for name in names)
    if len(lines) != len(names):
        raise ValueError(
            f"{path} has {len(lines)} lines; one a parcel is needed, {len(names)}, in the order of the atlas, or a "
            "table with the columns name and network."
        )
    if not all(re.fullmatch(r"\d+", line) for line in lines):
        return tuple(lines)
    if len(lines) == GLASSER and (sided := _by_side(lines, names)) != lines:
        if path.name != CAB_NP_FILE:
            raise ValueError(
                f"{path} has {GLASSER} numbers, and does not say whether they go as the atlas does or, as CAB-NP's, "
                f"with the left side first. Name CAB-NP's {CAB_NP_FILE}; give others as a table with the columns name "
                "and network."
            )
        lines = sided
    known = len(lines) == GLASSER and all(1 <= int(line) <= len(CAB_NP) for line in lines)
    return tuple(CAB_NP[int(line) - 1] if known else f"network {int(line)}" for line in lines)


def _by_side(lines: list[str], names: Sequence[str]) -> list[str]:
    """Entries of the left side, then of the right, in the order of the parcels; as they are where no side shows."""
    sides = [side(name) for name in names]
    half = GLASSER // 2
    if sides.count("L") != half or sides.count("R") != half:
        return lines
    left, right = iter(lines[:half]), iter(lines[half:])
    return [next(left if each == "L" else right) for each in sides]
