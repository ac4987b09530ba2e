"""The grid-cell study: its variants, its runs from plan to page, what it refuses."""

import dataclasses
import re
import shutil

import msgspec
import numpy as np
import pytest
import torch

from posenc.models import vit as vits
from posenc.models.vision_stage import StageConfig
from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.gridpe import STUDY, conditions, presets, published, variants
from posenc.workbench.studies.shared import image_sizes, planning
from posenc.workbench.studies.shared.classification import Classifier, TransformerSpec
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.studies.shared.image_data import ImageRecord
from posenc.workbench.tasks.images import data_sets
from posenc.workbench.training.loop import TrainingConfig, train
from small_images import packed_photographs

pytestmark = pytest.mark.bare

SMALL = ImageRecord(name="drawn", digest="-", classes=10, shape=(1, 28, 28), train=60, test=20)
PADDED = msgspec.structs.replace(SMALL, shape=(1, 32, 32))
TRAINING = TrainingConfig(epochs=1, batch=30, lr=1e-3, evaluate_every=1)


OWN_PARTS = "training: 30 images; validation: 6 images; test: 9 images"


def tiny_recipe(recipe, size):
    return presets.Recipe(size=size, training=TRAINING, side=recipe.side, patch=recipe.patch, own_steps=2)


@pytest.fixture
def small(monkeypatch):
    """The presets made tiny: the same rows, settings and panels, in models of one block."""
    monkeypatch.setitem(vits.SIZES, "quick", StageConfig(dim=64, depth=1, heads=2, hidden=16, patch=4))
    for name, preset in presets.PRESETS.items():
        recipes = {
            label: tiny_recipe(recipe, size="micro" if "pvt" in label else "quick")
            for label, recipe in preset.recipes.items()
        }
        own = None if preset.own is None else OwnDataPlan(seeds=(0,), half=False)
        small = dataclasses.replace(preset, recipes=recipes, resized_images=5, seeds=(0,), own=own)
        monkeypatch.setitem(presets.PRESETS, name, small)
    assert STUDY.presets is presets.PRESETS
    return presets.PRESETS["quick"]


