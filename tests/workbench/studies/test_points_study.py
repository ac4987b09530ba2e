"""The points study: its rows, its units from plan to page, the user's folder, Spot's parts, what is refused."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.models.point_cloud import PointsConfig
from posenc.workbench import runner, studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.store import Store
from posenc.workbench.studies.points import STUDY, claims, presets, published, rows, work
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.shapes import Mesh

SMALL = {"dim": 24, "depth": 1, "heads": 1, "hidden": 24}
CONFIG = PointsConfig(channels=1, classes=4, dim=48, depth=2, heads=2, hidden=48)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    """The quick preset made tiny; the same rows, settings and panels."""
    own = {
        **presets.PRESETS["quick"].own,
        "train": 2,
        "test": 2,
        "points": 16,
        "model": SMALL,
        "training": {"epochs": 1, "batch": 8, "lr": 1e-3},
    }
    found = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0, 1))
    monkeypatch.setitem(presets.PRESETS, "quick", found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Boxes and cones as a user keeps meshes, one of them cut short."""
    root = tmp_path / "my shapes"
    rng = np.random.default_rng(0)
    for name in ("box", "cone"):
        for part, many in (("train", 4), ("test", 2)):
            (root / name / part).mkdir(parents=True)
            for number in range(many):
                write_off(root / name / part / f"{name}_{number}.off", task.make_solid(name, rng))
    (root / "box" / "train" / "box_9.off").write_text("OFF\n8 12 0\n0 0 0\n")
    (root / "box" / "readme.txt").write_text("no mesh")
    return root


def write_off(path: Path, mesh: Mesh, head: str = "OFF\n") -> None:
    vertices = "\n".join(" ".join(f"{x:.6f}" for x in v) for v in mesh.vertices.tolist())
    faces = "\n".join(f"3 {a} {b} {c}" for a, b, c in mesh.faces.tolist())
    path.write_text(f"{head}{len(mesh.vertices)} {len(mesh.faces)} 0\n{vertices}\n{faces}\n")


def run(request: studies.Request, store: Store) -> list:
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


# rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", rows.NAMES)
def test_every_row_reads_points_and_only_those_that_claim_so_see_where_a_cloud_is(label: str) -> None:
    row, config = rows.row(label, CONFIG)
    model = row.model(config).eval()
    points = torch.rand(2, 20, 3) - 0.5

    def told(at: torch.Tensor) -> torch.Tensor:
        return model(task.token_features(at, row.features), task.token_positions(at, row.view))

    still, moved = told(points), told(points + torch.tensor([0.5, -1.0, 2.0]))
    apart = float((moved - still).detach().abs().max())
    claimed = [scheme.claims for scheme in list[Any](model.schemes)]
    # LieRE's generators do not commute, and it says so
    seen = row.features == "xyz" or any("embed" in one.sites or one.translation == "none" for one in claimed)
    assert apart > 1e-3 if seen else apart < 1e-4
    assert seen == (label in ("xyz", "fourier", "liere", *rows.BESIDE))


def test_the_control_is_told_nothing_of_where_points_are() -> None:
    row, config = rows.row(rows.ELSEWHERE, CONFIG)
    model = row.model(config).eval()
    for moved in (torch.zeros(3), torch.tensor([0.5, -1.0, 2.0])):
        clouds = torch.rand(2, 20, 3) + moved
        places = task.token_positions(clouds, row.view).coords
        assert torch.equal(places[0], places[1])
        assert bool((places.norm(dim=-1) <= task.CELLS_PER_RADIUS).all())
    tokens = torch.rand(1, 20, row.model(config).config.channels).expand(2, -1, -1)
    told = model(tokens, task.token_positions(clouds, row.view))
    assert torch.equal(told[0], told[1]), "tokens alike, clouds apart: nothing tells them apart"
    assert rows.row("gridpe", CONFIG)[0].options == row.options


