"""Memory of the runs of a study: checked before anything starts, for one run and for several at a time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from posenc.cli import workbench
from posenc.workbench import memory, studies
from posenc.workbench.provenance import cores
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import globe, image_fit, points, scene, shape_fit
from posenc.workbench.studies.image_fit import presets
from posenc.workbench.studies.shared import planning

pytestmark = pytest.mark.bare

GIB = 2**30


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def leave(monkeypatch, gib):
    monkeypatch.setattr(memory, "free_memory", lambda: gib * GIB)
    monkeypatch.setattr(planning, "free_memory", lambda: gib * GIB)


@pytest.mark.parametrize("study", [image_fit, shape_fit, globe, scene, points], ids=lambda study: study.STUDY.name)
def test_a_run_that_does_not_fit_is_refused_with_the_number(tmp_path, monkeypatch, photo, study):
    """The memory of a process and of scoring after the training counts too."""
    (tmp_path / "ball.obj").write_text(TETRAHEDRON)
    source = {image_fit: photo, shape_fit: tmp_path / "ball.obj"}.get(study)
    panels = {globe: ["scores"], scene: ["sigma"]}.get(study)
    monkeypatch.setattr(scene.presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    request = studies.Request(preset="quick", source=source, panels=panels, seeds=[0])
    needed = planning.needed
    few = {"field": ["none"]}
    monkeypatch.setattr(planning, "needed", lambda of, asked: few if of is globe.STUDY else needed(of, asked))
    store = Store(tmp_path / "runs")
    specs = study.STUDY.plan(request, store)
    least = min(study.STUDY.cost.memory(spec) for spec in specs) + planning.WORKER_BYTES
    leave(monkeypatch, 0.99 * least / GIB)
    with pytest.raises(
        ValueError, match=r"training .* needs \d+\.\d\d GiB of memory, and \d+\.\d\d are free\. Ask for"
    ):
        study.STUDY.plan(request, store)


def test_as_many_run_beside_each_other_as_fit(tmp_path, monkeypatch, photo):
    request = studies.Request(preset="quick", source=photo, schemes=["none", "multires"])
    specs = image_fit.STUDY.plan(request, Store(tmp_path / "runs"))
    each = sorted((planning.WORKER_BYTES + image_fit.STUDY.cost.memory(spec) for spec in specs), reverse=True)
    for processes in (1, 2, 3, 6):
        leave(monkeypatch, 1.001 * sum(each[:processes]) / GIB)
        assert image_fit.STUDY.processes_that_fit(specs, 6) == processes
    two = image_fit.STUDY.estimate(specs, Store(tmp_path / "runs"), 2)
    assert two.memory_bytes == pytest.approx(sum(each[:2]))
    leave(monkeypatch, 0)
    assert image_fit.STUDY.processes_that_fit(specs, 6) == 1
    monkeypatch.setattr(planning, "free_memory", lambda: None)
    assert image_fit.STUDY.processes_that_fit(specs, 6) == 6
    assert image_fit.STUDY.processes_that_fit([], 6) == 6


@pytest.mark.full
@pytest.mark.skipif(cores() < 2, reason="one core executes one run anyway")
def test_a_run_says_where_memory_leaves_a_core_idle(tmp_path, monkeypatch, photo, capsys):
    small = dataclasses.replace(presets.PRESETS["quick"], limit=presets.Limit(steps=2), parameters=6000)
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    leave(monkeypatch, 0.8)
    status = workbench.run("image-fit", photo, schemes=("none",), seeds=(0, 1), panels=("fit",), out=tmp_path / "runs")
    printed = capsys.readouterr().out
    assert status == 0
    assert "2 runs on one process of one thread on the CPU" in printed
    assert "Running 1 at a time instead of 2 (one per core): memory does not suffice for more." in printed


def test_a_container_may_have_less_than_its_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path)
    whole = memory.free_memory()
    for name, text in {"max": "3000000", "current": "2000000", "stat": "anon 5\ninactive_file 500000\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.free_memory() == min(1_500_000, whole)
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() > 1_500_000


def test_a_seed_that_no_generator_takes_is_refused():
    for seed in (-1, 2**63):
        with pytest.raises(ValueError, match=rf"from 0 to 2\^63 - 1; got {seed}\. Use --seeds 0 1 2"):
            studies.Request(preset="quick", seeds=[seed])
    assert studies.Request(preset="quick", seeds=[2**63 - 1]).seeds == [2**63 - 1]


TETRAHEDRON = """v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""
