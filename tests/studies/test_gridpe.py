"""The grid-cell study: its rows, its units from plan to page, its claims on made-up numbers, what it refuses."""

import dataclasses
import shutil

import msgspec
import numpy as np
import pytest
import torch

from posenc import runner, studies
from posenc.models import vit as vits
from posenc.models.stage import StageConfig
from posenc.report.ledger import judge_claim
from posenc.store import Store
from posenc.studies import other_sizes
from posenc.studies.classifying import Classifier
from posenc.studies.gridpe import CLAIMS, PLANS, STUDY, drawing, presets, published, rows
from posenc.studies.picture_sets import Pictures
from posenc.tasks.images import Augmentation
from posenc.training.loop import TrainingConfig, train

SMALL = Pictures(name="drawn", digest="-", classes=10, shape=(1, 28, 28), train=60, test=20)
PADDED = msgspec.structs.replace(SMALL, shape=(1, 32, 32))
TRAINING = TrainingConfig(epochs=1, batch=30, lr=1e-3, evaluate_every=1)


@pytest.fixture
def small(monkeypatch):
    """The presets made tiny: the same rows, settings and panels, in models of one block."""
    monkeypatch.setitem(vits.SIZES, "quick", StageConfig(dim=64, depth=1, heads=2, hidden=16, patch=4))
    for name, preset in presets.PRESETS.items():
        own = {**preset.own, "vit": (TRAINING, Augmentation()), "pvt": (TRAINING, Augmentation()), "looked_at": 5,
               "epochs": {}, "sizes": {"vit": "quick", "pvt": "micro"}}  # fmt: skip
        monkeypatch.setitem(presets.PRESETS, name, dataclasses.replace(preset, own=own, seeds=(0,)))
    assert STUDY.scales is presets.PRESETS
    return presets.PRESETS["quick"]


