"""The spherical study: its rows, its units from plan to page, its pictures, its claims, what it refuses."""

import dataclasses
import pickle
import shutil

import msgspec
import numpy as np
import pytest
import torch

from drawn_pictures import drawn
from posenc import runner, studies
from posenc.positions import grid
from posenc.report.ledger import judge_claim
from posenc.schemes.sc_pe import SCPE
from posenc.store import Store
from posenc.studies.classifying import Classifier
from posenc.studies.picture_sets import Pictures
from posenc.studies.sc_pe import CLAIMS, PLANS, STUDY, drawing, pictures, presets, rows

SMALL = Pictures(name="drawn", digest="-", classes=10, shape=(1, 28, 28), train=60, test=20)
HEAD = 3 * 256 + 256 + 256 * 64 + 64 + 64 + 1


@pytest.fixture
def small(monkeypatch):
    """The quick preset made tiny: the same rows, settings and panels."""
    own = {"images": None, "epochs": 3, "tokens": 3}
    found = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0,))
    monkeypatch.setitem(presets.PRESETS, "quick", found)
    return found


def run(request, store):
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return units


# rows ----------------------------------------------------------------------------------------------------------------


def model(label):
    torch.manual_seed(0)
    return rows.convolution(label, SMALL)[0].model()


@pytest.mark.parametrize("label", list(rows.KINDS))
def test_every_row_learns(label):
    row, _ = rows.convolution(label, SMALL)
    assert msgspec.convert(msgspec.to_builtins(row), type(row)) == row
    made = row.model()
    logits = made(torch.randn(2, 1, 28, 28))
    assert logits.shape == (2, 10)
    logits.square().mean().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())


@pytest.mark.parametrize("label", list(rows.TOKENS))
def test_every_row_of_the_transformer_learns(label):
    made = rows.transformer(label, SMALL).model()
    logits = made(torch.randn(2, 1, 28, 28))
    logits.square().mean().backward()
    assert logits.shape == (2, 10)
    assert all(bool(p.grad.isfinite().all()) for p in made.parameters() if p.grad is not None)


def test_rows_have_the_sizes_that_the_author_s_networks_have():
    sizes = {label: sum(p.numel() for p in model(label).parameters()) for label in rows.KINDS}
    assert (sizes["plain"], sizes["plain-padded"]) == (44_426, 61_706)
    assert sizes["as-published"] == 61_706 + 784 * 120 + HEAD
    assert sizes["code"] == sizes["code-slow"] == sizes["code x 10"] == 44_426 + 784 * 120 + HEAD
    # a trained vector of the same width
    assert sizes["constant"] == sizes["code"] - HEAD + 784
    assert sizes["constant-padded"] == sizes["as-published"] - HEAD + 784
    assert sizes["mask"] == 44_426 + 784
    assert sizes["note times"] == 44_426 + 3 * 128 + 128 + 128 + 1


def test_padding_and_rate_are_those_that_labels_say():
    for label in rows.KINDS:
        row, lr = rows.convolution(label, SMALL)
        assert row.config.padding == (2 if label == "as-published" or label.endswith("-padded") else 0), label
        assert lr == (3e-4 if label.endswith("-slow") else None), label
    assert set(rows.RATES) == {f"{base}{speed}" for base in ("plain", "code") for speed in ("", "-slow")}
    for panel in (rows.BESIDE, rows.UNPADDED, rows.OVER, rows.STARTS, rows.RATES):
        assert set(panel) <= set(rows.KINDS)


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
    made = rows.transformer("sphere, in line", SMALL).model()
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
    units = STUDY.plan(request, store)
    assert [unit.setting for unit in units] == ["main"] * 4
    runner.run(units[:1], store, runner.InProcess(), emit=lambda event: None)
    first = store.read(units[0].key)
    run(request, store)
    assert store.read(units[0].key).timing == first.timing
    assert store.arrays(units[2].key)["over"].shape == (28, 28)
    page = STUDY.page(request, store, units, {}).read_text()
    for said in ("Beside the features", "What decides", "the padding alone", "Pictures times rows", "Not measured",
                 "padding 2, rate 0.001", "How alike pixels are", "translated"):  # fmt: skip
        assert said in page
    assert "plain-padded above plain in accuracy" in " ".join(STUDY.verdict(request, store, units))


