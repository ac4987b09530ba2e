"""The points study: its variants, its runs from plan to page, the user's folder, the parts of Spot, its answer."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from posenc.models.point_cloud import PointsConfig
from posenc.workbench import runner, studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.points import (
    STUDY,
    claims,
    conditions,
    execute,
    presets,
    published,
    stored_clouds,
    variants,
)
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.shapes import Mesh
from posenc.workbench.training import loop
from posenc.workbench.training.loop import TrainingConfig

pytestmark = pytest.mark.bare

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


# variants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [*variants.VARIANTS, *variants.RECENT])
def test_logits_depend_on_the_place_of_a_cloud_exactly_where_coordinates_or_the_scheme_do(label: str) -> None:
    variant, config = variants.variant(label, CONFIG)
    model = variant.model(config).eval()
    for name, parameter in model.schemes.named_parameters():
        if name.endswith("table"):
            torch.nn.init.normal_(parameter)  # the rows of a permutohedral grid start near 0
    points = torch.rand(2, 20, 3) - 0.5

    def logits(points: torch.Tensor) -> torch.Tensor:
        return model(task.token_features(points, variant.features), task.token_positions(points, variant.view))

    change = float((logits(points + torch.tensor([0.5, -1.0, 2.0])) - logits(points)).detach().abs().max())
    claims_of = [scheme.claims for scheme in list[Any](model.schemes)]
    # LieRE's generators do not commute, so its translation claim is "none".
    depends = variant.features == "xyz" or any("embed" in c.sites or c.translation == "none" for c in claims_of)
    assert change > 1e-3 if depends else change < 1e-4
    tables = ("k-planes", "tensorf", "permutohedral")
    assert depends == (label in ("xyz", "fourier", "liere", *tables, *variants.SCHEME_AND_XYZ))


def test_trained_tables_of_the_recent_panel_have_about_equal_sizes() -> None:
    config = PointsConfig(channels=1, classes=14, **presets.PRESETS["quick"].model._asdict())
    counts = []
    for label in ("k-planes", "tensorf", "permutohedral"):
        schemes = variants.variant(label, config)[0].model(config).schemes
        counts.append(sum(parameter.numel() for parameter in schemes.parameters()))
    assert min(counts) > 14_000
    assert max(counts) < 1.3 * min(counts)


def test_the_recent_panel_compares_encodings_on_upright_clouds(tmp_path: Path, small: presets.PointsPreset) -> None:
    request, store = studies.Request(preset="quick", panels=["recent"], seeds=[0]), Store(tmp_path / "runs")
    assert {spec.variant for spec in STUDY.plan(request, store)} == {*variants.RECENT_BESIDE, *variants.RECENT}
    request = dataclasses.replace(request, schemes=["nope", "string", "KPlanes"])
    specs = STUDY.plan(request, store)
    assert {spec.variant for spec in specs} == {"nope", "string", "k-planes"}
    assert runner.run(specs, store, runner.InProcess(), emit=lambda event: None).exit_code == 0
    page = STUDY.page(request, store, specs, {}).read_text(encoding="utf-8")
    assert all(title in page for title in ("Accuracy, encodings since 2022", "Accuracy of translated clouds"))


def test_fixed_places_hold_no_information_on_the_positions_of_the_points() -> None:
    variant, config = variants.variant(variants.FIXED_PLACES, CONFIG)
    model = variant.model(config).eval()
    for shift in (torch.zeros(3), torch.tensor([0.5, -1.0, 2.0])):
        clouds = torch.rand(2, 20, 3) + shift
        places = task.token_positions(clouds, variant.view).coords
        assert torch.equal(places[0], places[1])
        assert bool((places.norm(dim=-1) <= task.CELLS_PER_RADIUS).all())
    features = torch.rand(1, 20, model.config.channels).expand(2, -1, -1)
    logits = model(features, task.token_positions(clouds, variant.view))
    assert torch.equal(logits[0], logits[1]), "equal features, different clouds: the logits must be equal"
    assert variants.variant("gridpe", CONFIG)[0].options == variant.options


def test_a_scheme_as_text_is_a_variant_and_an_unknown_one_is_refused_in_a_sentence() -> None:
    variant, config = variants.variant("LieRE(block=2, axes=3) + xyz", CONFIG)
    assert (variant.scheme, variant.features, config.channels) == ("LieRE", "xyz", 7)
    assert variants.variant("MixedRoPE", CONFIG)[0].options == {}
    assert variants.variant("GRIDPE", CONFIG) == variants.variant("gridpe", CONFIG)
    for label, sentence in {
        "grid": "Did you mean gridpe",
        "RoPE": "the variant 'RoPE' cannot be built: it reads 1 axis, and a point has 3",
        "LogCPB(window=(4, 4, 4))": "points have real coordinates",
        "GridPE(ratios=2)": "Did you mean ratio",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            variants.variant(label, CONFIG)


@pytest.mark.parametrize("name", presets.PRESETS)
def test_the_variants_of_every_preset_can_be_built_and_its_claims_and_published_numbers_name_them(name: str) -> None:
    config = PointsConfig(channels=1, classes=14, **presets.PRESETS[name].model._asdict())
    for label in (*variants.VARIANTS, *variants.RECENT):
        variants.variant(label, config)
    rows = [{"scheme": label, "setting": conditions.SOLIDS, "seed": seed, "metric": metric, "value": 0.5 + 0.01 * seed}
            for label in variants.VARIANTS for seed in range(3)
            for metric in ("accuracy", "accuracy_arranged", "accuracy_x2", "kept_x2", "accuracy_moved_1",
                           "change_moved_1")]  # fmt: skip
    assert all(judge_claim(claim, rows).verdict != "not measured" for claim in claims.CLAIMS)
    lengths = {len(values) for values in published.ACCURACY_BY_POINTS.values()}
    assert lengths == {len(published.POINT_COUNTS)} == {len(execute.POINT_RATIOS)}


def test_a_condition_is_a_set_of_clouds_and_a_rotation() -> None:
    assert conditions.condition("solids").changes == {}
    rotated = conditions.condition("my shapes turned any way")
    assert (rotated.clouds, rotated.rotation, rotated.title) == ("my shapes", "any", "my shapes rotated in 3-D")
    assert set(rotated.changes) == {"rotation of a cloud"}
    assert conditions.condition("spot").changes == {"data": "parts of the cow Spot"}
    request = studies.Request(preset="quick", source=Path("/meshes/spot"))
    assert conditions.label_of(request, rotated=True) == "your spot turned any way"


# from plan to page ---------------------------------------------------------------------------------------------------


def test_from_plan_to_page(tmp_path: Path, small: presets.PointsPreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["nope", "gridpe", "xyz"], seeds=[0])
    specs = run(request, store)
    assert [spec.variant for spec in specs] == ["nope", "gridpe", "xyz"]
    metrics = {spec.variant: store.read(spec.identity).metrics for spec in specs}
    names = {f"{kind}_x{ratio}" for kind in ("accuracy", "kept") for ratio in ("0.5", "2", "4")}
    names |= {f"{kind}_moved_{length}" for kind in ("accuracy", "change") for length in ("0.25", "1", "4")}
    names |= {"accuracy", "loss", "accuracy_arranged", "accuracy_mirrored", "accuracy_turned", "change_turned"}
    assert names | {"parameters"} == set(metrics["gridpe"])
    for label in ("nope", "gridpe"):
        assert metrics[label]["change_moved_1"] < 1e-3
        assert metrics[label]["accuracy_moved_4"] == metrics[label]["accuracy"]
    assert metrics["nope"]["change_turned"] < 1e-3 < metrics["gridpe"]["change_turned"]
    assert metrics["xyz"]["change_moved_1"] > 1e-2
    page = STUDY.page(request, store, specs, {}).read_text()
    for title in ("Accuracy: solids", "Accuracy by number of points: solids", "Published accuracy by number of points",
                  "Accuracy of translated clouds: solids", "Invariance to translations and rotations: solids",
                  "Example clouds: solids", "Variants: solids"):  # fmt: skip
        assert title in page
    assert "gridpe above nope in accuracy" in page
    assert "Not measured" in page  # the variants that were not asked for
    assert STUDY.verdict(request, store, specs)[0].startswith("Best for solids: ")
    assert STUDY.stored(request, store)


@pytest.mark.full
def test_a_seed_has_its_own_clouds_which_its_variants_share(tmp_path: Path, small: presets.PointsPreset) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["nope", "xyz"]), Store(tmp_path))
    splits = {(spec.variant, spec.seed): execute.PointsModel(spec, tmp_path).splits for spec in specs}
    one, other = splits["nope", 0], splits["nope", 1]
    assert torch.equal(one.test.points, splits["xyz", 0].test.points)
    assert not torch.equal(one.test.points, other.test.points)
    assert not torch.equal(one.train.points, one.test.points)


def test_a_stopped_run_goes_on_to_the_same_last_digit(tmp_path: Path, small: presets.PointsPreset) -> None:
    (spec,) = STUDY.plan(studies.Request(preset="quick", schemes=["gridpe"], seeds=[0]), Store(tmp_path))
    whole = execute.train(spec, tmp_path / "work" / "a", lambda *_: None)
    stopped, model = tmp_path / "work" / "b", execute.PointsModel(spec, tmp_path)
    stopped.mkdir(parents=True)

    def stop(step: int, *_: object) -> None:
        if step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.train(model.fit(), model.training, seed=0, workdir=stopped, report=stop, checkpoint_steps=1)
    again = execute.train(spec, stopped, lambda *_: None)
    assert again.metrics == whole.metrics
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_the_estimate_is_of_this_machine(
    tmp_path: Path, small: presets.PointsPreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["nope"], seeds=[0]), store)
    generated, read_clouds = [], execute.read_clouds
    monkeypatch.setattr(execute, "read_clouds", lambda *a: generated.append(read_clouds(*a)) or generated[-1])
    estimate = STUDY.estimate(specs, store, 2)
    assert 0 < estimate.seconds < 60
    assert [(len(splits.train), len(splits.test)) for splits in generated] == [(14, 14)], "one batch is enough"
    assert 2**20 < estimate.memory_bytes < 2**32


def test_runs_with_half_the_steps_are_not_timed_again(
    tmp_path: Path, folder: Path, small: presets.PointsPreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    request = studies.Request(preset="quick", schemes=["nope", "gridpe"], seeds=[0], source=folder)
    specs = STUDY.plan(request, store)
    timed = list[str]()
    cost = dataclasses.replace(STUDY.cost, seconds=lambda spec, _: timed.append(spec.condition) or 100.0)
    study = dataclasses.replace(STUDY, cost=cost)
    several = study.estimate(specs, store, 1)
    assert {*timed} == {"my shapes"}
    halves = [spec for spec in specs if spec.condition.endswith("half budget")]
    trained = [spec for spec in specs if "training" in spec.settings and spec not in halves]
    alone = study.estimate(trained, store, 1)
    assert several.seconds - alone.seconds == pytest.approx(50.0 * len(halves) + 100.0 * (len(specs) - 2 * len(halves)))


# the user's meshes, and the parts of Spot ---------------------------------------------------------------------------


def test_a_folder_of_meshes_is_a_condition(tmp_path: Path, folder: Path, small: presets.PointsPreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["gridpe"], seeds=[0], source=folder)
    specs = run(request, store)
    assert [spec.condition for spec in specs] == ["my shapes", "my shapes, half budget"]
    metrics = store.read(specs[0].identity).metrics
    assert math.isfinite(metrics["accuracy_x4"])
    assert "accuracy_arranged" not in metrics
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Left out: box/train/box_9.off: it cannot be read as OFF" in page
    clouds = next((tmp_path / "runs" / "data").glob("points-*.npz"))
    (folder / "box" / "train" / "box_0.off").rename(folder / "box" / "train" / "renamed.off")
    assert STUDY.plan(request, store)[0].identity != specs[0].identity  # other meshes are another question
    clouds.unlink()
    with pytest.raises(ValueError, match=r"the clouds are no longer at .* Run the same command again"):
        stored_clouds.read_clouds(store.root, specs[0].settings["data"], 0)


def test_parts_of_spot_are_run_where_the_mesh_is(
    tmp_path: Path, data_folder: Path, small: presets.PointsPreset
) -> None:
    store = Store(tmp_path / "runs")
    asked = {"preset": "quick", "panels": ["spot"], "schemes": ["nope"], "seeds": [0]}
    assert STUDY.plan(studies.Request(**asked), store) == []
    request = studies.Request(**asked, data=data_folder)
    (spec,) = run(request, store)
    assert spec.settings["model"]["classes"] == len(task.SPOT_PARTS)
    assert "Accuracy: parts of Spot" in STUDY.page(request, store, [spec], {}).read_text()
    next((tmp_path / "runs" / "data").glob("mesh-*.npz")).unlink()
    with pytest.raises(ValueError, match="the mesh is no longer at"):
        stored_clouds.read_clouds(store.root, spec.settings["data"], 0)


def test_an_unknown_variant_is_refused_before_meshes_are_read(
    tmp_path: Path, folder: Path, small: presets.PointsPreset
) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match="Did you mean gridpe"):
        STUDY.plan(studies.Request(preset="quick", schemes=["nope", "grid"], source=folder), store)
    assert not list((tmp_path / "runs").rglob("points-*.npz"))


def test_clouds_that_are_rotated_in_3_d_are_another_condition(tmp_path: Path, small: presets.PointsPreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["rotations"], schemes=["nope"], seeds=[0])
    specs = run(request, store)
    assert [(spec.condition, spec.settings["turned"]) for spec in specs] == [("solids turned any way", "any")]
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Accuracy: solids rotated in 3-D" in page
    assert "rotation of a cloud: uniform over all rotations (SO(3))" in page


# the answer ---------------------------------------------------------------------------------------------------------


def test_the_answer_names_one_encoding_only_if_its_difference_from_the_second_excludes_0() -> None:
    def headline(accuracy: dict[str, list[float]], translated: dict[str, list[float]]) -> str:
        rows = [
            {"setting": "solids", "scheme": label, "seed": seed, "metric": metric, "value": value}
            for metric, scores in (("accuracy", accuracy), ("accuracy_moved_1", translated))
            for label, values in scores.items()
            for seed, value in enumerate(values)
        ]
        done = [SimpleNamespace(condition="solids")] if rows else []
        return claims.headline(cast(PageData, SimpleNamespace(rows=rows, done=done, conditions=["solids"])))

    nope, gridpe = [0.70, 0.72, 0.71], [0.90, 0.91, 0.92]
    answer = headline({"nope": nope, "gridpe": gridpe}, {"nope": nope, "gridpe": [0.5, 0.5, 0.5]})
    assert answer.startswith("Best for solids: gridpe, accuracy 0.910; difference from the second, nope: +0.200 [")
    assert "Best for solids after a translation by one radius: nope, accuracy 0.710; difference from the" in answer
    third = headline({"xyz": nope, "gridpe": gridpe, "nope": [0.5, 0.52, 0.51]}, {})
    assert third.endswith("Without an encoding: 0.510 [0.485,\xa00.535].")
    alike = headline({"xyz": [0.92, 0.90, 0.91], "gridpe": gridpe}, {})
    assert alike.startswith("Best for solids: gridpe or xyz, not distinguishable. gridpe: accuracy 0.910;")
    assert headline({}, {}) == "No answer yet: no run has finished."
