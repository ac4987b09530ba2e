"""The spherical study: its rows, its units from plan to page, its pictures, what it refuses."""

import dataclasses
import pickle
import shutil

import msgspec
import numpy as np
import pytest
import torch

from drawn_pictures import drawn
from posenc.positions import grid
from posenc.schemes.sc_pe import SCPE
from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.sc_pe import (
    STUDY,
    conditions,
    image_plots,
    presets,
    similarity_plots,
    variants,
)
from posenc.workbench.studies.shared import page_records, planning
from posenc.workbench.studies.shared.classification import Classifier
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.studies.shared.image_data import ImageRecord

pytestmark = pytest.mark.bare

SMALL = ImageRecord(name="drawn", digest="-", classes=10, shape=(1, 28, 28), train=60, test=20)
HEAD = 3 * 256 + 256 + 256 * 64 + 64 + 64 + 1


@pytest.fixture
def small(monkeypatch):
    """The quick preset made tiny: the same rows, settings and panels."""
    sizes = {
        "train_images": None,
        "training": presets.lenet_training(3),
        "transformer_training": presets.transformer_training(3),
    }
    own = OwnDataPlan(seeds=(0,), half=False)
    found = dataclasses.replace(presets.PRESETS["quick"], **sizes, seeds=(0,), own=own, own_steps=3)
    monkeypatch.setitem(presets.PRESETS, "quick", found)
    return found


def run(request, store):
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


# rows ----------------------------------------------------------------------------------------------------------------


def model(label):
    torch.manual_seed(0)
    return variants.lenet(label, SMALL)[0].model()


@pytest.mark.parametrize("label", list(variants.VARIANTS))
def test_every_row_learns(label):
    row, _ = variants.lenet(label, SMALL)
    assert msgspec.convert(msgspec.to_builtins(row), type(row)) == row
    made = row.model()
    logits = made(torch.randn(2, 1, 28, 28))
    assert logits.shape == (2, 10)
    logits.square().mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())


@pytest.mark.parametrize("label", list(variants.TRANSFORMERS))
def test_every_row_of_the_transformer_learns(label):
    made = variants.transformer(label, SMALL).model()
    logits = made(torch.randn(2, 1, 28, 28))
    logits.square().mean().backward()
    assert logits.shape == (2, 10)
    assert all(bool(p.grad.isfinite().all()) for p in made.parameters() if p.grad is not None)


def test_rows_have_the_sizes_that_the_author_s_networks_have():
    sizes = {label: sum(p.numel() for p in model(label).parameters()) for label in variants.VARIANTS}
    assert (sizes["plain"], sizes["plain-padded"]) == (44_426, 61_706)
    assert sizes["as-published"] == 61_706 + 784 * 120 + HEAD
    assert sizes["code"] == sizes["code-slow"] == sizes["code x 10"] == 44_426 + 784 * 120 + HEAD
    # a trained vector of the same width
    assert sizes["constant"] == sizes["code"] - HEAD + 784
    assert sizes["constant-padded"] == sizes["as-published"] - HEAD + 784
    assert sizes["mask"] == 44_426 + 784
    assert sizes["note times"] == 44_426 + 3 * 128 + 128 + 128 + 1


def test_padding_and_rate_are_those_that_labels_say():
    for label in variants.VARIANTS:
        row, lr = variants.lenet(label, SMALL)
        padded = label in ("as-published", "as-released") or label.endswith("-padded")
        assert row.config.padding == (2 if padded else 0), label
        assert lr == (3e-4 if label.endswith("-slow") else None), label
    assert set(variants.RATES) == {f"{base}{speed}" for base in ("plain", "code") for speed in ("", "-slow")}
    for panel in (
        variants.FEATURE_VARIANTS,
        variants.UNPADDED,
        variants.PIXEL_VARIANTS,
        variants.INITIAL_SCALES,
        variants.RATES,
    ):
        assert set(panel) <= set(variants.VARIANTS)


def test_the_head_starts_so_many_times_as_large():
    same, ten, nothing = (model(label).rows() for label in ("code", "code x 10", "code x 0"))
    torch.testing.assert_close(ten, 10 * same)
    assert not nothing.any()
    assert len(same.unique()) > 700


def test_rows_beside_the_features_are_a_bias():
    """The released network, rows folded into a bias, is the padded one without rows: the same class of functions."""
    made, plain = model("as-published").double(), model("plain-padded").double()
    folded, x = made.folded(), torch.randn(4, 1, 28, 28, dtype=torch.float64)
    assert {n: p.shape for n, p in folded.named_parameters()} == {n: p.shape for n, p in plain.named_parameters()}
    torch.testing.assert_close(folded(x), made(x), atol=1e-9, rtol=0)


