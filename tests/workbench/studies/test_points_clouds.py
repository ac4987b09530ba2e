"""The points study on clouds: padding, features and scale, from the command to the class of a new cloud."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc import load
from posenc.cli import main
from posenc.models.point_cloud import PointsConfig
from posenc.workbench import studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.points import STUDY, presets, stored_clouds, variants
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.shapes.samples import surface_points
from posenc.workbench.training.loop import TrainingConfig

CONFIG = PointsConfig(channels=1, classes=4, dim=48, depth=2, heads=2, hidden=48)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.PointsPreset:
    """The quick preset made tiny; the same variants, conditions and panels."""
    tiny = dataclasses.replace(
        presets.PRESETS["quick"],
        seeds=(0, 1),
        train=2,
        test=2,
        points=16,
        own_steps=4,
        model=presets.ModelSizes(dim=24, depth=1, heads=1, hidden=24),
        training=TrainingConfig(epochs=1, batch=8, lr=1e-3, optimizer="adam", clip=1.0),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", tiny)
    assert STUDY.presets is presets.PRESETS
    return tiny


# clouds of different sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [*variants.VARIANTS, *variants.RECENT])
def test_padding_changes_no_logit_of_any_variant(label: str) -> None:
    """Clouds of 24, 17 and 5 points in one batch have the logits that each has alone, with features and without."""
    points, normals = torch.rand(3, 24, 3) - 0.5, torch.nn.functional.normalize(torch.randn(3, 24, 3), dim=-1)
    sizes = (24, 17, 5)
    present = torch.arange(24) < torch.tensor(sizes)[:, None]
    for attributes in (None, normals):
        chosen, config = variants.variant(label, CONFIG, 0 if attributes is None else 3)
        model = chosen.model(config).eval()
        together = model(*chosen.tokens(task.CloudSample(points, present, attributes)))
        other = torch.where(present[..., None], points, 9.0)  # what stands in the padding
        again = model(*chosen.tokens(task.CloudSample(other, present, attributes)))
        assert float((together - again).detach().abs().max()) < 1e-6
        for row, size in enumerate(sizes):
            more = None if attributes is None else attributes[row : row + 1, :size]
            features, positions = chosen.tokens(task.CloudSample(points[row : row + 1, :size], None, more))
            if chosen.view == "fixed":  # places belong to numbers of tokens: those of the padded batch
                padded = task.token_positions(points, "fixed", present)
                positions = dataclasses.replace(positions, coords=padded.coords[row : row + 1, :size])
            alone = model(features, positions)
            assert float((together[row] - alone[0]).detach().abs().max()) < 2e-5


def test_a_sample_has_all_points_of_a_small_cloud_and_some_of_a_large_one() -> None:
    points = torch.rand(2, 40, 3)
    points[1, 10:] = 0
    clouds = task.Clouds("mine", ("a", "b"), points, torch.tensor([0, 1]), sizes=torch.tensor([40, 10]))
    sampling = task.CloudSampling(16, "not", noise=0.0)
    sample = task.sample_clouds(clouds, torch.arange(2), sampling, torch.Generator().manual_seed(0))
    assert sample.present is not None
    assert sample.present.sum(1).tolist() == [16, 10]
    assert {tuple(row) for row in sample.points[1, :10].tolist()} == {tuple(row) for row in points[1, :10].tolist()}
    with pytest.raises(ValueError, match="the clouds of mine have different sizes"):
        task.draw_clouds(clouds, torch.arange(2), sampling, torch.Generator())


def test_normals_turn_with_the_cloud() -> None:
    points = torch.rand(1, 9, 3)
    sample = task.CloudSample(points, None, torch.cat([torch.rand(1, 9, 1), points], -1))
    turned = sample.rotated(
        task.random_rotations(1, "any", torch.Generator().manual_seed(0)), ("intensity", "nx", "ny", "nz")
    )
    assert turned.attributes is not None
    assert sample.attributes is not None
    assert torch.allclose(turned.attributes[..., 1:], turned.points)
    assert torch.equal(turned.attributes[..., 0], sample.attributes[..., 0])


# the user's clouds ---------------------------------------------------------------------------------------------------


@pytest.fixture
def clouds(tmp_path: Path) -> Path:
    """Boxes and cones of different sizes and places, as .npy, .ply and .csv with normals; two files cannot be read."""
    root, rng = tmp_path / "my clouds", np.random.default_rng(0)
    names = ("x", "y", "z", "nx", "ny", "nz")
    for name in ("box", "cone"):
        (root / name).mkdir(parents=True)
        for number in range(6):
            mesh = task.make_solid(name, rng)
            points, faces = surface_points(mesh, 12 + 30 * (number > 1), rng, np.arange(len(mesh.faces)))
            columns = np.concatenate([100 * points + 1000 * number, mesh.normals[faces]], 1)
            rows = [" ".join(f"{value:.6f}" for value in row) for row in columns]
            if number % 3 == 0:
                np.save(root / name / f"{number}.npy", columns)
            elif number % 3 == 1:
                properties = "".join(f"property float {each}\n" for each in names)
                head = f"ply\nformat ascii 1.0\nelement vertex {len(rows)}\n{properties}end_header\n"
                (root / name / f"{number}.ply").write_text(head + "\n".join(rows) + "\n")
            else:
                (root / name / f"{number}.csv").write_text("\n".join([" ".join(names), *rows]) + "\n")
    (root / "box" / "one.xyz").write_text("1 2 3\n")
    (root / "cone" / "scan.laz").touch()
    return root


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process")
def test_clouds_of_three_formats_from_the_command_to_the_class_of_a_new_cloud(
    tmp_path: Path, clouds: Path, small: presets.PointsPreset, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    options = ["--schemes", "gridpe", "blind", "--seeds", "0", "--jobs", "1", "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        main(["run", "points", str(clouds), "--features", "normals", *options])
    assert not ended.value.code
    printed = capsys.readouterr().out
    for sentence in (
        "16 of each cloud, drawn anew at each step; 4 of 12 clouds have fewer and are padded; at most 64 of a file are",
        "Scale: unit. Normalization: each cloud has its mean at 0 and its farthest point at distance 1.",
        "Features: normals. Columns: nx, ny, nz.",
        "Left out: box/one.xyz: it has 1 point. A cloud needs at least 3.",
        "Left out: cone/scan.laz: .laz is not read. Convert it: pdal translate scan.laz scan.ply.",
    ):
        assert sentence in printed
    page = next((out / "pages").glob("*.html")).read_text()
    assert "All variants but blind also have the features of your clouds: normals." in page
    assert "4 of 12 clouds have fewer and are padded" in page
    assert "Training: 16 points of each cloud." not in page
    assert "--features normals" in page
    model: Any = load(out, study="points", variant="gridpe")
    assert model.classes == ("box", "cone")
    array = np.load(clouds / "box" / "0.npy")
    assert model.classify(clouds / "box" / "0.npy") == model.classify(array) == model.classify(torch.from_numpy(array))
    assert model.classify(clouds / "cone" / "1.ply") in ("box", "cone")
    with pytest.raises(ValueError, match="it has no normals"):
        model.classify(array[:, :3])
    with pytest.raises(ValueError, match="Write the points as rows"):
        model.classify(np.concatenate([array, array]).T)
    with pytest.raises(ValueError, match="there is no file"):
        model.classify(clouds / "none.ply")


def test_a_kept_scale_is_another_question_and_keeps_sizes_and_places(
    tmp_path: Path, clouds: Path, small: presets.PointsPreset
) -> None:
    store = Store(tmp_path / "runs")
    asked: dict[str, Any] = {"preset": "quick", "schemes": ["xyz"], "seeds": [0], "source": clouds}
    plain = STUDY.plan(studies.Request(**asked), store)[0]
    kept = STUDY.plan(studies.Request(**asked, reading={"scale": "keep", "features": "all"}), store)[0]
    assert plain.identity != kept.identity
    records = [store.record_of(each) for each in (plain, kept)]
    assert len({record.digest for record in records if record}) == 2
    assert plain.settings["model"]["channels"] + 3 == kept.settings["model"]["channels"]
    small_clouds, large = (stored_clouds.read_clouds(store.root, spec.settings["data"], 0) for spec in (plain, kept))
    radii = [splits.train.points.norm(dim=-1).amax(1) for splits in (small_clouds, large)]
    assert torch.allclose(radii[0], torch.ones(12))
    assert float(radii[1].max() / radii[1].min()) > 2
    assert records[1] is not None
    assert records[1].options["scale"] == "keep"
    other = task.read_cloud(clouds / "box" / "5.csv", 64, ("nx", "ny", "nz"), large.train.normalization)
    distances = (large.train.points.mean(1) - other.points.mean(1)).norm(dim=-1)
    assert float(distances.min()) < 0.2


def test_meshes_alone_keep_the_identity_and_the_points_that_they_had(tmp_path: Path) -> None:
    """Measured before clouds were read: posenc at commit ff3af20."""
    pytest.importorskip("trimesh")
    body = "OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 {}\n3 0 2 1\n3 0 1 3\n3 1 2 3\n3 2 0 3\n"
    folder = tmp_path / "tets"
    for name, height in (("flat", 1), ("tall", 10)):
        (folder / name).mkdir(parents=True)
        for number in range(4):
            (folder / name / f"{number}.off").write_text(body.format(number + height))
    (folder / "flat" / "readme.txt").write_text("four tetrahedra")
    store = Store(tmp_path / "runs")
    spec = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[0], source=folder), store)[0]
    assert spec.identity == "b61a1b149fe0cd075a5bb612"
    with np.load(next((store.root / "data").glob("points-*.npz"))) as stored:
        assert set(stored.files) & {"train_sizes", "train_attributes", "normalization"} == set()
        assert hashlib.sha256(stored["train_points"].tobytes()).hexdigest()[:16] == "639ddc9dad0c130e"


def test_one_cloud_is_no_folder_of_classes(tmp_path: Path, small: presets.PointsPreset) -> None:
    (tmp_path / "a.xyz").write_text("0 0 0\n1 0 0\n0 1 0\n")
    request = studies.Request(preset="quick", source=tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="is one file, and the study classifies clouds of at least two classes"):
        STUDY.plan(request, Store(tmp_path / "runs"))
