"""Functional networks of parcels: from the parcels' names, or from a file of the user.

Two naming schemes state the network: Schaefer's, "7Networks_LH_Vis_1", and CAB-NP's, "Visual1-04_L-Ctx". Otherwise a
file states it: one entry per line in the order of the parcels, or a table with the columns ``name`` and ``network``.

CAB-NP's own ``cortex_parcel_network_assignments.txt`` has 360 whole numbers, with Glasser's left hemisphere first.
Glasser's own label file numbers the right hemisphere first. Where the names of parcels state the hemisphere, the
numbers are assigned by hemisphere. A file of another name with such numbers is refused where that would reorder them.

References:
    Schaefer et al. 2018, Cerebral Cortex 28, 3095. CAB-NP: Ji et al. 2019, NeuroImage 185, 35.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.files.user_files import csv_rows, read_text
from posenc.workbench.tasks import simulated_brain

CAB_NP_NETWORKS = tuple(simulated_brain.NETWORKS)
"""Names of CAB-NP's networks 1 to 12."""
CAB_NP_FILE = "cortex_parcel_network_assignments.txt"
GLASSER_PARCELS = 360
NETWORK_PATTERNS = (r"\d+Networks_[LR]H_([A-Za-z]+)", r"(.+)-\d+_(?:[LR]|LR)-[A-Za-z]+$")
HEMISPHERE_PATTERNS = (r"([LR])_", r".*_([LR])(?:_ROI)?$", r".*_([LR])-Ctx$", r"(?:\d+Networks_)?([LR])H_")


def networks_from_names(names: Sequence[str]) -> tuple[str, ...] | None:
    """Network of each parcel from its name, or None where not every name states one.

    >>> networks_from_names(["7Networks_LH_Vis_1", "7Networks_RH_SomMot_12"])
    ('Vis', 'SomMot')
    >>> networks_from_names(["L_V1_ROI"]) is None
    True
    """
    for pattern in NETWORK_PATTERNS:
        matches = [re.match(pattern, name) for name in names]
        if matches and all(matches):
            return tuple(match[1] for match in matches if match)
    return None


def hemisphere(name: str) -> str | None:
    """Hemisphere that the name of a parcel states: "L", "R" or None."""
    return next((match[1] for pattern in HEMISPHERE_PATTERNS if (match := re.match(pattern, name))), None)


def read_networks(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Read the network of each named parcel from a file. Raises ValueError where it lacks one or cannot be read."""
    lines = [line.strip() for line in read_text(path, 40, "a table of networks").splitlines() if line.strip()]
    divider = "\t" if lines and "\t" in lines[0] else ","
    header = [cell.strip().lower() for cell in next((row for _, row in csv_rows(lines[:1], path, divider)), [])]
    if "network" in header and "name" in header:
        by_name = {
            row[header.index("name")].strip(): row[header.index("network")].strip()
            for _, row in csv_rows(lines[1:], path, divider)
            if len(row) == len(header)
        }
        if missing := [name for name in names if not by_name.get(name)]:
            raise ValueError(f"{path} states no network of {missing[0]!r}, one of {len(missing)} such. Add its row.")
        return tuple(by_name[name] for name in names)
    if len(lines) != len(names):
        raise ValueError(
            f"{path} has {count_of(len(lines), 'lines')}; one per parcel is needed, {len(names)}, in the order of the "
            "atlas, or a table with the columns name and network."
        )
    if not all(re.fullmatch(r"\d+", line) for line in lines):
        return tuple(lines)
    if len(lines) == GLASSER_PARCELS and (sided := _reorder_hemispheres(lines, names)) != lines:
        if path.name != CAB_NP_FILE:
            raise ValueError(
                f"{path} has {GLASSER_PARCELS} numbers, in the order of the atlas or, as CAB-NP's file, with the left "
                f"side first; the file does not state which. Name CAB-NP's file {CAB_NP_FILE}; write other networks as "
                "a table with the columns name and network."
            )
        lines = sided
    known = len(lines) == GLASSER_PARCELS and all(1 <= int(line) <= len(CAB_NP_NETWORKS) for line in lines)
    return tuple(CAB_NP_NETWORKS[int(line) - 1] if known else f"network {int(line)}" for line in lines)


def _reorder_hemispheres(lines: list[str], names: Sequence[str]) -> list[str]:
    """Reorder entries, left hemisphere first, to the order of the parcels; unchanged where names state no side."""
    sides = [hemisphere(name) for name in names]
    half = GLASSER_PARCELS // 2
    if sides.count("L") != half or sides.count("R") != half:
        return lines
    left, right = iter(lines[:half]), iter(lines[half:])
    return [next(left if each == "L" else right) for each in sides]
