"""posenc export: a stored run as weights, ONNX, a picture, a mesh or a table."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import posenc
from posenc import cli
from posenc.workbench import RunResult, RunSpec, Store, draw_image, execute_runs, export_run
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.run_export import forms_of
from posenc.workbench.studies.scene import density_mesh
from posenc.workbench.studies.scene.execute import stored_scene
from posenc.workbench.studies.shape_fit.stored_model import surface
from posenc.workbench.tasks import shapes
from tiers import full_except
from workbench.studies.small_studies import EVERY, few_examples, small_data, small_request, two_steps

pytestmark = pytest.mark.bare

__all__ = ["few_examples", "small_data"]

VARIANTS = {"globe": "xyz", "gridpe": "GridPE", "image-fit": "multires", "language": "rope", "shape-fit": "none"}


@pytest.fixture
def trained(tmp_path: Path, small_data: Path, few_examples: None) -> Callable[..., Store]:
    def train(study: str, variant: str) -> Store:
        store = Store(tmp_path / f"runs-{study}")
        (spec, *_) = EVERY[study].plan(small_request(study, small_data, schemes=[variant]), store)
        report = execute_runs([two_steps(spec)], store, InProcess(), emit=lambda event: None)
        assert not report.failed, report.failed
        return store

    return train


def exported(*words: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["export", *map(str, words)])
    return int(stop.value.code or 0)


def test_weights_keep_their_names_and_say_what_they_read(trained: Callable[..., Store], tmp_path: Path) -> None:
    from safetensors import safe_open

    store = trained("image-fit", "multires")
    (spec,) = store.specs()
    path = export_run(store.root, tmp_path / "deeper" / "field.safetensors", variant="multires")
    with safe_open(path, "pt") as file:
        written = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no mapping
        metadata = file.metadata()
    weights = store.weights(spec.identity)
    assert set(written) == set(weights)
    assert all(torch.equal(written[name], weights[name]) for name in weights)
    assert metadata["run"] == spec.identity
    field: Any = posenc.load(store.root)
    assert metadata["convention"] == field.convention


def test_a_picture_in_its_own_size_and_in_another(
    trained: Callable[..., Store], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    store = trained("image-fit", "multires")
    (spec,) = store.specs()
    path = tmp_path / "picture.png"
    assert exported(spec.identity[:8], "--to", path, "--out", store.root) == 0
    assert capsys.readouterr().out.startswith(f"{path}  ")
    field = posenc.load(store.root)
    with image.open(path) as opened:
        assert np.array_equal(np.asarray(opened.convert("RGB")), draw_image(field, 16, 16).mul(255).round())
    assert exported("--variant", "multires", "--to", path, "--size", 40, "--out", store.root) == 2
    assert "exists and is left unchanged" in capsys.readouterr().err
    assert exported("--variant", "multires", "--to", path, "--size", 40, "--force", "--out", store.root) == 0
    with image.open(path) as opened:
        assert opened.size == (40, 40)


@pytest.mark.compile
@pytest.mark.full
@pytest.mark.parametrize("study", VARIANTS)
def test_onnx_gives_the_values_of_the_model_for_another_number_of_inputs(
    study: str, trained: Callable[..., Store], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    store = trained(study, VARIANTS[study])
    path = export_run(store.root, tmp_path / "model.onnx", study=study)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    model: Any = posenc.load(store.root)
    declared = EVERY[study].stored_model
    assert declared is not None
    assert declared.example is not None
    one = declared.example(model.run_spec)[:1]
    example = one if study == "gridpe" else one.repeat(3, *[1] * (one.dim() - 1))  # a ViT reads one image at a time
    (name,) = (argument.name for argument in session.get_inputs())
    (out,) = session.run(None, {name: example.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.tensor(out), model(example), atol=1e-4, rtol=1e-4)


class Ball(nn.Module):
    """Signed distance to a ball of radius 0.3 in the middle of the cube."""

    run_spec: RunSpec

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x - 0.5).norm(dim=-1) - 0.3)[:, None]


def test_a_surface_is_in_the_coordinates_of_the_users_file(trained: Callable[..., Store], tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    store = trained("shape-fit", "none")
    ball = Ball()
    loaded: Any = posenc.load(store.root)
    ball.run_spec = loaded.run_spec
    mesh = surface(ball, store.root, 24)
    # Spot's place in the test is a corner tetrahedron with edges of length 1, so the cube is 1 / (1 - 2 margin) wide.
    radius = 0.3 / (1 - 2 * shapes.MARGIN)
    distance = np.linalg.norm(mesh.vertices - 0.5, axis=1)
    assert distance == pytest.approx(radius, abs=0.02)
    with pytest.raises(ValueError, match="no surface"):
        surface(_everywhere(ball), store.root, 4)


def _everywhere(ball: Ball) -> nn.Module:
    class Outside(Ball):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ones(len(x), 1)

    outside = Outside()
    outside.run_spec = ball.run_spec
    return outside


def test_the_density_of_a_scene_is_a_colored_mesh_of_the_world(
    trained: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("skimage")
    store = trained("scene", "multires")
    model: Any = posenc.load(store.root)
    with torch.no_grad():
        density, _ = model.density(shapes.lattice_points(8))
    monkeypatch.setattr(density_mesh, "DENSITY", float(density.median()))
    path = export_run(store.root, tmp_path / "mesh.ply", size=8)
    content = path.read_bytes()
    assert b"property uchar red" in content[:400]
    scene = stored_scene(store.root, model.run_spec.settings["scene"])
    mesh = density_mesh.density_mesh(model, store.root, 8)
    assert mesh.colors is not None
    assert mesh.colors.shape == mesh.vertices.shape
    inside = (mesh.vertices - np.array(scene.low)) / scene.side
    assert inside.min() > -0.15  # closed one cell outside of the cube
    assert inside.max() < 1.15
    assert len(shapes.read_shape(path).mesh.faces) == len(mesh.faces)
    monkeypatch.setattr(density_mesh, "DENSITY", math.inf)
    with pytest.raises(ValueError, match="this scene has no surface"):
        export_run(store.root, tmp_path / "none.ply", size=8)
    assert not (tmp_path / "none.ply").exists()


def test_a_table_has_every_metric_and_every_point_of_the_curves(trained: Callable[..., Store], tmp_path: Path) -> None:
    store = trained("globe", "xyz")
    (spec,) = store.specs()
    path = export_run(store.root, tmp_path / "run.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    stored = store.read(spec.identity)
    assert {row["metric"]: float(row["value"]) for row in rows if row["epoch"] == ""} == stored.metrics
    curve = [(row["metric"], row["epoch"], float(row["value"])) for row in rows if row["epoch"]]
    assert curve == [(row["metric"], str(row["epoch"]), row["value"]) for row in stored.curves]


@pytest.mark.parametrize("study", full_except(EVERY, "masked"))
def test_every_study_says_which_forms_its_runs_take(study: str) -> None:
    declared = EVERY[study].stored_model
    assert declared is not None
    run: Any = type("Stored", (), {"has_network": True})
    forms = forms_of(run, declared)
    assert {".csv", ".safetensors"} <= set(forms)
    assert (".png" in forms) == (study == "image-fit")
    assert (".ply" in forms) == (study in ("shape-fit", "scene"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "a.ply"], "a run of image-fit cannot be written as .ply: it has no surface."),
        (["--to", "a.jpg"], "a.jpg has no suffix that names a form."),
        (["--to", "a.png", "--size", "0"], "the size of .png is 1 to 16384 pixels"),
        (["--to", "a.csv", "--size", "8"], ".csv has no size."),
        (["--to", "a.png", "--variant", "nnoe"], "there is no variant 'nnoe'. Did you mean none?"),
        (["ffffffff", "--to", "a.png"], "no run of"),
        ([], "--to is missing"),
        (["--to", "/dev/stdout"], "is not a file of yours"),
        (["--to", "a.png", "--out", "nothing"], "nothing"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_writes_nothing(
    words: list[str],
    sentence: str,
    trained: Callable[..., Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = trained("image-fit", "none")
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in words else ["--out", store.root]
    capsys.readouterr()
    assert exported(*words, *out) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("a.*"))


def test_a_baseline_has_a_table_and_no_weights(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    spec = RunSpec(study="globe", variant="xyz", seed=0, preset="quick", procedure="globe.train", settings={})
    store.finish(spec, RunResult(metrics={"rmse": 0.5}), {})
    with pytest.raises(ValueError, match="has no weights"):
        export_run(store.root, tmp_path / "a.safetensors")
    assert export_run(store.root, tmp_path / "a.csv").exists()


def test_a_missing_package_of_onnx_is_named(
    trained: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = trained("image-fit", "none")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'posenc\[onnx\]'"):
        export_run(store.root, tmp_path / "a.onnx")