def test_in_line_the_sphere_is_a_quarter_circle():
    made = variants.transformer("sphere-in-line", SMALL).model()
    scheme = made.stages[0].schemes[0]
    pos = made.stages[0].positions(scheme, (7, 7), 28, torch.device("cpu"))
    table = scheme.embed(scheme.prepare(pos))
    assert table.shape == (49, 3)
    assert not table[:, 2].any()  # cos and sin alone
    angles = torch.atan2(table[:, 1], table[:, 0])
    torch.testing.assert_close(angles, torch.arange(49) * torch.pi / 98, atol=1e-6, rtol=0)
    assert made.stages[0].projections["0"][0].out_features == 128


# from plan to page ---------------------------------------------------------------------------------------------------


def test_from_plan_to_page_and_on_after_a_stop(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["plain", "plain-padded", "note times", "code"], data=fashion)
    specs = STUDY.plan(request, store)
    assert [spec.condition for spec in specs] == ["main"] * 4
    runner.run(specs[:1], store, runner.InProcess(), emit=lambda event: None)
    first = store.read(specs[0].identity)
    run(request, store)
    assert store.read(specs[0].identity).timing == first.timing
    assert store.arrays(specs[2].identity)["over"].shape == (28, 28)
    page = STUDY.page(request, store, specs, {}).read_text()
    for said in ("Accuracy with concatenated encodings: LeNet", "Differences of accuracy", "padding alone",
                 "Multiplied images", "Not measured", "padding 2, learning rate 0.001",
                 "Cosine similarity of pixels: spherical encodings", "translated"):  # fmt: skip
        assert said in page
    assert "plain-padded above plain in accuracy" in " ".join(STUDY.verdict(request, store, specs))


@pytest.mark.full
def test_every_panel_of_everything_and_again_without_the_pictures(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["all"], data=fashion)
    specs = run(request, store)
    labels = {spec.variant for spec in specs if spec.condition == "main"}
    assert labels == set(variants.VARIANTS) - set(
        variants.FURTHER_READOUTS
    )  # these are trained where they are asked for
    assert {u.variant for u in specs if u.condition == conditions.TRANSFORMER} == set(variants.TRANSFORMERS)
    assert all(np.isfinite(store.read(u.identity).metrics["roughness"]) for u in specs)
    page = STUDY.page(request, store, specs, {}).read_text()
    for said in (
        "Roughness of the training loss",
        "Accuracy by learning rate: LeNet",
        "initial weights of 0",
        "Variants: vision transformer",
    ):
        assert said in page
    assert "The images are not shown" not in page
    shutil.rmtree(fashion)  # the page is drawn from the store alone
    again = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
    assert again == page
    (sample,) = (store.root / "data").glob("samples-*.npy")
    sample.unlink()
    without = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
    assert "The images are not shown: this store has none" in without
    assert "note times" in without


def test_nothing_trained_is_a_page_too(tmp_path, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["similarity"])
    assert STUDY.plan(request, store) == []
    page = STUDY.page(request, store, [], {}).read_text()
    assert "it is 0.974 for neighbors and 0.704 for the two ends" in page
    asked = studies.Request(preset="quick", schemes=["plain"])
    assert "No run of this panel has finished" in STUDY.page(asked, store, [], {}).read_text()


@pytest.mark.full
def test_cifar_is_a_result_of_its_own_where_the_user_has_it(tmp_path, fashion, small):
    folder = fashion / "cifar-10-batches-py"
    folder.mkdir()
    names = [b"airplane", *(f"class {n}".encode() for n in range(1, 10))]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}))
    for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        pixels, labels = drawn(20, 10, 32, number)
        flat = np.repeat(pixels.reshape(20, 1, -1), 3, 1).reshape(20, -1)
        (folder / name).write_bytes(pickle.dumps({b"data": flat, b"labels": labels.tolist()}))
    store = Store(tmp_path / "runs")
    asked = {"panels": ["concatenation", "rates"], "schemes": ["plain", "plain-slow", "code", "code-slow"]}
    request = studies.Request(preset="quick", data=fashion, **asked)
    specs = run(request, store)
    assert {spec.condition for spec in specs} == {"main", conditions.CIFAR}
    rates = {u.variant: u.settings["training"]["lr"] for u in specs if u.condition == conditions.CIFAR}
    assert rates == {"plain": 1e-3, "plain-slow": 3e-4, "code": 1e-3, "code-slow": 3e-4}
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Accuracy by learning rate: LeNet, CIFAR-10" in page
    assert "as the released code compares on CIFAR-10" in page
    every = planning.needed(STUDY, studies.Request(preset="quick", data=fashion))
    assert not any(variants.VARIANTS[label].padded for label in every[conditions.CIFAR])