def test_every_panel_of_everything_and_again_without_the_pictures(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["all"], data=fashion)
    units = run(request, store)
    labels = {unit.scheme for unit in units if unit.setting == "main"}
    assert labels == set(rows.KINDS)
    assert {u.scheme for u in units if u.setting == presets.TRANSFORMER} == {f"{t}, transformer" for t in rows.TOKENS}
    assert all(np.isfinite(store.read(u.key).metrics["roughness"]) for u in units)
    page = STUDY.page(request, store, units, {}).read_text()
    for said in (
        "How smooth the curves are",
        "Rates crossed",
        "a head that starts at nothing",
        "The rows: the transformer",
    ):
        assert said in page
    assert "The pictures themselves are not shown" not in page
    shutil.rmtree(fashion)
    again = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
    assert "The pictures themselves are not shown" in again
    assert "note times" in again


def test_nothing_trained_is_a_page_too(tmp_path, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["similarity"])
    assert STUDY.plan(request, store) == []
    page = STUDY.page(request, store, [], {}).read_text()
    assert "neighbours have 0.974 and the ends 0.704" in page
    asked = studies.Request(preset="quick", schemes=["plain"])
    assert "No unit of this panel has finished" in STUDY.page(asked, store, [], {}).read_text()


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
    asked = {"panels": ["beside", "rates"], "schemes": ["plain", "plain-slow", "code", "code-slow"]}
    request = studies.Request(preset="quick", data=fashion, **asked)
    units = run(request, store)
    assert {unit.setting for unit in units} == {"main", presets.CIFAR}
    rates = {u.scheme: u.settings["training"]["lr"] for u in units if u.setting == presets.CIFAR}
    assert rates == {"plain, cifar-10": 1e-3, "plain-slow, cifar-10": 3e-4, "code, cifar-10": 1e-3,
                     "code-slow, cifar-10": 3e-4}  # fmt: skip
    page = STUDY.page(request, store, units, {}).read_text()
    assert "Rates crossed, CIFAR-10" in page
    assert "what the released code compares on CIFAR-10" in page
    every = STUDY.wanted(studies.Request(preset="quick", data=fashion))
    assert not any(rows.KINDS[label].padded for label in every[presets.CIFAR])


def test_a_folder_of_ones_own(tmp_path, class_folders, small):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["plain", "SCTorus(hidden=(16,))"], source=class_folders)
    units = run(request, store)
    page = STUDY.page(request, store, units, {}).read_text()
    assert "own: 36 pictures to learn from and 9 held out, 32 x 32 with 3 colours, 3 classes" in page
    assert "SCTorus(hidden=(16,))" in page