def run(request, store):
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    asked = STUDY.measurements(request, store, units)
    report = runner.run(asked, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return units


# rows ----------------------------------------------------------------------------------------------------------------

EVERY = [("vit", label) for label in rows.VIT] + [("pvt", label) for label in rows.PVT]


@pytest.mark.parametrize(("block", "label"), EVERY, ids=[f"{block} {label}" for block, label in EVERY])
def test_every_row_learns(block, label):
    row = rows.row(block, label, SMALL if block == "vit" else PADDED, "quick" if block == "vit" else "micro")
    back = msgspec.convert(msgspec.to_builtins(row), type(row))
    assert back == row
    model = back.model()
    side = row.config.image[0]
    logits = model(torch.randn(2, 1, side, side))
    assert logits.shape == (2, 10)
    logits.square().mean().backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(grads) > 20
    assert all(bool(grad.isfinite().all()) for grad in grads)


def numbers(block, label):
    pictures, size = (SMALL, "quick") if block == "vit" else (PADDED, "micro")
    return sum(p.numel() for p in rows.row(block, label, pictures, size).model().parameters())


def test_rows_differ_in_what_they_say_and_nothing_else():
    plain, tables = numbers("vit", "nope"), 64 * 49
    assert numbers("vit", "learned") == plain + tables
    assert all(numbers("vit", label) == plain for label in ("sinusoid", "gridpe", "rope-axial", "grid-merge"))
    assert numbers("vit", "grid-deep") > plain
    assert numbers("vit", "learned-literal") == numbers("vit", "nope-literal") + 64 * 50  # the class token's row too
    pvt = numbers("pvt", "nope")
    grids = 32 * 256 + 64 * 64 + 96 * 16 + 128 * 4
    assert numbers("pvt", "pvt-o") == numbers("pvt", "pvt-abs") == pvt + grids
    kernels = 10 * (32 + 64 + 96 + 128)  # of 3 x 3, and a bias
    assert numbers("pvt", "cpvt") == pvt - 128 + kernels  # no class token
    assert numbers("pvt", "grid-rotate") == pvt
    assert numbers("pvt", "grid-rotate-literal") == pvt + grids + 128


def test_the_twelve_rows_of_the_paper_are_there():
    assert len(published.TABLE_1) == 12
    for setting, label in published.TABLE_1:
        assert label in (rows.VIT if setting == "main" else rows.PVT)
    assert [label for label in rows.PYRAMID if label in ("pvt-o", "cpvt", "pvt-abs")] == ["pvt-o", "cpvt", "pvt-abs"]
    assert set(rows.CLEAN) >= {"learned", "nope", "sinusoid", "rope-axial", "rope-mixed", "gridpe"}
    assert all(name in rows.VIT for name in (*rows.CLEAN, *rows.LITERAL, *rows.OF_HEADS, *rows.RESIZED))
    assert all(name in rows.PVT for name in (*rows.PYRAMID, *rows.PYRAMID_LITERAL))


def test_a_simplex_has_a_rotation_a_head_and_spans_the_grid():
    for label, heads in (("gridpe", 2), *((f"gridpe, {n} heads", n) for n in rows.HEADS)):
        scheme = rows.row("vit", label, SMALL, "quick").model().stages[0].schemes[0]
        assert scheme.waves.shape[0] == heads
    longest = 2 * np.pi / float(scheme.waves.norm(dim=-1).min())
    assert longest == pytest.approx(4.0)  # eight heads have one scale each
    four = rows.row("vit", "gridpe, 4 heads", SMALL, "quick").model().stages[0].schemes[0]
    assert 2 * np.pi / float(four.waves.norm(dim=-1).min()) == pytest.approx(7.0)


def test_photographs_have_coarser_patches():
    photographs = msgspec.structs.replace(SMALL, shape=(3, 128, 128), classes=100)
    vit = rows.row("vit", "learned", photographs, "quick", presets.PATCH[presets.PHOTOGRAPHS])
    pvt = rows.row("pvt", "cpvt", photographs, "micro", presets.PATCH[presets.PVT_PHOTOGRAPHS])
    assert vit.config.shapes((128, 128)) == [(16, 16)]
    assert pvt.config.shapes((128, 128)) == [(32, 32), (16, 16), (8, 8), (4, 4)]


@pytest.mark.parametrize(
    ("block", "label", "pictures", "sentence"),
    [
        ("vit", "grid-rotat", SMALL, "Did you mean grid-rotate.* or name a scheme, as GridPE"),
        ("vit", "cpvt", SMALL, "'cpvt'.* The rows are learned, nope"),
        ("vit", "learned", msgspec.structs.replace(SMALL, shape=(1, 30, 30)), "do not divide the 30 x 30 .* 32 x 32"),
        ("pvt", "pvt-o", SMALL, "Resize or pad pictures to 32 x 32"),
        ("vit", "SCPE", SMALL, "SCPE makes rows of width 3 and the model adds them to tokens of width 64"),
        ("vit", "GridPE(extent=1000.0)", SMALL, "GridPE has 5 groups of 6 channels"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(block, label, pictures, sentence):
    with pytest.raises(ValueError, match=sentence):
        rows.row(block, label, pictures, "quick" if block == "vit" else "micro").model()


# from plan to page ---------------------------------------------------------------------------------------------------


def test_quick_is_the_rows_that_it_names():
    request, quick = studies.Request(preset="quick"), presets.PRESETS["quick"]
    needed, variants = STUDY.wanted(request), [f"grid-{name}" for name in rows.VARIANTS]
    assert needed["main"] == ["learned", "nope", "sinusoid", "rope-axial", "gridpe", *variants]
    assert set(needed[presets.PVT]) >= {"pvt-o", "cpvt", "gridpe"}
    assert list(quick.seeds) == [0, 1, 2]


def test_from_plan_to_page_and_on_after_a_stop(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["learned", "cpvt", "gridpe"], data=fashion)
    units = STUDY.plan(request, store)
    # each row where there is one of that name
    assert [(u.setting, u.scheme) for u in units] == [
        ("main", "learned"), ("main", "gridpe"), ("pvt", "learned, pvt"), ("pvt", "cpvt, pvt"), ("pvt", "gridpe, pvt"),
    ]  # fmt: skip
    runner.run(units[:2], store, runner.InProcess(), emit=lambda event: None)
    before = {unit.key: store.read(unit.key) for unit in units[:2]}
    page = STUDY.page(request, store, units, {}).read_text()
    assert "Accuracy of a ViT by encoding" in page
    assert "No unit of this panel has finished" in page
    run(request, store)
    assert all(store.read(key).timing == stored.timing for key, stored in before.items())
    metrics = store.read(units[0].key).metrics
    assert metrics.keys() >= {"accuracy", "accuracy_top5", "accuracy_per_class", "accuracy_train", "loss", "parameters"}
    assert not STUDY.measurements(request, store, units)  # no panel of these shows other sizes
    page = STUDY.page(request, store, units, {}).read_text()
    for said in ("How they converge: PVT", "Beside the published table", "The rows: ViT", "60 pictures to learn from",
                 "gridpe", "Not measured", "Loss of a PVT by encoding"):  # fmt: skip
        assert said in page
    assert "ViT: " in " ".join(STUDY.verdict(request, store, units))
    assert {u.key for u in STUDY.stored(studies.Request(preset="quick", data=fashion), store)} == {u.key for u in units}
    told = studies.Request(preset="quick", data=fashion, panels=["accuracy", "rows"])  # the last needs no run
    assert {u.setting for u in STUDY.stored(told, store)} == {"main"}


def test_every_panel_of_everything(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["all"], data=fashion)
    units = run(request, store)
    assert {u.scheme for u in units if u.setting == "main"} == {*presets.PRESETS["quick"].own["rows"], *rows.BOTH,
                                                                  *rows.RESIZED, *rows.OF_HEADS}  # fmt: skip
    page = STUDY.page(request, store, units, {}).read_text()
    for said in (
        "As released",
        "Pictures of other sizes",
        "Which part is kept",
        "Heads",
        "attention looks, layer by layer",
    ):
        assert said in page
    shutil.rmtree(fashion)  # what is stored is drawn without the pictures
    again = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
    assert again.count("<svg") == page.count("<svg")


def test_other_sizes_are_asked_of_trained_models_once_and_for_the_panel_that_shows_them(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["gridpe", "grid-deep"], data=fashion)
    trained = run(request, store)
    before = {unit.key: store.read(unit.key).timing for unit in trained}
    assert not any(row["metric"].startswith("accuracy_at") for row in store.results())
    shown = dataclasses.replace(request, panels=["resolution"])
    page = STUDY.page(shown, store, run(shown, store), {}).read_text()
    assert "Which part is kept" in page
    assert all(store.read(key).timing == timing for key, timing in before.items())  # nothing was trained again
    rows_ = {(row["scheme"], row["metric"]): row for row in store.results() if "_at_x" in row["metric"]}
    assert {scheme for scheme, _ in rows_} == {"gridpe"}  # the panel has no other of these
    assert {metric for _, metric in rows_} == {f"{kind}_at_{name}" for kind in ("accuracy", "kept")
                                               for name in presets.SCALES}  # fmt: skip
    told = {row["metric"]: row["value"] for row in store.results() if row["scheme"] == "gridpe"}
    assert told["kept_at_x1.14"] == pytest.approx(told["accuracy_at_x1.14"] / told["accuracy"])
    (unit,) = STUDY.measurements(shown, store, trained)
    assert unit.setting == "main"
    assert unit.settings["trained"] in before
    again = STUDY.stored(shown, store)
    # what measures is no row of its own
    assert {each.key for each in again} == {each.key for each in trained if each.setting == "main"}


def test_at_its_own_size_a_model_says_what_it_said(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["accuracy"], schemes=["learned"], data=fashion)
    trained = run(request, store)
    (unit,) = other_sizes.measurements(trained, store, {"x1.00": 1.0, "x9.00": 9.0}, looked_at=None)
    report = runner.run([unit], store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0
    found = store.read(unit.key).metrics
    assert found["accuracy_at_x1.00"] == store.read(trained[0].key).metrics["accuracy"]
    assert found["kept_at_x1.00"] == 1.0


def test_a_folder_of_ones_own(tmp_path, class_folders, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["rope-axial", "cpvt"], source=class_folders)
    units = run(request, store)
    pictures = units[0].settings["pictures"]
    assert (pictures["classes"], *pictures["shape"], pictures["train"], pictures["test"]) == (3, 3, 32, 32, 36, 9)
    page = STUDY.page(request, store, units, {}).read_text()
    assert "own: 36 pictures to learn from and 9 held out, 32 x 32 with 3 colours, 3 classes" in page
    assert "mean of classes" in page
    assert "among the first five" not in page


def test_photographs_stand_beside_in_the_standard_preset(tmp_path, small):
    (tmp_path / "caltech100").mkdir()
    request = studies.Request(preset="standard", data=tmp_path, panels=["accuracy", "pyramid"])
    assert list(STUDY.wanted(request)) == ["main", presets.PHOTOGRAPHS, presets.PVT, presets.PVT_PHOTOGRAPHS]
    assert list(STUDY.wanted(dataclasses.replace(request, source=tmp_path))) == ["main", presets.PVT]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (studies.Request(preset="paper"), "ImageNet-100 as a folder of class folders, which nobody may hand on"),
        (studies.Request(preset="quick", panels=["accuracys"]), "Did you mean accuracy"),
        (studies.Request(preset="quick", schemes=["lerned"]), "Did you mean learned"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(tmp_path, fashion, request_, sentence):
    with pytest.raises(ValueError, match=sentence):
        STUDY.plan(dataclasses.replace(request_, data=fashion), Store(tmp_path / "runs"))


def test_missing_pictures_are_said_in_a_sentence(tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"fashion-mnist is not at .*posenc data fashion-mnist"):
        STUDY.plan(studies.Request(preset="quick", data=tmp_path / "none"), Store(tmp_path / "runs"))


def test_a_checkpoint_of_another_training_is_refused(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    one, two = STUDY.plan(studies.Request(preset="quick", schemes=["gridpe"], data=fashion), store)
    first, second = Classifier(one, store.root), Classifier(two, store.root)
    train(first.fit, TRAINING, seed=0, workdir=store.workdir(one.key), checkpoint_steps=1, checkpoint_seconds=0.0)
    shutil.copy(store.workdir(one.key) / "checkpoint.pt", store.workdir(two.key) / "checkpoint.pt")
    with pytest.raises(ValueError, match="checkpoint"):
        train(second.fit, TRAINING, seed=0, workdir=store.workdir(two.key))


def test_the_estimate_is_of_this_machine(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(studies.Request(preset="quick", schemes=["gridpe"], data=fashion), store)
    found = STUDY.estimate(units, store, 2)
    assert 0 < found.seconds < 60
    assert found.runs == 2


# claims --------------------------------------------------------------------------------------------------------------


def made_up(levels, metric="accuracy", setting="main", seeds=5):
    """Rows of a store: each label's level, with what a seed adds to all."""
    noise = np.random.default_rng(0).normal(0, 0.0005, (len(levels), seeds))
    return [
        {"study": "gridpe", "preset": "quick", "setting": setting, "seed": seed, "metric": metric,
         "scheme": label if setting == "main" else f"{label}, {setting}",
         "value": level + 0.01 * seed + noise[place, seed]}
        for place, (label, level) in enumerate(levels.items()) for seed in range(seeds)
    ]  # fmt: skip


def verdict(name, found):
    (claim,) = [claim for claim in CLAIMS if claim.name == name]
    return judge_claim(claim, found).verdict


def test_a_vit_is_improved_or_not():
    name, four = "grid-cell encodings improve a ViT", {f"grid-{v}": 0.8 for v in rows.VARIANTS}
    others = {"learned": 0.7, "nope": 0.6, "rope-axial": 0.72}
    assert verdict(name, made_up(four | others)) == "upheld"
    assert verdict(name, made_up(four | {**others, "rope-axial": 0.9})) == "not upheld"
    assert verdict(name, made_up(four | {**others, "nope": 0.75})) == "not upheld"
    assert verdict(name, made_up(four | others)[:20]) == "not measured"
    deep = made_up(four | {"grid-deep": 0.9, "grid-deep-literal": 0.5})
    assert verdict("deep is the best of the four", deep) == "upheld"


def test_what_was_released_is_judged_against_its_own_model():
    name, four = "the released variants carry a place", {f"grid-{v}-literal": 0.7 for v in rows.VARIANTS}
    assert verdict(name, made_up(four | {"nope-literal": 0.6, "learned-literal": 0.7})) == "upheld"
    assert verdict(name, made_up(four | {"nope-literal": 0.8, "learned-literal": 0.9})) == "not upheld"
    assert verdict(name, made_up(four | {"nope": 0.6})) == "not measured"


def test_a_pvt_and_larger_pictures():
    name, setting = "a PVT hardly depends on its encoding", presets.PVT
    same = {"pvt-o": 0.8, "cpvt": 0.81, "gridpe": 0.79, "nope": 0.7}
    assert verdict(name, made_up(same, setting=setting)) == "upheld"
    assert verdict(name, made_up({**same, "cpvt": 0.9}, setting=setting)) == "not upheld"
    name = "grid cells carry over to larger pictures"
    at = {"gridpe": 0.6, "rope-axial": 0.5, "rope-mixed": 0.5, "learned": 0.4}
    found = made_up(at, "accuracy_at_x2.29") + made_up(at, "kept_at_x2.29")
    assert verdict(name, found) == "upheld"
    kept = made_up({**at, "rope-axial": 0.9}, "kept_at_x2.29")
    assert verdict(name, made_up(at, "accuracy_at_x2.29") + kept) == "not upheld"


def test_claims_point_at_panels_and_rows_that_there_are(tmp_path, small):
    titles = {f"Accuracy of a {kind} by encoding" for kind in ("ViT", "PVT")}
    assert {claim.panel for claim in CLAIMS} <= titles | {"As released", "Pictures of other sizes"}
    for claim in CLAIMS:
        assert set(claim.command.split("--panels ")[1].split()) <= set(PLANS)
    assert studies.find("gridpe") is STUDY
    assert set(drawing.TITLES) == set(presets.BLOCK)


@pytest.mark.data
def test_two_steps_on_fashion_mnist(tmp_path, data_folder):
    store = Store(tmp_path / "runs")
    asked = studies.Request(preset="quick", panels=["accuracy"], schemes=["gridpe"], data=data_folder)
    unit, *_ = STUDY.plan(asked, store)
    made = Classifier(unit, store.root)
    assert (made.pictures.train, made.pictures.test, made.pictures.shape) == (10_000, 10_000, (1, 28, 28))
    steps, losses = made.training.epochs * made.fit.per_epoch(made.training.batch), []
    assert made.training.decay_steps == steps

    def two(at, batch):
        if at.step == 2:
            raise KeyboardInterrupt
        loss = made.loss_at(at, batch)
        losses.append(float(loss.detach()))
        return loss

    fit = dataclasses.replace(made.fit, loss_at=two, evaluate=dict)
    with pytest.raises(KeyboardInterrupt):
        train(fit, made.training, seed=0)
    assert losses[0] == pytest.approx(np.log(10), rel=0.2)