@pytest.mark.full
def test_a_folder_of_ones_own(tmp_path, class_folders, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["plain", "SCTorus(hidden=(16,))"], source=class_folders)
    specs = run(request, store)
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "training: 30 images; validation: 6 images; test: 9 images" in page
    assert "SCTorus(hidden=(16,))" in page
    assert "10,000" not in page
    path = STUDY.page(request, store, STUDY.stored(studies.Request(preset="quick"), store), {})
    report = STUDY.page(studies.Request(preset="quick"), store, specs, {})
    assert report == path  # a report without FOLDER is about the folder of the runs
    (digest,) = {record.digest for record in page_records.records_of(store, specs)}
    assert report.name == f"sc-pe-quick-own-{digest[:6]}.html"
    assert report.read_text() == page
    assert "/own --preset quick" in page  # the path of the folder


def test_photographs_that_no_page_shows(tmp_path, fashion, small, monkeypatch):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["multiplication"], schemes=["mask"], data=fashion)
    specs = run(request, store)
    monkeypatch.setattr(image_plots, "WITHHELD_DATA", "fashion")
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "The photographs of fashion-mnist are not shown on pages" in page
    assert "the factor of each pixel" in page


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"schemes": ["plane"]}, "Did you mean .*plain.* The variants are plain, .* the encodings are ALiBi"),
        ({"schemes": ["RoPE"]}, "a LeNet has pixels and features and no attention, and RoPE acts at"),
        ({"schemes": ["SCPE(n=20)"]}, "SCPE starts at 0 and stops at 19; position 27"),
        ({"panels": ["tokens"], "schemes": ["sphare"]}, "Did you mean sphere.* The variants are sphere,"),
        ({"panels": ["concatenations"]}, "Did you mean concatenation"),
        ({"panels": ["beside"]}, "the panel beside is now concatenation"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(tmp_path, fashion, asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        STUDY.plan(studies.Request(preset="quick", data=fashion, **asked), Store(tmp_path / "runs"))


def test_missing_and_changed_pictures_are_said_in_a_sentence(tmp_path, fashion, small):
    (tmp_path / "none").mkdir()
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match="posenc data fashion-mnist"):
        STUDY.plan(studies.Request(preset="quick", data=tmp_path / "none"), store)
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["plain"], data=fashion), store)
    (fashion / "fashion_mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"cut off")
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    ((_, sentence),) = report.failed
    assert "train-images-idx3-ubyte.gz is damaged or cut short (" in sentence
    assert "Copy it again." in sentence


# what is drawn -------------------------------------------------------------------------------------------------------


def test_similarities_are_those_of_the_note():
    narrow, wide = (similarity_plots.token_similarity(width) for width in similarity_plots.WIDTHS)
    golden = (1, 0.770, 0.292, 0.005, 0.173, 0.641, 0.979, 0.876, 0.426, 0.042)
    np.testing.assert_allclose(np.abs(narrow.encoding[0]), golden, atol=6e-4)
    np.testing.assert_allclose(wide.encoding[0, [1, 9]], [0.974, 0.704], atol=6e-4)
    computed = [similarity_plots.token_similarity(2048, seed).computed for seed in range(20)]
    noisy = [float(np.diagonal(matrix, distance).mean()) for distance in (1, 9) for matrix in computed]
    assert np.mean(noisy[:20]) == pytest.approx(0.288, abs=0.01)
    assert np.mean(noisy[20:]) == pytest.approx(0.214, abs=0.02)


def test_pixels_are_as_distinct_as_the_note_s_sphere_and_the_code_s():
    pos = grid(28, 28)
    for variant, many in (("open", 784), ("code", 757)):
        scheme = SCPE(28, variant=variant)
        assert similarity_plots.distinct_count(scheme.embed(scheme.prepare(pos))) == many


def test_multiplied_pictures_are_those_of_the_network(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    (spec,) = run(
        studies.Request(preset="quick", schemes=["torus times"], panels=["multiplication"], data=fashion), store
    )
    made = Classifier(spec, store.root)
    made.model.load_state_dict(store.read(spec.identity).weights)
    np.testing.assert_allclose(store.arrays(spec.identity)["over"], made.model.over().detach(), rtol=1e-6)
    assert image_plots._as_uint8(np.array([[[0.0, 5.0]]])).tolist() == [[[0], [255]]]
    assert image_plots._as_uint8(np.ones((1, 1, 2))).tolist() == [[[128], [128]]]
    assert image_plots._two_by_two([np.eye(3)[None], None]).shape == (8, 8, 3)


@pytest.mark.data
def test_two_steps_on_fashion_mnist(tmp_path, data_folder):
    store = Store(tmp_path / "runs")
    (spec, *_) = STUDY.plan(studies.Request(preset="quick", schemes=["as-published"], data=data_folder), store)
    made = Classifier(spec, store.root)
    assert (made.images.train, made.images.test, made.images.shape) == (10_000, 10_000, (1, 28, 28))
    assert made.training.optimizer == "adam"
    batch = torch.arange(256)
    before = float(made.loss(batch).detach())
    optimizer = torch.optim.Adam(made.model.parameters(), lr=made.training.lr)
    for _ in range(2):
        optimizer.zero_grad()
        made.loss(batch).backward()
        optimizer.step()
    assert float(made.loss(batch).detach()) < before
