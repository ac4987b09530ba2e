"""The shape study: its plan, a mesh from end to end, its page, what it refuses."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc import runner, studies
from posenc.report.ledger import judge_claim
from posenc.store import Store
from posenc.studies.field_rows import Budget
from posenc.studies.shape_fit import STUDY, claims, drawing, presets, rows, work
from posenc.tasks import shapes


@pytest.fixture
def quick(monkeypatch):
    """The quick preset, every fit over in a moment."""
    own = {
        "parameters": 9_000, "finest": 16, "coarsest": 4, "levels": 3, "steps": 20, "batch": 256, "resolution": 20,
        "sizes": shapes.Sizes(uniform=400, near=600, surface=400, held=500),
    }  # fmt: skip
    small = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0, 1))
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    for name, number in (("WATCHED", 8), ("FRAME", 16), ("SIDE", 24), ("ACROSS", 20), ("SPREAD", 200)):
        monkeypatch.setattr(work, name, number)
    return small


def mesh_file(folder, name="brick.obj", faces=None):
    vertices, every = shapes.cuboid(3, 2, 1)
    return shapes.write(shapes.Mesh(vertices + 10, every if faces is None else faces), folder / name)


def ran(request, tmp_path):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, str(report)
    return store, units


def asked(source, **what):
    return studies.Request(preset="quick", source=source, **what)


# the plan ----------------------------------------------------------------------------------------------------------


def test_the_quick_plan_is_eight_rows_and_two_with_the_term(quick, tmp_path):
    units = STUDY.plan(asked(mesh_file(tmp_path), seeds=[0]), Store(tmp_path / "runs"))
    assert [unit.scheme for unit in units if unit.setting == "main"] == list(rows.FIT)
    assert [unit.scheme for unit in units if unit.setting == "eikonal"] == [f"{row}, eikonal" for row in rows.SLOPES]
    assert len(units) == 10
    assert {unit.settings["loss"]["eikonal"] for unit in units if unit.setting == "main"} == {0}
    assert {unit.settings["loss"]["eikonal"] for unit in units if unit.setting == "eikonal"} == {0.01}


def test_points_are_made_once_and_again_for_another_mesh(quick, tmp_path, capsys):
    store, path = Store(tmp_path / "runs"), mesh_file(tmp_path)
    first = {unit.settings["points"] for unit in STUDY.plan(asked(path), store)}
    assert capsys.readouterr().out.count("Measuring how far 2,000 points are from the 12 faces of brick.obj.") == 1
    assert {unit.settings["points"] for unit in STUDY.plan(asked(path), store)} == first
    assert capsys.readouterr().out == ""
    path.write_text(path.read_text() + "# another file\n")
    assert {unit.settings["points"] for unit in STUDY.plan(asked(path), store)} != first
    assert len(first) == 1


def test_the_standard_preset_asks_first_and_has_every_panel(tmp_path):
    standard = presets.PRESETS["standard"]
    assert standard.asks
    assert set(standard.panels) == set(STUDY.plans)
    assert presets.NORMALS in presets.slopes(asked(None), standard)
    assert presets.NORMALS not in presets.slopes(asked(None), presets.PRESETS["quick"])


@pytest.mark.parametrize("preset", ["quick", "standard"])
@pytest.mark.parametrize("label", sorted({*rows.FIT, *rows.OCCUPANCY, *rows.OF_SIGMA}))
def test_rows_are_about_equally_large(label, preset):
    own = presets.PRESETS[preset].own
    budget = Budget(3, 1, own["parameters"], own["finest"], coarsest=own["coarsest"], levels=own["levels"])
    count = rows.row(label, budget).field().parameter_count
    assert 0.9 * own["parameters"] < count <= own["parameters"]


def test_the_positional_row_has_frequencies_for_a_shape():
    row = rows.row("positional", Budget(3, 1, 36_000, 64))
    assert row.options["sigma"] == 2 * rows.CYCLES


# from end to end ---------------------------------------------------------------------------------------------------


def test_a_mesh_is_learned_shown_and_written(quick, tmp_path):
    quick.own["steps"] = 100
    request = asked(mesh_file(tmp_path), panels=list(STUDY.plans), schemes=["dense"], seeds=[0])
    store, units = ran(request, tmp_path)
    found = STUDY.found(request, store, units)
    metrics = store.read(next(u.key for u in units if u.scheme == "dense")).metrics
    expected = {"iou", "faces", "chamfer", "sdf_error", "normal_error", "eikonal_error", "parameters", "seconds"}
    assert set(metrics) == expected
    assert metrics["iou"] > 0.7
    assert metrics["chamfer"] < 0.05
    assert {"sdf_error", "eikonal_error"}.isdisjoint(
        store.read(next(u.key for u in units if u.scheme == "dense, occupancy")).metrics
    )
    page = STUDY.page(request, store, units, {})
    text = page.read_text()
    for title in ("How near", "Nearer with time", "The shape from each encoding", "A cut through each field",
                  "While it trains", "The surfaces as files", "The eikonal term", "Inside or outside",
                  "How fast the features should turn"):  # fmt: skip
        assert title in text
    # shapes, cuts, films, with the term, occupancy
    assert len(re.findall("data:image/(?:png|webp);base64", text)) == 2 + 2 + 1 + 2 + 2
    assert "https://" not in text
    assert len(text) < 1_000_000
    assert "brick.obj went into the unit cube by x = 0.266667 y" in text
    written = shapes.read(found.beside("main-dense.ply"))
    low, high = (written.placement.back(corner) for corner in written.mesh.box)
    np.testing.assert_allclose(low, [8.5, 9, 9.5], atol=0.4)  # where the file's own shape is
    np.testing.assert_allclose(high, [11.5, 11, 10.5], atol=0.4)
    curve = store.read(next(u.key for u in units if u.scheme == "dense")).curves
    errors = {row["epoch"]: row["value"] for row in curve if row["metric"] == "sdf_error"}
    assert list(errors) == list(range(0, 101, 10))
    assert errors[100] < 0.9 * errors[10]
    in_order = sorted(found.over_time("main", "sdf_error")["dense"].items())
    assert [seeds for _, seeds in in_order] == [{0: value} for step, value in errors.items() if step]
    assert STUDY.verdict(request, store, units)[0].startswith("Fitted to its distance, ")


def test_what_is_stored_is_what_the_field_says(quick, tmp_path):
    quick.own["steps"] = 100
    store, (unit,) = ran(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[3], panels=["fit"]), tmp_path)
    stored = store.read(unit.key)
    fitted = work.Fitted(unit, store.root, None)
    fitted.field.load_state_dict(store.weights(unit.key))
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
    assert shapes.apart(surface, fitted.shape.mesh, 200).chamfer == pytest.approx(stored.metrics["chamfer"], rel=1e-6)
    assert stored.arrays["film"].shape == (11, 16, 16, 3)  # before the first step and at each tenth


def test_what_is_enclosed_is_reckoned_in_volumes(quick, tmp_path, monkeypatch):
    quick.own["sizes"] = shapes.Sizes(uniform=400, near=600, surface=400, held=8000)
    store = Store(tmp_path / "runs")
    (unit,) = STUDY.plan(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), store)
    fitted = work.Fitted(unit, store.root, None)
    low, high = (torch.tensor(corner, dtype=torch.float32) for corner in fitted.shape.mesh.box)
    brick, slab = float((high - low).prod()), float(high[2] - low[2])

    def filled(part):  # this much of each cell of the brick along x, and a slab as thick as it through the whole cube
        inside = {"half": lambda p: p[:, 0] < (low + high)[0] / 2, "slab": lambda p: torch.ones(len(p)).bool()}[part]
        return lambda p: torch.where(inside(p) & (p[:, 2] > low[2]) & (p[:, 2] < high[2]), -1.0, 1.0)

    for part, share in (("half", 0.5 * brick / (brick + 0.5 * (slab - brick))), ("slab", brick / slab)):
        monkeypatch.setattr(work.Fitted, "__call__", lambda self, p, part=part: filled(part)(p))
        assert fitted.iou() == pytest.approx(share, rel=0.03)


def test_a_foam_is_counted_and_not_kept(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(work.task, "FOAM", 10)
    request = asked(mesh_file(tmp_path), schemes=["dense"], panels=["fit"], seeds=[0])
    quick.own["steps"] = 100
    store, units = ran(request, tmp_path)
    stored = store.read(units[0].key)
    assert stored.metrics["faces"] > 10
    assert not len(stored.arrays["faces"])
    text = STUDY.page(request, store, units, {}).read_text()
    assert "not kept: foam, noise in every cell" in text
    assert f"{stored.metrics['faces']:,.0f}" in text


def test_slopes_are_measured_all_over_the_shape(quick, tmp_path, monkeypatch):
    quick.own["sizes"] = shapes.Sizes(uniform=400, near=600, surface=400, held=4000)
    monkeypatch.setattr(work, "ASKED", 200)
    store = Store(tmp_path / "runs")
    (unit,) = STUDY.plan(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), store)
    fitted, measured = work.Fitted(unit, store.root, None), []
    monkeypatch.setattr(work.task, "slopes", lambda field, points: measured.append(points) or points)
    fitted.eikonal_error()
    held = fitted.pool.held
    near = held.points[held.distance.abs() < 0.1]
    assert 200 <= len(measured[0]) < 400 < len(near)
    for place in (0.1, 0.5, 0.9):
        torch.testing.assert_close(measured[0].quantile(place, dim=0), near.quantile(place, dim=0), atol=0.1, rtol=0)
    assert unit.settings["asked"] == 200


def test_a_run_repeats_and_seeds_differ(quick, tmp_path):
    quick.own["steps"] = 5
    request = asked(mesh_file(tmp_path), schemes=["multires-smoothstep"], panels=["slopes"])
    (store, units), (again, _) = ran(request, tmp_path / "a"), ran(request, tmp_path / "b")
    numbers = [[s.read(unit.key).metrics["sdf_error"] for unit in units] for s in (store, again)]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == 4  # two seeds, with and without the term


def test_a_run_that_is_cut_off_goes_on_to_the_same_digit(quick, tmp_path):
    store, (unit,) = ran(asked(mesh_file(tmp_path), schemes=["dense"], seeds=[0], panels=["fit"]), tmp_path / "whole")

    class CutError(Exception):
        pass

    folder = tmp_path / "cut" / "work" / unit.key
    folder.mkdir(parents=True)
    (tmp_path / "cut" / "data").symlink_to(store.root / "data")
    fitted = work.Fitted(unit, store.root, folder)
    draws = []

    def draw(step):
        draws.append(step)
        if len(draws) == 12:
            raise CutError
        return fitted.draw(step)

    fit = dataclasses.replace(fitted.fit, draw=draw)
    with pytest.raises(CutError):
        work.train(fit, fitted.training, seed=0, workdir=folder, checkpoint_seconds=0.0)
    outcome = work.train_unit(unit, folder, lambda *told: None)
    assert outcome.metrics["sdf_error"] == store.read(unit.key).metrics["sdf_error"]
    assert len(outcome.arrays["film"]) == 11


def test_the_eikonal_term_brings_the_slope_nearer_to_1(quick, tmp_path, monkeypatch):
    monkeypatch.setitem(presets.TERMS, "eikonal", shapes.Terms(eikonal=1.0))
    quick.own["steps"] = 40
    request = asked(mesh_file(tmp_path), schemes=["multires-smoothstep"], panels=["slopes"], seeds=[0])
    store, units = ran(request, tmp_path)
    wrong = {unit.setting: store.read(unit.key).metrics["eikonal_error"] for unit in units}
    assert wrong["eikonal"] < wrong["main"]


def test_a_fit_without_any_surface_is_told_and_not_averaged(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(work.task, "marching_cubes", lambda values: None)
    request = asked(mesh_file(tmp_path), schemes=["dense"], panels=["fit"], seeds=[0])
    store, units = ran(request, tmp_path)
    assert np.isnan(store.read(units[0].key).metrics["chamfer"])
    text = STUDY.page(request, store, units, {}).read_text()
    assert "No surface at all, in at least one seed: dense." in text
    assert "no surface" in text


def test_truth_is_kept_and_what_marching_cubes_loses_is_small(quick, tmp_path):
    store = Store(tmp_path / "runs")
    name = STUDY.plan(asked(mesh_file(tmp_path)), store)[0].settings["points"]
    first, again = (work.truth(store.root, name, 20, 24, 20) for _ in range(2))
    assert (first.picture == again.picture).all()
    assert 0 < first.chamfer < 0.01
    assert first.chamfer == again.chamfer
    assert first.section.shape == (20, 20)
    assert (first.section < 0).mean() == pytest.approx((2 / 3 * 0.8) * (0.8 / 3), rel=0.25)


# pictures ----------------------------------------------------------------------------------------------------------


def test_every_scale_says_what_was_chosen_on_what_is_reported():
    assert set(STUDY.limits) == set(presets.PRESETS)
    assert all("chosen on Spot" in " ".join(sentences) for sentences in STUDY.limits.values())
    assert set(rows.COMPARED) < set(rows.FIT)


def test_a_section_shows_sides_and_levels():
    x = np.linspace(-0.2, 0.2, 40)
    ramp = np.broadcast_to(x, (40, 40))
    pixels = drawing.section(ramp, -ramp.T, 0.1)
    assert pixels.shape == (80, 80, 3)
    assert pixels[4, 2].tolist() == list(drawing.INSIDE)
    assert pixels[4, -2].tolist() == list(drawing.OUTSIDE)
    assert pixels[4, 40].tolist() == list(drawing.LEVEL)
    assert pixels[40, 4].tolist() == list(drawing.TRUE)
    assert len({tuple(colour) for colour in pixels[4].tolist()}) > drawing.BANDS
    assert (drawing.section(np.full((4, 4), np.nan), None, 0.1) == drawing.section(np.zeros((4, 4)), None, 0.1)).all()


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
    quick.own["steps"] = 100
    request = asked(Path(told[1]), panels=[told[2]], schemes=["dense"], seeds=[0])
    store, units = ran(request, tmp_path)
    assert store.read(units[0].key).metrics["iou"] > 0.5
    text = STUDY.page(request, store, units, {}).read_text()
    assert "The mesh is not watertight" in text
    assert "The surfaces as files" in text


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
    unit = STUDY.plan(asked(mesh_file(tmp_path)), store)[0]
    (store.root / "data" / unit.settings["points"]).unlink()
    with pytest.raises(ValueError, match="points of the shape are no longer at"):
        work.Fitted(unit, store.root, None)


# claims ------------------------------------------------------------------------------------------------------------


def told(setting="main", metric="chamfer", **values):
    names = {name: name.replace("_", "-") + ("" if setting == "main" else f", {setting}") for name in values}
    return [
        {"setting": setting, "scheme": names[name], "seed": seed, "metric": metric, "value": value + 1e-5 * seed}
        for name, value in values.items()
        for seed in range(3)
    ]


def judged(name, table):
    return judge_claim(next(claim for claim in claims.CLAIMS if claim.name == name), table).verdict


def test_claims_follow_from_the_numbers_both_ways():
    good = told(gaussian_2=0.01, multires=0.001, dense=0.002, hash=0.003, siren=0.005)
    assert judged("grids suit making shapes", good) == "upheld"
    assert judged("grids suit making shapes", good[:-3] + told(siren=0.0005)) == "not upheld"
    iou = told(metric="iou", hash=0.9, dense=0.8, multires=0.95)
    assert judged("a hash mends a table that is too small for a shape", iou) == "upheld"
    iou = told(metric="iou", hash=0.1, dense=0.8, multires=0.95)
    assert judged("a hash mends a table that is too small for a shape", iou) == "not upheld"


def test_the_eikonal_claim_reads_the_change():
    before = told(metric="eikonal_error", multires=0.2, multires_smoothstep=0.3)
    after = told("eikonal", "eikonal_error", multires=0.15, multires_smoothstep=0.05)
    assert judged("the eikonal term needs smooth interpolation", before + after) == "upheld"
    after = told("eikonal", "eikonal_error", multires=0.02, multires_smoothstep=0.15)
    assert judged("the eikonal term needs smooth interpolation", before + after) == "not upheld"


def test_every_claim_names_panels_that_exist():
    for claim in claims.CLAIMS:
        panels = claim.command.partition("--panels ")[2].split()
        assert panels
        assert set(panels) <= set(STUDY.plans)


def test_a_page_shows_the_mesh_that_it_is_asked_about(quick, tmp_path):
    one, other = mesh_file(tmp_path, "one.obj"), shapes.write(shapes.Mesh(*shapes.cuboid(1, 1, 1)), tmp_path / "b.ply")
    quick.own["steps"] = 2
    wanted = {"schemes": ["dense"], "panels": ["fit"], "seeds": [0]}
    store, units = ran(asked(one, **wanted), tmp_path)
    assert [unit.key for unit in STUDY.stored(asked(one, panels=["fit"]), store)] == [units[0].key]
    with pytest.raises(
        ValueError, match=r"no results of shape-fit --preset quick about .*b\.ply.* posenc run shape-fit"
    ):
        STUDY.stored(asked(other, panels=["fit"]), store)
    quick.own["steps"] = 3  # as if a later posenc trained longer: what is there is shown
    assert [unit.key for unit in STUDY.stored(studies.Request(preset="quick"), store)] == [units[0].key]
    quick.own["steps"] = 2
    _, more = ran(asked(other, **wanted), tmp_path)
    for path, (unit,) in ((one, units), (other, more)):
        assert [found.key for found in STUDY.stored(asked(path), store)] == [unit.key]
    with pytest.raises(ValueError, match=r"holds 2 results of dense, seed 0: .* posenc report shape-fit PATH"):
        STUDY.stored(studies.Request(preset="quick"), store)
