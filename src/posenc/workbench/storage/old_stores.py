"""Stores of the first layout: their keys held module paths and labels. An alias file maps each key to an identity.

    aliases.json     {"format": 1, "identities": {KEY OF 16 DIGITS: IDENTITY OF 24 DIGITS}}

Folders and files of such a store are not changed. Parents are mapped before their children, because the identity of a
child contains that of its parent. The file is written atomically; without write access the map is made in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.identity import canonical
from posenc.workbench.storage.stored_records import SETTING
from posenc.workbench.variant_labels import first_label

FORMAT = 1
OLD_DIGITS = 16
PROCEDURES: Mapping[str, str] = {
    "posenc.studies.globe.work:train_unit": "globe.train",
    "posenc.studies.classifying:train_unit": "classification.train",
    "posenc.studies.other_sizes:measure_unit": "classification.sizes",
    "posenc.studies.image_fit.work:train_unit": "image-fit.train",
    "posenc.studies.language.work:train_unit": "language.train",
    "posenc.studies.latin_squares.work:train_unit": "latin-squares.train",
    "posenc.studies.latin_squares.measuring:measure_unit": "latin-squares.measure",
    "posenc.studies.masked.work:train_unit": "masked.train",
    "posenc.studies.nmar.work:train_unit": "nmar.train",
    "posenc.studies.permuted.work:train_unit": "permuted.train",
    "posenc.studies.points.work:train_unit": "points.train",
    "posenc.studies.scene.work:train_unit": "scene.train",
    "posenc.studies.shape_fit.work:train_unit": "shape-fit.train",
}
"""Names of functions in stores of the first layout, and their procedures. Frozen: all are of version 1."""

PARENTS = ("trained", "reference")
"""Settings of measuring runs with the keys of their parents."""


class Aliases(msgspec.Struct):
    """Contents of ``aliases.json``."""

    format: int
    identities: dict[str, str]


def is_old(key: str) -> bool:
    """Return True if a folder name is a key of the first layout."""
    return len(key) == OLD_DIGITS and all(digit in "0123456789abcdef" for digit in key)


def upgraded(spec: RunSpec, identities: Mapping[str, str]) -> RunSpec:
    """Add the procedure and the identities of the parents to a run of the first layout."""
    if spec.procedure:
        return spec
    variant = spec.variant.removesuffix(f", {spec.condition}")  # labels of the first layout ended in the condition
    settings = dict(spec.settings)
    named = {role: settings.pop(role) for role in PARENTS if isinstance(settings.get(role), str)}
    parents = {role: identities.get(key, key) for role, key in named.items() if key}
    procedure = PROCEDURES.get(spec.entry, spec.entry)
    return msgspec.structs.replace(spec, variant=variant, procedure=procedure, parents=parents, settings=settings)


def identities_of(specs: Mapping[str, RunSpec]) -> dict[str, str]:
    """Map the keys of the first layout to identities, parents before children."""
    known: dict[str, str] = {}
    left = dict(specs)
    while left:
        ready = {key: spec for key, spec in left.items() if not (_parents(spec) & left.keys())} or left
        known |= {key: upgraded(spec, known).identity for key, spec in ready.items()}
        left = {key: spec for key, spec in left.items() if key not in ready}
    return known


def old_key(spec: RunSpec) -> str | None:
    """Key of a training run in a store of the first layout; None for a procedure that such stores do not have."""
    entry = next((old for old, procedure in PROCEDURES.items() if procedure == spec.procedure), None)
    if entry is None or spec.version != 1 or spec.parents:
        return None
    first = first_label(spec.study, spec.variant)
    label = first if spec.condition == "main" else f"{first}, {spec.condition}"
    settings = {name: value for name, value in spec.settings.items() if name != SETTING}
    decides = [spec.study, label, spec.seed, entry, canonical(settings, "settings")]
    return hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:OLD_DIGITS]


def read_aliases(path: Path) -> dict[str, str]:
    """Read the alias file: key to identity. A missing or damaged file gives an empty map, and is written anew."""
    try:
        aliases = msgspec.json.decode(path.read_bytes(), type=Aliases)
    except (OSError, msgspec.DecodeError):
        return {}
    return aliases.identities if aliases.format == FORMAT else {}


def write_aliases(path: Path, identities: Mapping[str, str]) -> None:
    """Write the alias file atomically; a read-only store is not changed."""
    try:
        write_whole(path, msgspec.json.encode(Aliases(FORMAT, dict(identities)), order="sorted"))
    except OSError:
        return


def _parents(spec: RunSpec) -> set[str]:
    return {str(spec.settings[role]) for role in PARENTS if spec.settings.get(role)}


def old_keys(names: Iterable[str]) -> list[str]:
    """Sorted folder names that are keys of the first layout."""
    return sorted(name for name in names if is_old(name))