def run(request, store):
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    asked = STUDY.measurements(request, store, specs)
    report = runner.run(asked, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


# rows ----------------------------------------------------------------------------------------------------------------

EVERY = [("vit", label) for label in variants.VIT] + [("pvt", label) for label in variants.PVT]


@pytest.mark.parametrize(("block", "label"), EVERY, ids=[f"{block} {label}" for block, label in EVERY])
def test_every_row_learns(block, label):
    row = variants.variant(block, label, SMALL if block == "vit" else PADDED, "quick" if block == "vit" else "micro")
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
    return sum(p.numel() for p in variants.variant(block, label, pictures, size).model().parameters())


def test_rows_differ_in_what_they_say_and_nothing_else():
    plain, tables = numbers("vit", "nope"), 64 * 49
    assert numbers("vit", "learned-0.02") == plain + tables
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
    assert {architecture: len(rows) for architecture, rows in published.TABLE_1.items()} == {"pvt": 7, "vit": 5}
    assert variants.VIT.keys() >= published.TABLE_1["vit"].keys()
    assert variants.PVT.keys() >= published.TABLE_1["pvt"].keys()
    assert [label for label in variants.PVT_AS_PUBLISHED if label in ("pvt-o", "cpvt", "pvt-abs")] == [
        "pvt-o",
        "cpvt",
        "pvt-abs",
    ]
    assert set(variants.AS_PUBLISHED) >= {"learned-0.02", "nope", "sinusoid", "rope-axial", "rope-mixed", "gridpe"}
    assert all(
        name in variants.VIT
        for name in (*variants.AS_PUBLISHED, *variants.AS_RELEASED, *variants.BY_HEADS, *variants.SIZE_VARIANTS)
    )
    assert all(name in variants.PVT for name in (*variants.PVT_AS_PUBLISHED, *variants.PVT_AS_RELEASED))


def test_a_simplex_has_a_rotation_a_head_and_spans_the_grid():
    for label, heads in (("gridpe", 2), *((f"gridpe-{n}-heads", n) for n in variants.HEAD_COUNTS)):
        scheme = variants.variant("vit", label, SMALL, "quick").model().stages[0].schemes[0]
        assert scheme.waves.shape[0] == heads
    longest = 2 * np.pi / float(scheme.waves.norm(dim=-1).min())
    assert longest == pytest.approx(4.0)  # eight heads have one scale each
    four = variants.variant("vit", "gridpe-4-heads", SMALL, "quick").model().stages[0].schemes[0]
    assert 2 * np.pi / float(four.waves.norm(dim=-1).min()) == pytest.approx(7.0)


def longest_waves(model):
    """Longest wavelength of the scheme of each stage, in patches."""
    return [2 * np.pi / float(stage.schemes[0].waves.norm(dim=-1).min()) for stage in model.stages]


def test_too_few_groups_of_channels_are_spread_over_the_grid_of_a_stage():
    patch = presets.PRESETS["standard"].recipes[conditions.PVT_PHOTOGRAPHS].patch
    for side, longest in ((128, 32.0), (256, 64.0)):  # the grids of the first stage
        photographs = msgspec.structs.replace(SMALL, shape=(3, side, side), classes=100)
        model = variants.variant("pvt", "gridpe", photographs, "micro", patch).model()
        assert longest_waves(model)[0] == pytest.approx(longest)


def test_photographs_have_coarser_patches():
    photographs = msgspec.structs.replace(SMALL, shape=(3, 128, 128), classes=100)
    vit = variants.variant(
        "vit", "learned-0.02", photographs, "quick", presets.PRESETS["standard"].recipes[conditions.PHOTOGRAPHS].patch
    )
    pvt = variants.variant(
        "pvt", "cpvt", photographs, "micro", presets.PRESETS["standard"].recipes[conditions.PVT_PHOTOGRAPHS].patch
    )
    assert vit.config.shapes((128, 128)) == [(16, 16)]
    assert pvt.config.shapes((128, 128)) == [(32, 32), (16, 16), (8, 8), (4, 4)]


@pytest.mark.parametrize(
    ("block", "label", "pictures", "sentence"),
    [
        ("vit", "grid-rotat", SMALL, "Did you mean .*grid-rotate.* the encodings are ALiBi"),
        ("vit", "cpvt", SMALL, "'cpvt'.* The variants are learned-0.02, nope"),
        (
            "vit",
            "learned-0.02",
            msgspec.structs.replace(SMALL, shape=(1, 30, 30)),
            "do not divide the 30 x 30 .* 32 x 32",
        ),
        ("pvt", "pvt-o", SMALL, "Resize or pad images to 32 x 32"),
        ("vit", "SCPE", SMALL, "SCPE makes rows of width 3 and the model adds them to tokens of width 64"),
        ("vit", "GridPE(extent=1000.0)", SMALL, "GridPE has 5 groups of 6 channels"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(block, label, pictures, sentence):
    with pytest.raises(ValueError, match=sentence):
        variants.variant(block, label, pictures, "quick" if block == "vit" else "micro").model()


# from plan to page ---------------------------------------------------------------------------------------------------


def test_quick_is_the_rows_that_it_names():
    request, quick = studies.Request(preset="quick"), presets.PRESETS["quick"]
    needed, grids = planning.needed(STUDY, request), [f"grid-{name}" for name in variants.GRID_FORMS]
    assert needed["main"] == ["learned-0.02", "nope", "sinusoid", "rope-axial", "gridpe", *grids]
    assert set(needed[conditions.PVT]) >= {"pvt-o", "cpvt", "gridpe"}
    assert list(quick.seeds) == [0, 1, 2]


def test_from_plan_to_page_and_on_after_a_stop(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["learned-0.02", "cpvt", "gridpe"], data=fashion)
    specs = STUDY.plan(request, store)
    # each row where there is one of that name
    assert [(u.condition, u.variant) for u in specs] == [
        ("main", "learned-0.02"), ("main", "gridpe"), ("pvt", "learned-0.02"), ("pvt", "cpvt"), ("pvt", "gridpe"),
    ]  # fmt: skip
    runner.run(specs[:2], store, runner.InProcess(), emit=lambda event: None)
    before = {spec.identity: store.read(spec.identity) for spec in specs[:2]}
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Accuracy by encoding: ViT" in page
    assert "No run of this panel has finished" in page
    run(request, store)
    assert all(store.read(key).timing == stored.timing for key, stored in before.items())
    metrics = store.read(specs[0].identity).metrics
    assert metrics.keys() >= {"accuracy", "accuracy_top5", "accuracy_per_class", "accuracy_train", "loss", "parameters"}
    assert not STUDY.measurements(request, store, specs)  # no panel of these shows other sizes
    page = STUDY.page(request, store, specs, {}).read_text()
    for said in (
        "Learning curves: PVT",
        "Comparison with Table 1 of the paper: ViT",
        "Comparison with Table 1 of the paper: PVT",
        "Variants: ViT",
        "60 training images",
        "gridpe",
        "Not measured",
        "Loss by encoding: PVT",
        "one centered piece of clothing",
    ):
        assert said in page
    assert STUDY.verdict(request, store, specs)[0].startswith("Inconclusive for the ViT after 2 steps: gridpe against")
    assert {u.identity for u in STUDY.stored(studies.Request(preset="quick", data=fashion), store)} == {
        u.identity for u in specs
    }
    told = studies.Request(preset="quick", data=fashion, panels=["accuracy", "variants"])  # the last needs no run
    assert {u.condition for u in STUDY.stored(told, store)} == {"main"}


@pytest.mark.full
def test_every_panel_of_everything(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["all"], data=fashion)
    specs = run(request, store)
    assert {u.variant for u in specs if u.condition == "main"} == {
        *presets.PRESETS["quick"].vit_variants,
        *variants.RELEASED_AND_PUBLISHED,
        *variants.SIZE_VARIANTS,
        *variants.BY_HEADS,
    }
    page = STUDY.page(request, store, specs, {}).read_text()
    for said in (
        "Accuracy as released and as published: ViT",
        "Accuracy by image size: ViT",
        "Relative accuracy",
        "Accuracy by number of attention heads: ViT",
        "Attention distance by layer: ViT",
    ):
        assert said in page
    shutil.rmtree(fashion)  # what is stored is drawn without the pictures
    again = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
    assert again.count("<svg") == page.count("<svg")


@pytest.mark.full
def test_other_sizes_are_asked_of_trained_models_once_and_for_the_panel_that_shows_them(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["gridpe", "grid-deep"], data=fashion)
    trained = run(request, store)
    before = {spec.identity: store.read(spec.identity).timing for spec in trained}
    assert not any(row["metric"].startswith("accuracy_at") for row in store.results())
    shown = dataclasses.replace(request, panels=["resolution"])
    page = STUDY.page(shown, store, run(shown, store), {}).read_text()
    assert "Relative accuracy" in page
    assert "side of the images (pixels)" in page
    assert "512 px published, 64 px here (2.29 times)" in page  # 28 pixels in patches of 4
    assert all(store.read(key).timing == timing for key, timing in before.items())  # nothing was trained again
    rows_ = {(row["scheme"], row["metric"]): row for row in store.results() if "_at_x" in row["metric"]}
    assert {scheme for scheme, _ in rows_} == {"gridpe"}  # the panel has no other of these
    assert {metric for _, metric in rows_} == {f"{kind}_at_{name}" for kind in ("accuracy", "kept")
                                               for name in presets.SCALES}  # fmt: skip
    told = {row["metric"]: row["value"] for row in store.results() if row["scheme"] == "gridpe"}
    assert told["kept_at_x1.14"] == pytest.approx(told["accuracy_at_x1.14"] / told["accuracy"])
    (spec,) = STUDY.measurements(shown, store, trained)
    assert spec.condition == "main"
    assert spec.parents["trained"] in before
    again = STUDY.stored(shown, store)
    # measuring runs are not rows of their own
    assert {each.identity for each in again} == {each.identity for each in trained if each.condition == "main"}


@pytest.mark.full
def test_at_its_own_size_a_model_says_what_it_said(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["accuracy"], schemes=["learned-0.02"], data=fashion)
    trained = run(request, store)
    (spec,) = image_sizes.size_measurements(trained, store, {"x1.00": 1.0, "x9.00": 9.0}, images=None)
    report = runner.run([spec], store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0
    found = store.read(spec.identity).metrics
    assert found["accuracy_at_x1.00"] == store.read(trained[0].identity).metrics["accuracy"]
    assert found["kept_at_x1.00"] == 1.0


@pytest.mark.full
def test_a_folder_of_ones_own(tmp_path, class_folders, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["rope-axial", "cpvt"], source=class_folders)
    specs = run(request, store)
    pictures = specs[0].settings["pictures"]
    assert (pictures["classes"], *pictures["shape"], pictures["train"], pictures["test"]) == (3, 3, 32, 32, 36, 9)
    page = STUDY.page(request, store, specs, {}).read_text()
    assert OWN_PARTS in page
    assert "Top-5 accuracy" not in page  # of three classes
    assert "Training accuracy" in page  # balanced accuracy is accuracy where all classes have as many images
    others = ("10,000", "clothing", "Fashion-MNIST", "Comparison with Table 1")  # limits and paper of built-in data
    assert not any(word in page for word in others)
    assert re.search(r"Scale: ViT: [\d,]+ parameters, width \d+, \d+ layers?; \d+ steps of batches of \d+", page)


@pytest.mark.full
def test_a_report_without_a_folder_is_about_the_folder_of_the_runs(tmp_path, class_folders, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["rope-axial", "cpvt"], source=class_folders)
    specs = run(request, store)
    page = STUDY.page(request, store, specs, {})
    text = page.read_text()
    shutil.rmtree(class_folders)
    unnamed = studies.Request(preset="quick")
    stored = STUDY.stored(unnamed, store)
    assert {each.identity for each in stored} == {each.identity for each in specs}
    assert STUDY.page(unnamed, store, stored, {}) == page
    (record,) = {store.record_of(each).digest for each in specs}
    assert page.name == f"gridpe-quick-own-{record[:6]}.html"
    assert page.read_text() == text
    assert "/own --preset quick" in text  # the path of the folder


def test_classes_of_other_sizes_have_balanced_accuracy(tmp_path, class_folders, small):
    for file in sorted((class_folders / "class 0").iterdir())[:10]:
        file.unlink()
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["accuracy"], schemes=["rope-axial"], source=class_folders)
    page = STUDY.page(request, store, run(request, store), {}).read_text()
    assert "Balanced accuracy, held-out (mean over classes)" in page


@pytest.mark.full
def test_the_standard_preset_is_planned_with_photographs(tmp_path, fashion, monkeypatch):
    monkeypatch.setattr(data_sets, "cache_folder", lambda: tmp_path / "cache")
    packed_photographs(fashion / "caltech100")
    request = studies.Request(preset="standard", data=fashion, seeds=[0])
    specs = STUDY.plan(request, Store(tmp_path / "runs"))
    assert {each.condition for each in specs} == set(conditions.CONDITIONS)
    photographs = {each.variant: each for each in specs if each.condition == conditions.PVT_PHOTOGRAPHS}
    assert set(photographs) == {*variants.PVT_AS_PUBLISHED, *variants.PVT_AS_RELEASED}
    model = msgspec.convert(photographs["gridpe"].settings["row"], TransformerSpec).model()
    grid, longest = model.config.shapes((presets.PHOTOGRAPH_SIDE,) * 2)[0], longest_waves(model)
    assert longest[0] == pytest.approx(4.0 * np.exp(0.5) ** 3)  # the fifth group starts again
    assert longest[0] >= max(grid)
    ordinary = next(each for each in specs if (each.condition, each.variant) == (conditions.PVT, "gridpe"))
    assert ordinary.settings["row"]["scheme"] == {"scheme": "GridPE", "options": {}}


def test_photographs_stand_beside_in_the_standard_preset(tmp_path, small):
    (tmp_path / "caltech100").mkdir()
    request = studies.Request(preset="standard", data=tmp_path, panels=["accuracy", "pvt"])
    assert list(planning.needed(STUDY, request)) == [
        "main",
        conditions.PHOTOGRAPHS,
        conditions.PVT,
        conditions.PVT_PHOTOGRAPHS,
    ]
    assert list(planning.needed(STUDY, dataclasses.replace(request, source=tmp_path))) == ["main", conditions.PVT]


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (studies.Request(preset="paper"), "ImageNet-100 as a folder of class folders, which may not be redistributed"),
        (studies.Request(preset="quick", panels=["accuracys"]), "Did you mean accuracy"),
        (studies.Request(preset="quick", schemes=["lerned"]), "Did you mean .*learned-0.02"),
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
    train(first.fit(), TRAINING, seed=0, workdir=store.workdir(one), checkpoint_steps=1, checkpoint_seconds=0.0)
    shutil.copy(store.workdir(one) / "checkpoint.pt", store.workdir(two) / "checkpoint.pt")
    with pytest.raises(ValueError, match="checkpoint"):
        train(second.fit(), TRAINING, seed=0, workdir=store.workdir(two))


def test_the_estimate_is_of_this_machine(tmp_path, fashion, small):
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["gridpe"], data=fashion), store := Store(tmp_path))
    found = STUDY.estimate(specs, store, 2)
    assert 0 < found.seconds < 60
    assert found.runs == 2


@pytest.mark.data
def test_two_steps_on_fashion_mnist(tmp_path, data_folder):
    store = Store(tmp_path / "runs")
    asked = studies.Request(preset="quick", panels=["accuracy"], schemes=["gridpe"], data=data_folder)
    spec, *_ = STUDY.plan(asked, store)
    made = Classifier(spec, store.root)
    assert (made.images.train, made.images.test, made.images.shape) == (10_000, 10_000, (1, 28, 28))
    steps, losses = made.training.epochs * made.fit().per_epoch(made.training.batch), []
    assert made.training.decay_steps == steps

    def two(at, batch):
        if at.step == 2:
            raise KeyboardInterrupt
        loss = made.loss_at(at, batch)
        losses.append(float(loss.detach()))
        return loss

    fit = dataclasses.replace(made.fit(), loss_at=two, evaluate=dict)
    with pytest.raises(KeyboardInterrupt):
        train(fit, made.training, seed=0)
    assert losses[0] == pytest.approx(np.log(10), rel=0.2)
