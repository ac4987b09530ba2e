"""Every preset of every study lists its runs, with data and without; without data that it needs, it names them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from drawn_pictures import write_idx
from posenc.workbench import studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.image_fit.scale_selection import SELECTION_PHOTOGRAPHS
from posenc.workbench.studies.scene import presets as scene
from posenc.workbench.tasks import shapes, simulated_brain
from posenc.workbench.tasks.globe import FILE as COUNTRIES
from small_images import packed_photographs

pytestmark = pytest.mark.bare

PRESETS = [(name, preset) for name, study in studies.studies().items() for preset in study.presets]
OWN_FILE_ALONE = {("gridpe", "paper"), ("gridpe", "as-released")}
"""Presets whose data no folder of data may hold: a file or folder of the user has to be named."""
WITHOUT_DATA = {"globe", "graphs", "latin-squares", "masked", "nmar", "places", "points", "scene", "series"}
"""Studies that simulate or render their data where none is given."""


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with small files in the place of all that the studies read, but the authors' Latin squares."""
    data = tmp_path_factory.mktemp("data")
    for name in ("caltech100", "geo", "mesh", "photos", "text"):
        (data / name).mkdir()
    write_idx(data / "fashion_mnist")
    packed_photographs(data / "caltech100")
    names = [*SELECTION_PHOTOGRAPHS, *(f"photograph {number}" for number in range(6))]
    for side, count in ((256, 10), (512, 7)):
        images = np.zeros((count, side, side, 3), np.uint8)
        np.savez(data / "photos" / f"photos_{side}.npz", images=images, names=np.array(names[:count]))
    land = np.zeros((360, 720), np.uint8)
    land[:40], land[100:140, :40] = 255, 255
    country = np.where(land > 0, 1 + np.arange(360)[:, None] // 100, 0).astype(np.int16)
    np.savez(data / COUNTRIES, land=land, country_iso=country)
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    np.savez(data / "mesh" / "spot.npz", v=corners, f=np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32))
    text = "to be or not to be, that is the question. " * 400
    (data / "text" / "tinyshakespeare.txt.gz").write_bytes(gzip.compress(text.encode()))
    return data


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store, so that presets with the same data write them once."""
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(autouse=True)
def little_generated_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans store the data that they generate: here few rendered images, short recordings and few points of a mesh."""
    monkeypatch.setattr(scene, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    simulate, make_pool = simulated_brain.simulate, shapes.make_pool
    small = shapes.PoolSizes(uniform=400, near=600, surface=400, held=500)
    monkeypatch.setattr(
        simulated_brain,
        "simulate",
        lambda subjects, frames, **options: simulate(min(subjects, 8), min(frames, 600), **options),
    )
    monkeypatch.setattr(shapes, "make_pool", lambda shape, sizes, *seed: make_pool(shape, small, *seed))


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_preset_is_planned_with_data(name: str, preset: str, small_data: Path, store: Store) -> None:
    assert_planned(name, studies.Request(preset=preset, seeds=[0], data=small_data), store)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_preset_is_planned_without_data_or_names_them(
    name: str, preset: str, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path))  # no data set that was downloaded on this machine
    assert_planned(name, studies.Request(preset=preset, seeds=[0]), store)


def assert_planned(name: str, request: studies.Request, store: Store) -> None:
    study = studies.find(name)
    needs_file = (request.data is None and name not in WITHOUT_DATA) or (name, request.preset) in OWN_FILE_ALONE
    if needs_file:
        with pytest.raises(ValueError, match=rf"posenc (run {name}|data) "):
            study.plan(request, store)
        return
    specs = study.plan(request, store)
    assert len({(spec.condition, spec.variant, spec.seed) for spec in specs}) == len(specs) > 0
    assert {(spec.study, spec.preset) for spec in specs} == {(name, request.preset)}
    assert all(study.panels[panel] for panel in study.presets[request.preset].panels)