def test_photographs_that_no_page_shows(tmp_path, fashion, small, monkeypatch):
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["over"], schemes=["mask"], data=fashion)
    units = run(request, store)
    monkeypatch.setattr(pictures, "NEVER_SHOWN", "fashion")
    page = STUDY.page(request, store, units, {}).read_text()
    assert "The photographs of fashion-mnist are not shown in pages" in page
    assert "the number that each pixel is multiplied by" in page


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"schemes": ["plane"]}, "Did you mean plain.* or name a scheme that embeds, as SCTorus"),
        ({"schemes": ["RoPE"]}, "a LeNet has pixels and features and no attention, and RoPE acts at"),
        ({"schemes": ["SCPE(n=20)"]}, "SCPE starts at 0 and stops at 19; position 27"),
        ({"panels": ["tokens"], "schemes": ["sphare"]}, "Did you mean sphere.* The rows are sphere,"),
        ({"panels": ["besides"]}, "Did you mean beside"),
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
    units = STUDY.plan(studies.Request(preset="quick", schemes=["plain"], data=fashion), store)
    (fashion / "fashion_mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"cut off")
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    ((_, sentence),) = report.failed
    assert "cannot be read (truncated or damaged)" in sentence or "is no IDX file" in sentence


# what is drawn -------------------------------------------------------------------------------------------------------


def test_similarities_are_those_of_the_note():
    narrow, wide = (pictures.similar(width) for width in pictures.WIDTHS)
    golden = (1, 0.770, 0.292, 0.005, 0.173, 0.641, 0.979, 0.876, 0.426, 0.042)
    np.testing.assert_allclose(np.abs(narrow.pure[0]), golden, atol=6e-4)
    np.testing.assert_allclose(wide.pure[0, [1, 9]], [0.974, 0.704], atol=6e-4)
    noisy = [float(np.diagonal(pictures.similar(2048, seed).computed, d).mean()) for d in (1, 9) for seed in range(20)]
    assert np.mean(noisy[:20]) == pytest.approx(0.288, abs=0.01)
    assert np.mean(noisy[20:]) == pytest.approx(0.214, abs=0.02)


def test_pixels_are_as_distinct_as_the_note_s_sphere_and_the_code_s():
    pos = grid(28, 28)
    for variant, many in (("open", 784), ("code", 757)):
        scheme = SCPE(28, variant=variant)
        assert pictures.distinct(scheme.embed(scheme.prepare(pos))) == many


def test_multiplied_pictures_are_those_of_the_network(tmp_path, fashion, small):
    store = Store(tmp_path / "runs")
    (unit,) = run(studies.Request(preset="quick", schemes=["torus times"], panels=["over"], data=fashion), store)
    made = Classifier(unit, store.root)
    made.model.load_state_dict(store.read(unit.key).weights)
    np.testing.assert_allclose(store.arrays(unit.key)["over"], made.model.over().detach(), rtol=1e-6)
    assert pictures._bytes(np.array([[[0.0, 5.0]]])).tolist() == [[[0], [255]]]
    assert pictures._bytes(np.ones((1, 1, 2))).tolist() == [[[128], [128]]]
    assert pictures._four([np.eye(3)[None], None]).shape == (8, 8, 3)


# claims --------------------------------------------------------------------------------------------------------------


def made_up(levels, metric="accuracy", setting="main", seeds=5):
    """Rows of a store: each label's level, with what a seed adds to all."""
    noise = np.random.default_rng(0).normal(0, 0.0005, (len(levels), seeds))
    return [
        {"study": "sc-pe", "preset": "quick", "setting": setting, "seed": seed, "metric": metric,
         "scheme": label if setting == "main" else f"{label}, {setting}",
         "value": level + 0.01 * seed + noise[place, seed]}
        for place, (label, level) in enumerate(levels.items()) for seed in range(seeds)
    ]  # fmt: skip


def verdict(name, *found):
    (claim,) = [claim for claim in CLAIMS if claim.name == name]
    return judge_claim(claim, [row for rows_ in found for row in rows_]).verdict


def test_rows_beside_the_features_help_or_their_padding_does():
    name = "rows beside the features help on Fashion-MNIST"
    base = {"as-published": 0.90, "plain": 0.88, "plain-padded": 0.88, "constant-padded": 0.88}
    assert verdict(name, made_up(base)) == "upheld"
    assert verdict(name, made_up({**base, "plain-padded": 0.91})) == "not upheld"
    assert verdict(name, made_up({**base, "constant-padded": 0.90})) == "cannot be told"
    assert verdict(name, made_up({**base, "constant-padded": 0.90})[:15]) == "not measured"
    cifar = {"code-slow": 0.65, "plain": 0.60, "plain-slow": 0.62, "code": 0.64, "constant": 0.61}
    name = "rows beside the features help on CIFAR-10"
    assert verdict(name, made_up(cifar, setting=presets.CIFAR)) == "upheld"
    assert verdict(name, made_up({**cifar, "plain-slow": 0.66}, setting=presets.CIFAR)) == "not upheld"
    assert verdict(name, made_up(cifar)) == "not measured"
    name = "on CIFAR-10 rows learn the training pictures less well"
    learned = {"plain": 0.9, "code-slow": 0.8, "plain-slow": 0.8, "code": 0.9}
    assert verdict(name, made_up(learned, "accuracy_train", presets.CIFAR)) in ("not upheld", "cannot be told")
    apart = {"plain": 0.9, "code-slow": 0.7, "plain-slow": 0.8, "code": 0.8}
    assert verdict(name, made_up(apart, "accuracy_train", presets.CIFAR)) == "upheld"


def test_alike_is_within_a_point():
    name = "with and without rows, all in all the same"
    same = {"as-published": 0.9, "plain": 0.897, "plain-padded": 0.898, "code": 0.9}
    assert verdict(name, made_up(same)) == "upheld"
    assert verdict(name, made_up({**same, "plain": 0.87})) == "not upheld"
    name = "against the author's guess: the head's first weights do not decide"
    heads = {"code": 0.9, "code x 10": 0.901, "code x 0.1": 0.899, "code x 0": 0.9}
    assert verdict(name, made_up(heads)) == "upheld"
    assert verdict(name, made_up({**heads, "code x 10": 0.95})) == "not upheld"


def test_pixels_times_rows_and_the_transformer():
    name, tested = "pixels times rows are learned better and tested alike", made_up({"note times": 0.9, "plain": 0.9})
    learned = {"note times": 0.98, "plain": 0.96, "mask": 0.97}
    assert verdict(name, tested, made_up(learned, "accuracy_train")) == "upheld"
    assert verdict(name, tested, made_up({**learned, "mask": 0.99}, "accuracy_train")) == "not upheld"
    name = "in a transformer the sphere learns more smoothly than the sinusoid"
    bends = {"sphere, in line": 0.1, "sinusoid, in line": 0.2, "sphere": 0.1, "sinusoid": 0.2, "nope": 0.3}
    assert verdict(name, made_up(bends, "roughness", presets.TRANSFORMER)) == "upheld"
    assert verdict(name, made_up({**bends, "nope": 0.0}, "roughness", presets.TRANSFORMER)) == "not upheld"


def test_claims_point_at_panels_that_there_are():
    for claim in CLAIMS:
        assert set(claim.command.split("--panels ")[1].split()) <= set(PLANS)
        assert claim.lang == "zh-Hans"
    titles = {"Beside the features", "How large the head starts", "Times the pixels", "In a transformer",
              "Rates crossed, CIFAR-10"}  # fmt: skip
    assert {claim.panel for claim in CLAIMS} == titles
    assert studies.find("sc-pe") is STUDY
    assert {a for a, _, _ in drawing.DECIDES} | {b for _, b, _ in drawing.DECIDES} <= set(rows.BESIDE)


@pytest.mark.data
def test_two_steps_on_fashion_mnist(tmp_path, data_folder):
    store = Store(tmp_path / "runs")
    (unit, *_) = STUDY.plan(studies.Request(preset="quick", schemes=["as-published"], data=data_folder), store)
    made = Classifier(unit, store.root)
    assert (made.pictures.train, made.pictures.test, made.pictures.shape) == (10_000, 10_000, (1, 28, 28))
    assert made.training.optimiser == "adam"
    batch = torch.arange(256)
    before = float(made.loss(batch).detach())
    optimiser = torch.optim.Adam(made.model.parameters(), lr=made.training.lr)
    for _ in range(2):
        optimiser.zero_grad()
        made.loss(batch).backward()
        optimiser.step()
    assert float(made.loss(batch).detach()) < before
