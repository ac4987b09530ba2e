"""Identity: stored results remain readable while labels, modules and defaults change. The digests are pinned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from posenc.workbench import studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage import identity as definition
from posenc.workbench.storage.frozen_defaults import FROZEN_DEFAULTS, OUTSIDE
from posenc.workbench.storage.old_stores import old_key, upgraded
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares.measure import MEASURE as MEASURE_SQUARES
from posenc.workbench.studies.recordings.training_error import MEASURE as MEASURE_MASKED
from posenc.workbench.studies.shared.declarations import PanelSpec
from posenc.workbench.studies.shared.image_sizes import MEASURE as MEASURE_SIZES

pytestmark = pytest.mark.bare

HERE = Path(__file__).parent
FIRST_RUNS = {each["study"]: each for each in json.loads((HERE / "runs_of_the_first_layout.json").read_text())}
"""One training run of each study at the quick preset, as the version before identities planned and stored it."""

IDENTITIES = {
    "globe": "e84a162b7de995e8eac96fff",
    "gridpe": "44001ba0efd7defb834be37a",
    "image-fit": "83878a1cac0841f7cda2d6f1",
    "language": "a882e915ccba82feacd1fc14",
    "latin-squares": "2e6e01d90d7ae8640b7c9063",
    "masked": "ec45e14c9490bf851d1d431e",
    "nmar": "bd6d9cf3b88bd7604de09c48",
    "permuted": "59b2b212748ec97b7a45dc35",
    "points": "972fcddae16afad7049d9a9b",
    "sc-pe": "5529f7dba4a9ad84e3f63ff5",
    "scene": "89505b7ffc73e4a49562eb3c",
    "shape-fit": "a9a98e52ccc92e35c3673e6b",
}
"""If one of these changes, every stored run of that study is executed again. Mend the change, not the literal."""
LATER = {
    "graphs": ("none", "c9e6a210f9f8ef9ef258b9cf"),
    "places": ("none", "3eea79efe6fa9f0f02260665"),
    "series": ("none", "c35e49fe22c56e33a089a537"),
}
"""The same for studies that stores of the first layout do not have, with the variant of seed 0 at the quick preset."""
MEASURED = {
    "latin-squares": "19698e4542a5d87edbe63ce4",
    "gridpe": "56e905c6e1fa697646b87126",
    "masked": "cb0da835a217a432e23ce429",
}
"""The same for one measuring run of each study that measures trained models."""
NOISE = {"scales": [0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0], "draws": 20}
SIZES = {"scales": {"half": 0.5, "double": 2.0}, "looked_at": 500, "device": "cpu"}


def first_run(study: str, **changes: Any) -> RunSpec:
    """The stored run of a study, as it was written."""
    values = {name: value for name, value in FIRST_RUNS[study].items() if name != "key"}
    return msgspec.convert(values | changes, RunSpec)


def training_run(**changes: Any) -> RunSpec:
    """The stored run of the Latin squares, upgraded, with changes."""
    return msgspec.structs.replace(upgraded(first_run("latin-squares"), {}), **changes)


# pinned -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", IDENTITIES)
def test_a_stored_training_run_keeps_its_key_and_its_identity(study: str) -> None:
    spec = upgraded(first_run(study), {})
    assert old_key(spec) == FIRST_RUNS[study]["key"]
    assert spec.identity == IDENTITIES[study]


def test_every_study_has_a_pinned_identity() -> None:
    assert set(IDENTITIES) == set(FIRST_RUNS)
    assert {*IDENTITIES, *LATER} == set(studies.studies())


@pytest.mark.parametrize("study", LATER)
def test_todays_plan_of_a_later_study_holds_its_pinned_run(study: str, tmp_path: Path) -> None:
    variant, pinned = LATER[study]
    request = studies.Request(preset="quick", schemes=[variant], seeds=[0])
    assert pinned in {spec.identity for spec in studies.find(study).plan(request, Store(tmp_path))}


@pytest.mark.parametrize("study", ["globe", "latin-squares", "masked", "nmar", "points"])
def test_todays_plan_holds_the_stored_run(study: str, tmp_path: Path) -> None:
    assert_planned(study, tmp_path, data=None)


@pytest.mark.bare
@pytest.mark.full
def test_todays_plan_of_a_scene_holds_the_stored_run(tmp_path: Path) -> None:
    assert_planned("scene", tmp_path, data=None)  # renders its images


@pytest.mark.bare
@pytest.mark.full
@pytest.mark.parametrize("study", ["gridpe", "image-fit", "language", "permuted", "sc-pe", "shape-fit"])
def test_todays_plan_holds_the_stored_run_of_real_data(study: str, tmp_path: Path, data_folder: Path) -> None:
    assert_planned(study, tmp_path, data=data_folder)


def assert_planned(study: str, root: Path, data: Path | None) -> None:
    stored = upgraded(first_run(study), {})
    request = studies.Request(preset="quick", schemes=[stored.variant], seeds=[stored.seed], data=data)
    planned = {spec.identity: spec for spec in studies.find(study).plan(request, Store(root))}
    assert IDENTITIES[study] in planned
    assert planned[IDENTITIES[study]].procedure == stored.procedure


def measuring_runs() -> dict[str, RunSpec]:
    """One measuring run of each study that measures trained models, by study."""
    squares, grids = training_run(), upgraded(first_run("gridpe"), {})
    reference = msgspec.structs.replace(squares, seed=1).identity
    return {
        "latin-squares": MEASURE_SQUARES.measuring(squares, NOISE, {"reference": reference}),
        "gridpe": MEASURE_SIZES.measuring(grids, SIZES),
        "masked": MEASURE_MASKED.measuring(upgraded(first_run("masked"), {}), {"samples": 2048, "rate": 0.9}),
    }


def test_the_measuring_runs_are_those_of_every_study_that_measures() -> None:
    default = PanelSpec.__dataclass_fields__["measured"].default
    panels = {name: study.panels.values() for name, study in studies.studies().items()}
    assert {name for name, each in panels.items() if any(panel.measured is not default for panel in each)} == set(
        MEASURED
    )


def test_a_measuring_run_of_the_latin_squares_keeps_its_identity() -> None:
    spec, trained = measuring_runs()["latin-squares"], training_run()
    assert spec.identity == MEASURED["latin-squares"]
    before = first_run(
        "latin-squares",
        work="posenc.studies.latin_squares.measuring:measure_unit",
        settings={"trained": "0" * 16, "reference": "1" * 16, **NOISE},
    )
    identities = {"0" * 16: trained.identity, "1" * 16: spec.parents["reference"]}
    assert upgraded(before, identities) == msgspec.structs.replace(spec, entry=before.entry)


def test_a_measuring_run_at_other_image_sizes_keeps_its_identity() -> None:
    spec = measuring_runs()["gridpe"]
    assert spec.identity == MEASURED["gridpe"]
    entry = "posenc.studies.other_sizes:measure_unit"
    before = first_run("gridpe", work=entry, settings={"trained": "0" * 16, **SIZES})
    assert upgraded(before, {"0" * 16: spec.parents["trained"]}).identity == spec.identity


# outside the identity ------------------------------------------------------------------------------------------------


@pytest.fixture(params=[*IDENTITIES, *(f"{study}, measured" for study in MEASURED)])
def pinned(request: pytest.FixtureRequest) -> tuple[RunSpec, str]:
    """Each run whose identity is pinned, training and measuring, with that identity."""
    study, _, measured = request.param.partition(", ")
    if measured:
        return measuring_runs()[study], MEASURED[study]
    return upgraded(first_run(study), {}), IDENTITIES[study]


@pytest.mark.parametrize(
    "changes",
    [
        {"entry": "posenc.somewhere.else_entirely:train"},
        {"variant": "two sinusoids"},
        {"preset": "paper"},
        {"condition": "another condition"},
    ],
    ids=str,
)
def test_labels_and_code_locations_change_no_identity(pinned: tuple[RunSpec, str], changes: dict[str, Any]) -> None:
    spec, identity = pinned
    assert msgspec.structs.replace(spec, **changes).identity == identity


def test_a_new_setting_with_a_default_changes_no_identity(
    pinned: tuple[RunSpec, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, identity = pinned
    monkeypatch.setitem(definition._DEFAULTS, "restarts", 0)
    later = msgspec.structs.replace(spec, settings={**spec.settings, "restarts": 0})
    assert later.identity == identity
    assert msgspec.structs.replace(spec, settings={**spec.settings, "restarts": 1}).identity != identity


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_settings_outside_the_identity_change_none(name: str) -> None:
    assert training_run(settings=changed(training_run().settings, name, "anything")).identity == training_run().identity


def test_a_setting_with_its_frozen_default_is_as_good_as_absent() -> None:
    settings = training_run().settings
    written = [path for path in FROZEN_DEFAULTS if "[]" not in path and present(settings, path)]
    assert len(written) > 5
    for path in written:
        defaulted = changed(settings, path, FROZEN_DEFAULTS[path])
        assert training_run(settings=defaulted).identity == training_run(settings=without(settings, path)).identity


def test_a_setting_that_is_added_later_changes_no_stored_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(definition._DEFAULTS, "training.restarts", 0)
    later = changed(training_run().settings, "training.restarts", 0)
    assert training_run(settings=later).identity == IDENTITIES["latin-squares"]
    other = changed(training_run().settings, "training.restarts", 1)
    assert training_run(settings=other).identity != IDENTITIES["latin-squares"]
    untyped = changed(training_run().settings, "training.restarts", False)  # False == 0, and is another setting
    assert training_run(settings=untyped).identity != IDENTITIES["latin-squares"]


def test_a_new_setting_without_a_frozen_default_counts() -> None:
    later = changed(training_run().settings, "training.restarts", 0)
    assert training_run(settings=later).identity != IDENTITIES["latin-squares"]


def test_an_empty_mapping_does_not_count() -> None:
    later = changed(training_run().settings, "row.changes", {})
    assert training_run(settings=later).identity == IDENTITIES["latin-squares"]


# inside the identity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"study": "other"},
        {"procedure": "latin-squares.train-longer"},
        {"version": 2},
        {"parents": {"trained": "0" * 24}},
    ],
    ids=str,
)
def test_a_change_that_decides_the_result_changes_the_identity(changes: dict[str, Any]) -> None:
    assert training_run(**changes).identity != IDENTITIES["latin-squares"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("training.lr", 0.5),
        ("training.weight_decay", 0.1),
        ("model.dim", 48),
        ("model.norm", "pre"),
        ("row.scheme", "Learned"),
        ("row.options.axes", 1),
        ("train_size", None),
        ("data.seed", 2),
    ],
)
def test_a_setting_that_counts_changes_the_identity(path: str, value: object) -> None:
    assert training_run(settings=changed(training_run().settings, path, value)).identity != training_run().identity


def present(settings: dict[str, Any], path: str) -> bool:
    for name in path.split("."):
        if not isinstance(settings, dict) or name not in settings:
            return False
        settings = settings[name]
    return True


def changed(settings: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of settings with one value, at a path that may be new."""
    name, _, rest = path.partition(".")
    return settings | {name: changed(settings.get(name) or {}, rest, value) if rest else value}


def without(settings: dict[str, Any], path: str) -> dict[str, Any]:
    """A copy of settings without the value at a path."""
    name, _, rest = path.partition(".")
    if rest:
        return settings | {name: without(settings[name], rest)}
    return {each: value for each, value in settings.items() if each != name}
