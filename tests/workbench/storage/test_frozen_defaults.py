"""Frozen defaults: the table only grows, and it has every default that a study writes into the settings of a run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect as types

from posenc.workbench import studies
from posenc.workbench.storage import identity as definition
from posenc.workbench.storage.frozen_defaults import ALWAYS_WRITTEN, FROZEN_DEFAULTS, OUTSIDE
from posenc.workbench.tasks.nmar import NMAR

pytestmark = pytest.mark.bare

HERE = Path(__file__).parent
FIRST_RUNS = {each["study"]: each for each in json.loads((HERE / "runs_of_the_first_layout.json").read_text())}
FIRST_DEFAULTS = HERE / "frozen_defaults_of_the_first_version.json"


def test_frozen_defaults_are_added_and_never_changed() -> None:
    """Entries may be added to the table. Those of its first version stay, and so does the file that lists them."""
    digest = hashlib.sha256(FIRST_DEFAULTS.read_bytes()).hexdigest()
    assert digest == "fb377ee33560f569316ad947e378761dfc1a22868cb23c8423b2f428fb39fe20"
    first = json.loads(FIRST_DEFAULTS.read_text())
    assert {path: FROZEN_DEFAULTS.get(path, "absent") for path in first} == first


def test_first_version_of_always_written_and_outside_stay() -> None:
    assert {"row.config.channels", "row.config.placement"} <= ALWAYS_WRITTEN
    assert {"device", "trained_as", "pictures.name", "data.pictures.name", "dataset"} == OUTSIDE


def test_tables_do_not_overlap() -> None:
    assert not ALWAYS_WRITTEN & FROZEN_DEFAULTS.keys()
    assert not OUTSIDE & FROZEN_DEFAULTS.keys()


Field = tuple[str, types.Field, type, bool]
"""Path, field, struct, and whether the whole struct may be absent."""
PLAIN = {"data", "places", "scene"}
"""Mappings in the settings that are written by hand: all their values count, except in the structs that they hold."""


def mappings() -> dict[str, list[dict[str, Any]]]:
    """Path to the structs' mappings that stand there, in the stored runs of all studies."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in FIRST_RUNS.values():
        for name, value in run["settings"].items():
            below = {f"{name}.{each}": inner for each, inner in value.items()} if name in PLAIN else {name: value}
            for path, inner in below.items():
                if isinstance(inner, dict):
                    found.setdefault(path, []).append(inner)
    return found


def structs_of(mapping: dict[str, Any]) -> list[type]:
    """Structs of the package that write such a mapping: they have its fields and can read it."""
    studies.studies()  # which imports them all
    every, known = [msgspec.Struct], list[type]([NMAR])
    while every:
        below = every.pop().__subclasses__()
        every += below
        known += [struct for struct in below if struct.__module__.startswith("posenc.")]
    return [struct for struct in known if mapping.keys() <= names_of(struct) and can_read(struct, mapping)]


def names_of(struct: type) -> set[str]:
    if not issubclass(struct, msgspec.Struct):
        return {field.name for field in dataclasses.fields(struct)}
    return {*struct.__struct_encode_fields__, str(struct.__struct_config__.tag_field)}


def can_read(struct: type, mapping: dict[str, Any]) -> bool:
    try:
        msgspec.convert(mapping, struct)
    except msgspec.ValidationError:
        return False
    return True


def fields(described: types.Type, path: str, optional: bool = False) -> Iterator[Field]:
    """Every field below a type."""
    if isinstance(described, types.StructType | types.DataclassType):
        for field in described.fields:
            at = f"{path}.{field.encode_name}"
            yield at, field, described.cls, optional
            yield from fields(field.type, at)
    elif isinstance(described, types.UnionType):
        absent = any(isinstance(each, types.NoneType) for each in described.types)
        for each in described.types:
            yield from fields(each, path, absent)
    elif isinstance(described, types.ListType | types.VarTupleType):
        yield from fields(described.item_type, f"{path}[]")
    elif isinstance(described, types.TupleType):
        for each in described.item_types:
            yield from fields(each, f"{path}[]")


@pytest.fixture(scope="module")
def every_field() -> list[Field]:
    structs = {(path, struct) for path, some in mappings().items() for each in some for struct in structs_of(each)}
    return [each for path, struct in structs for each in fields(types.type_info(struct), path)]


def is_unset(field: types.Field) -> bool:
    """True for a field that is absent from the settings unless it has a value; msgspec writes no UNSET."""
    return not field.required and field.default is field.default_factory is msgspec.NODEFAULT


def default_of(field: types.Field) -> Any:
    """Default as plain JSON."""
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return msgspec.to_builtins(default)


def counts(path: str, default: Any) -> bool:
    """Whether a default would count in the identity. A mapping of frozen defaults does not."""
    if path in {*FROZEN_DEFAULTS, *ALWAYS_WRITTEN, *OUTSIDE}:
        return False
    return not isinstance(default, dict) or definition._reduced(definition.canonical(default, path), path) != {}


def test_every_default_of_the_settings_is_frozen(every_field: list[Field]) -> None:
    missing = {
        f"{path}: {struct.__name__} has the default {default_of(field)!r}"
        for path, field, struct, _ in every_field
        if not field.required and not is_unset(field) and counts(path, default_of(field))
    }
    assert not missing, (
        f"{'; '.join(sorted(missing))}. Add each path to FROZEN_DEFAULTS in workbench/storage/frozen_defaults.py, with "
        "the value that means what earlier runs did, so that stored runs keep their identity."
    )


def test_a_mapping_that_may_be_absent_has_a_field_that_always_counts(every_field: list[Field]) -> None:
    """Else all its defaults together would be the same run as no mapping at all."""
    required: dict[tuple[str, type], bool] = {}
    for path, field, struct, optional in every_field:
        if optional:
            where = (path.rpartition(".")[0], struct)
            required[where] = required.get(where, False) or field.required
    assert required
    assert [f"{path}: {struct.__name__}" for (path, struct), some in required.items() if not some] == []


@pytest.mark.parametrize("path", mappings())
def test_every_mapping_of_the_settings_is_written_by_a_struct(path: str) -> None:
    """So that the test of defaults sees it. A mapping that is written by hand is named in PLAIN."""
    for mapping in mappings()[path]:
        assert structs_of(mapping), f"no struct has the fields {', '.join(mapping)}"
