"""The shape study: its plan, a mesh from end to end, its page, what it refuses."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench import runner, studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shape_fit import (
    STUDY,
    claims,
    conditions,
    execute,
    panels,
    presets,
    settings,
    stored_shape,
    surface_plots,
    variants,
)
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.studies.shared.field_variants import Budget
from posenc.workbench.tasks import shapes
from posenc.workbench.training.loop import train

pytestmark = pytest.mark.bare


@pytest.fixture
def quick(monkeypatch, small_surfaces):
    """The quick preset, every fit over in a moment."""
    sizes = {"parameters": 9_000, "finest": 16, "coarsest": 4, "levels": 3, "steps": 20, "batch": 256, "resolution": 20}
    pools = shapes.PoolSizes(uniform=400, near=600, surface=400, held=500)
    small = dataclasses.replace(
        presets.PRESETS["quick"],
        **sizes,
        pools=pools,
        seeds=(0, 1),
        own=OwnDataPlan(seeds=(0, 1), parts=False, half=False),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    return small


def mesh_file(folder, name="brick.obj", faces=None):
    vertices, every = shapes.cuboid(3, 2, 1)
    return shapes.write_mesh(shapes.Mesh(vertices + 10, every if faces is None else faces), folder / name)


def ran(request, tmp_path):
    store = Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, str(report)
    return store, specs


def asked(source, **what):
    return studies.Request(preset="quick", source=source, **what)


# the plan ----------------------------------------------------------------------------------------------------------


def test_the_quick_plan_is_eight_rows_and_two_with_the_term(quick, tmp_path):
    specs = STUDY.plan(asked(mesh_file(tmp_path), seeds=[0]), Store(tmp_path / "runs"))
    assert [spec.variant for spec in specs if spec.condition == "main"] == list(variants.FIT)
    assert [spec.variant for spec in specs if spec.condition == "eikonal"] == list(variants.EIKONAL_VARIANTS)
    assert len(specs) == 10
    assert {spec.settings["loss"]["eikonal"] for spec in specs if spec.condition == "main"} == {0}
    assert {spec.settings["loss"]["eikonal"] for spec in specs if spec.condition == "eikonal"} == {0.01}


def test_points_are_made_once_and_again_for_another_mesh(quick, tmp_path, capsys):
    store, path = Store(tmp_path / "runs"), mesh_file(tmp_path)
    first = {spec.settings["points"] for spec in STUDY.plan(asked(path), store)}
    assert capsys.readouterr().out.count("Computing the distances of 2,000 points to the 12 faces of brick.obj.") == 1
    assert {spec.settings["points"] for spec in STUDY.plan(asked(path), store)} == first
    assert capsys.readouterr().out == ""
    path.write_text(path.read_text() + "# another file\n")
    assert {spec.settings["points"] for spec in STUDY.plan(asked(path), store)} != first
    assert len(first) == 1


def test_the_standard_preset_asks_first_and_has_every_panel_but_one(tmp_path):
    standard = presets.PRESETS["standard"]
    assert standard.asks
    assert set(standard.panels) == set(STUDY.panels) - {"lattices"}  # asked for by name
    assert conditions.NORMALS in panels.with_and_without_terms(asked(None), standard)
    assert conditions.NORMALS not in panels.with_and_without_terms(asked(None), presets.PRESETS["quick"])


@pytest.mark.parametrize("preset", ["quick", "standard"])
@pytest.mark.parametrize("label", sorted({*variants.FIT, *variants.OCCUPANCY, *variants.SIGMA_OF}))
def test_rows_are_about_equally_large(label, preset):
    scale = presets.PRESETS[preset]
    budget = Budget(3, 1, scale.parameters, scale.finest, coarsest=scale.coarsest, levels=scale.levels)
    count = variants.field_variant(label, budget).field().parameter_count
    assert 0.9 * scale.parameters < count <= scale.parameters


def test_the_positional_row_has_frequencies_for_a_shape():
    row = variants.field_variant("positional", Budget(3, 1, 36_000, 64))
    assert row.options["sigma"] == 2 * variants.CYCLES


# from end to end ---------------------------------------------------------------------------------------------------


def test_a_mesh_is_learned_shown_and_written(quick, tmp_path):
    object.__setattr__(quick, "steps", 100)
    request = asked(mesh_file(tmp_path), panels=list(STUDY.panels), schemes=["dense"], seeds=[0])
    store, specs = ran(request, tmp_path)
    found = STUDY.page_data(request, store, specs)
    metrics = store.read(next(u.identity for u in specs if u.variant == "dense")).metrics
    expected = {"iou", "faces", "chamfer", "sdf_error", "normal_error", "eikonal_error", "parameters", "seconds"}
    assert set(metrics) == expected
    assert metrics["iou"] > 0.7
    assert metrics["chamfer"] < 0.05
    assert {"sdf_error", "eikonal_error"}.isdisjoint(
        store.read(next(u.identity for u in specs if (u.variant, u.condition) == ("dense", "occupancy"))).metrics
    )
    page = STUDY.page(request, store, specs, {})
    text = page.read_text()
    for title in ("Surface error by encoding", "Error of the signed distance by training time",
                  "Reconstructed surfaces", "Cross-sections of the fields", "Surfaces during training",
                  "Surfaces as mesh files",
                  "Surface error with and without the eikonal term",
                  "Occupancy: surface error by encoding", "Chamfer distance by sigma", "Conditions"):  # fmt: skip
        assert title in text
    # shapes, cuts, films, lattices, with the term, occupancy
    assert len(re.findall("data:image/(?:png|webp);base64", text)) == 2 + 2 + 1 + 2 + 2 + 2
    assert "https://" not in text
    assert len(text) < 1_000_000
    assert "brick.obj was mapped into the unit cube by x = 0.266667 y" in text
    written = shapes.read_shape(found.beside("main-dense.ply"))
    low, high = (written.placement.from_cube(corner) for corner in written.mesh.box)
    np.testing.assert_allclose(low, [8.5, 9, 9.5], atol=0.4)  # where the file's own shape is
    np.testing.assert_allclose(high, [11.5, 11, 10.5], atol=0.4)
    curve = store.read(next(u.identity for u in specs if u.variant == "dense")).curves
    errors = {row["epoch"]: row["value"] for row in curve if row["metric"] == "sdf_error"}
    assert list(errors) == list(range(0, 101, 10))
    assert errors[100] < 0.9 * errors[10]
    in_order = sorted(found.over_time("main", "sdf_error")["dense"].items())
    assert [seeds for _, seeds in in_order] == [{0: value} for step, value in errors.items() if step]
    assert STUDY.verdict(request, store, specs)[0].startswith("Best by signed distance: ")


@pytest.mark.full
@pytest.mark.parametrize("label", ["permutohedral", "k-planes", "tensorf"])
def test_planes_and_simplices_are_trained_and_shown(quick, tmp_path, label):
    request = asked(mesh_file(tmp_path), panels=["lattices"], schemes=[label], seeds=[0])
    store, specs = ran(request, tmp_path)
    assert "Planes, simplices and cubic grids" in STUDY.page(request, store, specs, {}).read_text(encoding="utf-8")


def test_what_is_stored_is_what_the_field_says(quick, tmp_path):
    object.__setattr__(quick, "steps", 100)
    store, (spec,) = ran(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[3], panels=["fit"]), tmp_path)
    stored = store.read(spec.identity)
    fitted = execute.ShapeField(spec, store.root, None)
    fitted.model.load_state_dict(store.weights(spec.identity))
    with torch.no_grad():
        f = fitted(fitted.pool.held.points)
    truth = fitted.pool.held
    whole = shapes.iou(f < 0, truth.inside)  # by the points of the cube alone, so by few that are inside
    inside = truth.inside.float().mean().item()
    assert stored.metrics["iou"] == pytest.approx(whole, abs=3 * (inside * len(f)) ** -0.5)
    wrong = (f.clamp(-0.1, 0.1) - truth.distance.clamp(-0.1, 0.1)).abs().mean() / fitted.shape.mesh.diagonal
    assert wrong.item() == pytest.approx(stored.metrics["sdf_error"], rel=1e-5)
    surface = fitted.surface(20)
    assert surface is not None
    np.testing.assert_allclose(surface.vertices, stored.arrays["vertices"], atol=1e-6)
    assert shapes.surface_error(surface, fitted.shape.mesh, 200).chamfer == pytest.approx(
        stored.metrics["chamfer"], rel=1e-6
    )
    assert stored.arrays["film"].shape == (11, 16, 16, 3)  # before the first step and at each tenth


def test_what_is_enclosed_is_reckoned_in_volumes(quick, tmp_path, monkeypatch):
    object.__setattr__(quick, "pools", shapes.PoolSizes(uniform=400, near=600, surface=400, held=8000))
    store = Store(tmp_path / "runs")
    (spec,) = STUDY.plan(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), store)
    fitted = execute.ShapeField(spec, store.root, None)
    low, high = (torch.tensor(corner, dtype=torch.float32) for corner in fitted.shape.mesh.box)
    brick, slab = float((high - low).prod()), float(high[2] - low[2])

    def filled(part):  # this much of each cell of the brick along x, and a slab as thick as it through the whole cube
        inside = {"half": lambda p: p[:, 0] < (low + high)[0] / 2, "slab": lambda p: torch.ones(len(p)).bool()}[part]
        return lambda p: torch.where(inside(p) & (p[:, 2] > low[2]) & (p[:, 2] < high[2]), -1.0, 1.0)

    for part, share in (("half", 0.5 * brick / (brick + 0.5 * (slab - brick))), ("slab", brick / slab)):
        monkeypatch.setattr(execute.ShapeField, "__call__", lambda self, p, part=part: filled(part)(p))
        assert fitted.iou() == pytest.approx(share, rel=0.03)


@pytest.mark.full
def test_a_noisy_surface_is_counted_and_not_stored(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(execute.shapes, "NOISE_FACES", 10)
    request = asked(mesh_file(tmp_path), schemes=["dense"], panels=["fit"], seeds=[0])
    object.__setattr__(quick, "steps", 100)
    store, specs = ran(request, tmp_path)
    stored = store.read(specs[0].identity)
    assert stored.metrics["faces"] > 10
    assert not len(stored.arrays["faces"])
    text = STUDY.page(request, store, specs, {}).read_text()
    assert "not stored: noise in every cell" in text
    assert f"{stored.metrics['faces']:,.0f}" in text


def test_gradients_are_measured_all_over_the_shape(quick, tmp_path, monkeypatch):
    object.__setattr__(quick, "pools", shapes.PoolSizes(uniform=400, near=600, surface=400, held=4000))
    monkeypatch.setattr(settings, "SCORED_POINTS", 200)
    store = Store(tmp_path / "runs")
    (spec,) = STUDY.plan(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), store)
    fitted, measured = execute.ShapeField(spec, store.root, None), []
    monkeypatch.setattr(execute.shapes, "field_gradients", lambda field, points: measured.append(points) or points)
    fitted.eikonal_error()
    held = fitted.pool.held
    near = held.points[held.distance.abs() < 0.1]
    assert 200 <= len(measured[0]) < 400 < len(near)
    for place in (0.1, 0.5, 0.9):
        torch.testing.assert_close(measured[0].quantile(place, dim=0), near.quantile(place, dim=0), atol=0.1, rtol=0)
    assert spec.settings["asked"] == 200


@pytest.mark.full
def test_a_run_repeats_and_seeds_differ(quick, tmp_path):
    object.__setattr__(quick, "steps", 5)
    request = asked(mesh_file(tmp_path), schemes=["multires-smoothstep"], panels=["eikonal"])
    (store, specs), (again, _) = ran(request, tmp_path / "a"), ran(request, tmp_path / "b")
    numbers = [[s.read(spec.identity).metrics["sdf_error"] for spec in specs] for s in (store, again)]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == 4  # two seeds, with and without the term


def test_a_run_that_is_cut_off_goes_on_to_the_same_digit(quick, tmp_path):
    store, (spec,) = ran(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), tmp_path / "whole")

    class CutError(Exception):
        pass

    folder = tmp_path / "cut" / "work" / spec.identity
    folder.mkdir(parents=True)
    (tmp_path / "cut" / "data").symlink_to(store.root / "data")
    fitted = execute.ShapeField(spec, store.root, folder)
    draws = []

    def draw(step):
        draws.append(step)
        if len(draws) == 12:
            raise CutError
        return fitted.draw(step)

    fit = dataclasses.replace(fitted.fit(), draw=draw)
    with pytest.raises(CutError):
        train(fit, fitted.training, seed=0, workdir=folder, checkpoint_seconds=0.0)
    outcome = execute.train(spec, folder, lambda *told: None)
    assert outcome.metrics["sdf_error"] == store.read(spec.identity).metrics["sdf_error"]
    assert len(outcome.arrays["film"]) == 11


@pytest.mark.full
def test_the_eikonal_term_brings_the_gradient_norm_nearer_to_1(quick, tmp_path, monkeypatch):
    strong = dataclasses.replace(conditions.CONDITIONS["eikonal"], terms=shapes.LossTerms(eikonal=1.5))
    object.__setattr__(quick, "steps", 40)
    request = asked(mesh_file(tmp_path), schemes=["multires-smoothstep"], panels=["eikonal"], seeds=[0])
    with monkeypatch.context() as patch:
        patch.setitem(conditions.CONDITIONS, "eikonal", strong)
        store, specs = ran(request, tmp_path)
    error = {spec.condition: store.read(spec.identity).metrics["eikonal_error"] for spec in specs}
    assert error["eikonal"] < error["main"]
    text = STUDY.page(request, store, specs, {}).read_text()
    assert "Eikonal term: 1.5 times the mean" in text  # as the runs were trained, not as new ones would be
    assert "weight of the eikonal term: 1.5" in text


def test_a_fit_without_any_surface_is_reported_and_not_averaged(quick, tmp_path, monkeypatch):
    request = asked(mesh_file(tmp_path), schemes=["dense"], panels=["fit"], seeds=[0])
    with monkeypatch.context() as patched:
        patched.setattr(execute.shapes, "marching_cubes", lambda values: None)
        store, specs = ran(request, tmp_path)
    assert np.isnan(store.read(specs[0].identity).metrics["chamfer"])
    text = STUDY.page(request, store, specs, {}).read_text()
    assert "No surface in at least one seed: dense." in text
    assert "no surface" in text
    beside = dataclasses.replace(request, schemes=["dense", "basic"])
    text = STUDY.page(beside, *ran(beside, tmp_path), {}).read_text()
    assert "the value is infinite or not a number: chamfer of dense, seed 0; normal_error of dense, seed 0." in text


def test_the_reference_is_stored_and_its_marching_cubes_error_is_small(quick, tmp_path):
    store = Store(tmp_path / "runs")
    name = STUDY.plan(asked(mesh_file(tmp_path)), store)[0].settings["points"]
    first, again = (stored_shape.reference(store.root, name, 20, 24, 20) for _ in range(2))
    assert (first.image == again.image).all()
    assert 0 < first.chamfer < 0.01
    assert first.chamfer == again.chamfer
    assert first.section.shape == (20, 20)
    assert (first.section < 0).mean() == pytest.approx((2 / 3 * 0.8) * (0.8 / 3), rel=0.25)


# plots -------------------------------------------------------------------------------------------------------------


def test_every_scale_says_what_was_chosen_on_what_is_reported():
    assert set(STUDY.limits) == set(STUDY.protocol_limits) == set(presets.PRESETS)
    assert all("selected on Spot" in " ".join(sentences) for sentences in STUDY.protocol_limits.values())
    assert set(variants.COMPARED) < set(variants.FIT)


def test_a_section_shows_sides_and_levels():
    x = np.linspace(-0.2, 0.2, 40)
    ramp = np.broadcast_to(x, (40, 40))
    pixels = surface_plots.section_image(ramp, -ramp.T, 0.1)
    assert pixels.shape == (80, 80, 3)
    assert pixels[4, 2].tolist() == list(surface_plots.INSIDE_COLOR)
    assert pixels[4, -2].tolist() == list(surface_plots.OUTSIDE_COLOR)
    assert pixels[4, 40].tolist() == list(surface_plots.ZERO_COLOR)
    assert pixels[40, 4].tolist() == list(surface_plots.TRUE_COLOR)
    assert len({tuple(color) for color in pixels[4].tolist()}) > surface_plots.BANDS
    unknown, zero = (surface_plots.section_image(np.full((4, 4), value), None, 0.1) for value in (np.nan, 0.0))
    assert (unknown == zero).all()


# what it refuses ---------------------------------------------------------------------------------------------------


def test_no_mesh_at_all(tmp_path):
    with pytest.raises(ValueError, match=r"posenc run shape-fit shape.obj\. Without one it takes Spot"):
        STUDY.plan(studies.Request(preset="quick", data=tmp_path), Store(tmp_path / "runs"))


def test_a_mesh_that_is_not_watertight_is_refused_and_its_occupancy_offered(quick, tmp_path):
    path = mesh_file(tmp_path, faces=shapes.cuboid(1, 1, 1)[1][1:])
    with pytest.raises(ValueError, match=r"3 of its edges .* not watertight") as error:
        STUDY.plan(asked(path), Store(tmp_path / "runs"))
    told = re.search(r"posenc run shape-fit (\S+) --panels (\w+) --out (\S+)$", str(error.value))
    assert told is not None
    assert told[3] == str(tmp_path / "runs")
    assert not list((tmp_path / "runs" / "data").glob("shape-*"))  # before anything was measured
    assert "\n" not in str(error.value)
    object.__setattr__(quick, "steps", 100)
    request = asked(Path(told[1]), panels=[told[2]], schemes=["dense"], seeds=[0])
    store, specs = ran(request, tmp_path)
    assert store.read(specs[0].identity).metrics["iou"] > 0.5
    text = STUDY.page(request, store, specs, {}).read_text()
    assert "The mesh is not watertight" in text
    assert "Surfaces as mesh files" in text


@pytest.mark.parametrize("name", ["broken.ply", "shape.blend"])
def test_a_file_that_is_no_mesh(tmp_path, name):
    (tmp_path / name).write_text("nothing")
    with pytest.raises(ValueError, match=name):
        STUDY.plan(asked(tmp_path / name), Store(tmp_path / "runs"))


def test_a_row_that_nobody_has(quick, tmp_path):
    with pytest.raises(ValueError, match="Did you mean multires"):
        STUDY.plan(asked(mesh_file(tmp_path), schemes=["multiress"]), Store(tmp_path / "runs"))


def test_points_that_are_gone_are_named(quick, tmp_path):
    store = Store(tmp_path / "runs")
    spec = STUDY.plan(asked(mesh_file(tmp_path)), store)[0]
    (store.root / "data" / spec.settings["points"]).unlink()
    with pytest.raises(ValueError, match="points of the shape are no longer at"):
        execute.ShapeField(spec, store.root, None)


# claims ------------------------------------------------------------------------------------------------------------


def told(setting="main", metric="chamfer", **values):
    return [
        {
            "setting": setting,
            "scheme": name.replace("_", "-"),
            "seed": seed,
            "metric": metric,
            "value": value + 1e-5 * seed,
        }
        for name, value in values.items()
        for seed in range(3)
    ]  # fmt: skip


def judged(name, table):
    return judge_claim(next(claim for claim in claims.CLAIMS if claim.name == name), table).verdict


def test_claims_follow_from_the_numbers_both_ways():
    good = told(gaussian_2=0.01, multires=0.001, dense=0.002, hash=0.003, siren=0.005)
    assert judged("grids suit the fit of a shape", good) == "supported"
    assert judged("grids suit the fit of a shape", good[:-3] + told(siren=0.0005)) == "contradicted"
    iou = told(metric="iou", hash=0.9, dense=0.8, multires=0.95)
    assert judged("hashing compensates for a table that is too small for a shape", iou) == "supported"
    iou = told(metric="iou", hash=0.1, dense=0.8, multires=0.95)
    assert judged("hashing compensates for a table that is too small for a shape", iou) == "contradicted"


def test_the_eikonal_claim_reads_the_change():
    before = told(metric="eikonal_error", multires=0.2, multires_smoothstep=0.3)
    after = told("eikonal", "eikonal_error", multires=0.15, multires_smoothstep=0.05)
    assert judged("the eikonal term needs smooth interpolation", before + after) == "supported"
    after = told("eikonal", "eikonal_error", multires=0.02, multires_smoothstep=0.15)
    assert judged("the eikonal term needs smooth interpolation", before + after) == "contradicted"


def test_every_claim_names_panels_that_exist():
    for claim in claims.CLAIMS:
        panels = claim.command.partition("--panels ")[2].split()
        assert panels
        assert {claim.panel, *panels} <= set(STUDY.panels)


def test_a_page_shows_the_mesh_that_it_is_asked_about(quick, tmp_path):
    one, other = (
        mesh_file(tmp_path, "one.obj"),
        shapes.write_mesh(shapes.Mesh(*shapes.cuboid(1, 1, 1)), tmp_path / "b.ply"),
    )
    object.__setattr__(quick, "steps", 2)
    wanted = {"schemes": ["dense"], "panels": ["fit"], "seeds": [0]}
    store, specs = ran(asked(one, **wanted), tmp_path)
    assert [spec.identity for spec in STUDY.stored(asked(one, panels=["fit"]), store)] == [specs[0].identity]
    with pytest.raises(
        ValueError, match=r"no results of shape-fit --preset quick about .*b\.ply.* posenc run shape-fit"
    ):
        STUDY.stored(asked(other, panels=["fit"]), store)
    object.__setattr__(quick, "steps", 3)  # as if a later posenc trained longer: what is there is shown
    assert [spec.identity for spec in STUDY.stored(studies.Request(preset="quick"), store)] == [specs[0].identity]
    object.__setattr__(quick, "steps", 2)
    _, more = ran(asked(other, **wanted), tmp_path)
    for path, (spec,) in ((one, specs), (other, more)):
        assert [found.identity for found in STUDY.stored(asked(path), store)] == [spec.identity]
    with pytest.raises(ValueError, match=r"several data sets. .*: --source b-\w{6}, --source one-\w{6}"):
        STUDY.stored(studies.Request(preset="quick"), store)