def test_a_scheme_as_text_is_a_row_and_what_none_is_is_said_in_a_sentence() -> None:
    row, config = rows.row("LieRE(block=2, axes=3) + xyz", CONFIG)
    assert (row.scheme, row.features, config.channels) == ("LieRE", "xyz", 7)
    assert rows.row("MixedRoPE", CONFIG)[0].options == {}
    for label, sentence in {
        "grid": "Did you mean gridpe",
        "RoPE": "it reads 1 axes, and a point has 3",
        "LogCPB(window=(4, 4, 4))": "stand at any real coordinates",
        "GridPE(ratios=2)": "Did you mean ratio",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            rows.row(label, CONFIG)


@pytest.mark.parametrize("name", ["quick", "standard", "paper"])
def test_the_rows_of_every_preset_can_be_built_and_its_claims_and_printed_numbers_name_them(name: str) -> None:
    config = PointsConfig(channels=1, classes=14, **presets.PRESETS[name].own["model"])
    for label in rows.NAMES:
        rows.row(label, config)
    known = {f"{label}, {presets.SOLIDS}" for label in rows.NAMES}
    told = [{"scheme": label, "setting": presets.SOLIDS, "seed": seed, "metric": metric, "value": 0.5 + 0.01 * seed}
            for label in known for seed in range(3)
            for metric in ("accuracy", "accuracy_arranged", "accuracy_x2", "kept_x2", "accuracy_moved_1",
                           "change_moved_1")]  # fmt: skip
    assert all(judge_claim(claim, told).verdict != "not measured" for claim in claims.CLAIMS)
    assert {len(values) for values in published.PRINTED.values()} == {len(published.COUNTS)} == {len(work.RATIOS)}


# from plan to page ---------------------------------------------------------------------------------------------------


def test_from_plan_to_page(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["nope", "gridpe", "xyz"], seeds=[0])
    specs = run(request, store)
    assert [spec.variant for spec in specs] == ["nope", "gridpe", "xyz"]
    found = {spec.variant.split(",")[0]: store.read(spec.identity).metrics for spec in specs}
    names = {f"{kind}_x{ratio}" for kind in ("accuracy", "kept") for ratio in ("0.5", "2", "4")}
    names |= {f"{kind}_moved_{length}" for kind in ("accuracy", "change") for length in ("0.25", "1", "4")}
    names |= {"accuracy", "loss", "accuracy_arranged", "accuracy_mirrored", "accuracy_turned", "change_turned"}
    assert names | {"parameters"} == set(found["gridpe"])
    for label in ("nope", "gridpe"):
        assert found[label]["change_moved_1"] < 1e-3
        assert found[label]["accuracy_moved_4"] == found[label]["accuracy"]
    assert found["nope"]["change_turned"] < 1e-3 < found["gridpe"]["change_turned"]
    assert found["xyz"]["change_moved_1"] > 1e-2
    page = STUDY.page(request, store, specs, {}).read_text()
    for title in ("Accuracy: solids", "Other numbers of points: solids", "As printed", "Moved clouds: solids",
                  "What a move and a turn change: solids", "The clouds: solids", "The rows: solids"):  # fmt: skip
        assert title in page
    assert "gridpe above nope in accuracy" in page
    assert "Not measured" in page  # the rows that were not asked for
    assert "solids: " in " ".join(STUDY.verdict(request, store, specs))
    assert STUDY.stored(request, store)


def test_a_seed_draws_clouds_of_its_own_which_its_rows_share(tmp_path: Path, small: presets.Preset) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["nope", "xyz"]), Store(tmp_path))
    points = {(spec.variant, spec.seed): work.Trained(spec, tmp_path).parts for spec in specs}
    one, other = points["nope", 0], points["nope", 1]
    assert torch.equal(one.test.points, points["xyz", 0].test.points)
    assert not torch.equal(one.test.points, other.test.points)
    assert not torch.equal(one.train.points, one.test.points)


def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path: Path, small: presets.Preset) -> None:
    (spec,) = STUDY.plan(studies.Request(preset="quick", schemes=["gridpe"], seeds=[0]), Store(tmp_path))
    whole = work.train_unit(spec, tmp_path / "units" / "a", lambda *_: None)
    stopped, trained = tmp_path / "units" / "b", work.Trained(spec, tmp_path)
    stopped.mkdir(parents=True)

    def stop(step: int, *_: object) -> None:
        if step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.train(trained.fit(), trained.training, seed=0, workdir=stopped, report=stop, checkpoint_steps=1)
    again = work.train_unit(spec, stopped, lambda *_: None)
    assert again.metrics == whole.metrics
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_the_estimate_is_of_this_machine(
    tmp_path: Path, small: presets.Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[0]), store)
    drawn, real = [], work.clouds
    monkeypatch.setattr(work, "clouds", lambda *a: drawn.append(real(*a)) or drawn[-1])
    found = STUDY.estimate(specs, store, 2)
    assert 0 < found.seconds < 60
    assert [(len(parts.train), len(parts.test)) for parts in drawn] == [(14, 14)], "one batch of them is enough"
    assert 2**20 < found.memory_bytes < 2**32


# the user's meshes, and Spot's parts ---------------------------------------------------------------------------------


def test_a_folder_of_meshes_is_a_setting_of_its_own(tmp_path: Path, folder: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["gridpe"], seeds=[0], source=folder)
    specs = run(request, store)
    assert [spec.condition for spec in specs] == ["my shapes"]
    found = store.read(specs[0].identity).metrics
    assert math.isfinite(found["accuracy_x4"])
    assert "accuracy_arranged" not in found
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "1 meshes of train were left out: box_9.off cannot be read as OFF" in page
    kept = next((tmp_path / "runs" / "data").glob("points-*.npz"))
    (folder / "box" / "train" / "box_0.off").rename(folder / "box" / "train" / "renamed.off")
    assert STUDY.plan(request, store)[0].identity != specs[0].identity  # other meshes are another question
    kept.unlink()
    with pytest.raises(ValueError, match=r"the clouds are no longer at .* Run the same command again"):
        work.clouds(store.root, specs[0].settings["data"], 0)


def test_spots_parts_are_run_where_her_mesh_is(tmp_path: Path, data_folder: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    asked = {"preset": "quick", "panels": ["spot"], "schemes": ["nope"], "seeds": [0]}
    assert STUDY.plan(studies.Request(**asked), store) == []
    request = studies.Request(**asked, data=data_folder)
    (spec,) = run(request, store)
    assert spec.settings["model"]["classes"] == len(task.SPOT_PARTS)
    assert "Accuracy: spot" in STUDY.page(request, store, [spec], {}).read_text()
    next((tmp_path / "runs" / "data").glob("mesh-*.npz")).unlink()
    with pytest.raises(ValueError, match="the mesh is no longer at"):
        work.clouds(store.root, spec.settings["data"], 0)


def test_a_row_that_nobody_has_is_said_before_meshes_are_read(
    tmp_path: Path, folder: Path, small: presets.Preset
) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match="Did you mean gridpe"):
        STUDY.plan(studies.Request(preset="quick", schemes=["nope", "grid"], source=folder), store)
    assert not list((tmp_path / "runs").rglob("points-*.npz"))


def test_clouds_that_are_turned_any_way_are_another_setting(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["any"], schemes=["nope"], seeds=[0])
    specs = run(request, store)
    assert [(spec.condition, spec.settings["turned"]) for spec in specs] == [("solids turned any way", "any")]
    assert "Accuracy: solids turned any way" in STUDY.page(request, store, specs, {}).read_text()
