"""A unit that classifies pictures: its data kept and known again, what it learns, measures and draws."""

import dataclasses
import math
from pathlib import Path

import msgspec
import pytest
import torch

from drawn_pictures import write_idx
from posenc.lookup.scheme_text import parse
from posenc.models.lenet import LeNetConfig
from posenc.models.vision import VisionConfig
from posenc.models.vision_stage import Options, StageConfig
from posenc.models.vit import LITERAL
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared import classification, image_data, page_records
from posenc.workbench.studies.shared.classification import Classifier, LeNetSpec, TransformerSpec
from posenc.workbench.studies.shared.image_sizes import accuracy_at
from posenc.workbench.tasks.images import Augmentation, score
from posenc.workbench.training.config import Plateau
from posenc.workbench.training.loop import TrainingConfig, train

TRAINING = TrainingConfig(epochs=2, batch=20, lr=1e-3, evaluate_every=1)
MIXED = Augmentation(mixup=0.8, cutmix=1.0, smoothing=0.1)
STAGE = StageConfig(dim=24, depth=2, heads=2, hidden=24, patch=7)


def vision(scheme: str, options: Options | None = None) -> TransformerSpec:
    config = VisionConfig(image=(28, 28), classes=10, channels=1, stages=(STAGE,), options=options or Options())
    return TransformerSpec(config=config, scheme=parse(scheme))


def unit_of(
    root: Path, data: Path, row: classification.ModelSpec, *, seed: int = 0, training=TRAINING, augmentation=None
) -> RunSpec:
    pictures = image_data.record_images(root, "fashion-mnist", data, size=None, images=None)
    settings = classification.classification_settings(row, pictures, training, augmentation or Augmentation(), "cpu")
    return classification.TRAIN.spec(study="x", preset="quick", variant="row", seed=seed, settings=settings)


LENET = LeNetSpec(config=LeNetConfig())


# pictures ------------------------------------------------------------------------------------------------------------


def test_pictures_are_found_again_and_known(tmp_path, fashion):
    kept = image_data.record_images(tmp_path, "fashion-mnist", fashion, size=None, images=None)
    assert (kept.name, kept.classes, kept.shape, kept.train, kept.test) == ("fashion-mnist", 10, (1, 28, 28), 60, 20)
    assert kept.bytes == 80 * 784
    parts = image_data.read_images(tmp_path, kept)
    assert len(parts.train) == 60
    smaller = image_data.record_images(tmp_path, "fashion-mnist", fashion, size=32, images=30)
    assert (smaller.shape, smaller.train, smaller.test) == ((1, 32, 32), 30, 20)
    assert smaller.digest != kept.digest
    assert image_data.read_images(tmp_path, smaller).train.counts.tolist() == [3] * 10
    # fewer pictures than a preset would learn from are all that there are
    assert image_data.record_images(tmp_path, "fashion-mnist", fashion, size=None, images=10_000) == kept


def test_pictures_that_are_gone_or_changed_are_said(tmp_path, fashion):
    kept = image_data.record_images(tmp_path, "fashion-mnist", fashion, size=None, images=None)
    write_idx(fashion / "fashion_mnist", seed=5)
    with pytest.raises(ValueError, match=r"have changed since this store was begun. Put the former ones back, or"):
        image_data.read_images(tmp_path, kept)
    (fashion / "fashion_mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match="lacks t10k-labels-idx1-ubyte"):
        image_data.read_images(tmp_path, kept)
    (tmp_path / "data" / f"images-{kept.digest}.json").unlink()
    with pytest.raises(ValueError, match=r"names the folder of fashion-mnist, cannot be read. Run the same command"):
        image_data.read_images(tmp_path, kept)
    with pytest.raises(ValueError, match=r"cifar-10 is not at .* your own copy"):
        image_data.record_images(tmp_path, "cifar-10", fashion, size=None, images=None)


def test_what_could_not_be_read_is_said_again_by_the_store(tmp_path, class_folders):
    (class_folders / "class 0" / "torn.png").write_bytes(b"")
    torn = image_data.record_images(tmp_path, class_folders, None, size=32, images=None)
    settings = {"pictures": msgspec.to_builtins(torn), "dataset": image_data.dataset_key(tmp_path, torn)}
    specs = [
        classification.TRAIN.spec(study="x", preset="quick", variant="row", seed=seed, settings=settings)
        for seed in range(2)
    ]
    sentence = "1 image of own does not decode and was left out: class 0/torn.png."
    described, *lacking = page_records.sentences(Store(tmp_path), specs)
    assert lacking == [sentence]
    assert described.startswith("Data: own (images, digest ")
    assert described.endswith(
        "Training: 36 images. Test: 9 images. 3 classes. Size: 32 x 32 pixels (width x height). Channels: "
        "3. Shape: the middle square, without the ends of the longer side. Transparency: laid on white."
    )


# a unit --------------------------------------------------------------------------------------------------------------


def test_what_is_measured_is_what_the_pictures_say(tmp_path, fashion):
    spec = unit_of(tmp_path, fashion, LENET)
    made = Classifier(spec, tmp_path)
    made.model.eval()
    found, every = made.evaluate(made.splits.test, 20), torch.arange(20)
    pixels = made.splits.test.read(every).float() / 127.5 - 1
    told = score(made.model(pixels), made.splits.test.labels)
    assert found["accuracy"] == told["accuracy"]
    assert found["loss"] == pytest.approx(told["loss"], rel=1e-5)
    assert found.keys() == {"accuracy", "accuracy_top5", "accuracy_per_class", "loss", "accuracy_train"}
    assert made.evaluate_some() == found  # so few pictures are all asked about
    assert classification.scored_while_learning(20_000, 10_000) == 1000


def test_a_unit_learns_where_the_square_is(tmp_path, fashion):
    training = msgspec.structs.replace(TRAINING, epochs=15, lr=5e-3)
    spec = unit_of(tmp_path, fashion, LENET, training=training)
    outcome = classification.train(spec, Store(tmp_path).workdir(spec), lambda *_: None)
    assert outcome.metrics["accuracy"] > 0.9
    assert outcome.metrics["parameters"] == 44_426
    assert [row["epoch"] for row in outcome.curves if row["metric"] == "accuracy"] == list(range(16))
    assert outcome.arrays == {}


@pytest.mark.parametrize(
    "row",
    [
        LeNetSpec(config=LeNetConfig(placement="pixels"), scheme=parse("SCPE(hidden=(8,))")),
        vision("GridDeep(literal=True)", LITERAL),
        vision("GridPE(extent=4.0)"),
    ],
    ids=["pixels", "literal", "simplex"],
)
def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path, fashion, row):
    spec = unit_of(tmp_path, fashion, row, augmentation=MIXED)

    undisturbed, workdir = tmp_path / "work" / "a", tmp_path / "work" / "b"
    undisturbed.mkdir(parents=True)
    workdir.mkdir()
    whole = classification.train(spec, undisturbed, lambda *_: None)
    made = Classifier(spec, tmp_path)

    def until(at, batch):
        if at.step == 4:  # in the middle of the second epoch
            raise KeyboardInterrupt
        return made.loss_at(at, batch)

    with torch.random.fork_rng(), pytest.raises(KeyboardInterrupt):
        train(
            dataclasses.replace(made.fit(), loss_at=until), made.training, seed=0, workdir=workdir, checkpoint_steps=1
        )
    again = classification.train(spec, workdir, lambda *_: None)
    assert again.metrics == pytest.approx(whole.metrics, rel=0, abs=0, nan_ok=True)
    assert again.curves == whole.curves
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_a_seed_decides_weights_and_pictures(tmp_path, fashion):
    one, same, other = (Classifier(unit_of(tmp_path, fashion, LENET, seed=s), tmp_path) for s in (0, 0, 1))
    assert torch.equal(one.model.fc1.weight, same.model.fc1.weight)
    assert not torch.equal(one.model.fc1.weight, other.model.fc1.weight)


def test_what_was_released_draws_anew_and_equations_do_not(tmp_path, fashion):
    for scheme, options, redraws in (
        ("GridRotate(literal=True)", LITERAL, True),
        ("GridMerge(literal=True)", LITERAL, True),
        ("GridRotate", None, False),
        ("GridDeep", None, False),
    ):
        made = Classifier(unit_of(tmp_path, fashion, vision(scheme, options)), tmp_path)
        made.model.eval()
        x = made.augment.evaluate(made.splits.test.read(range(3)))
        with torch.no_grad():
            assert torch.equal(made.model(x), made.model(x)) is not redraws, scheme


def test_attention_is_measured(tmp_path, fashion):
    outcome = Classifier(unit_of(tmp_path, fashion, vision("GridPE(extent=4.0)")), tmp_path).result([])
    metrics, stages = outcome.metrics, outcome.arrays
    assert stages["distance"].shape == stages["entropy"].shape == (2, 2)
    assert 0 < metrics["attention_distance"] < 3 * math.sqrt(2)
    assert 0 < metrics["attention_entropy"] <= math.log2(17)
    assert math.isnan(metrics["roughness"])


def sizes_of(tmp_path, fashion, row):
    """Accuracy at half, the same and twice the size, by ten pictures."""
    made = Classifier(unit_of(tmp_path, fashion, row), tmp_path)
    made.model.eval()
    return [accuracy_at(made, made.held_out(10), scale) for scale in (0.5, 1.0, 2.0)]


def test_other_sizes_are_asked_about_where_an_encoding_reaches(tmp_path, fashion):
    tenths = [n / 10 for n in range(11)]
    assert all(told in tenths for told in sizes_of(tmp_path, fashion, vision("RoPE")))
    *reached, beyond = sizes_of(tmp_path, fashion, vision("SCPE(n=4)", Options(project=(8,))))
    assert all(told in tenths for told in reached)
    assert beyond is None
    counted = sizes_of(tmp_path, fashion, vision("NoPE", msgspec.structs.replace(LITERAL, tables=True)))
    assert all(told in tenths for told in counted)  # the row of the class token stays, the others are interpolated


def test_products_of_a_transformer_are_bfloat16_where_its_unit_says_so(tmp_path, fashion):
    pictures = image_data.record_images(tmp_path, "fashion-mnist", fashion, size=None, images=None)
    row, training = vision("RoPE"), msgspec.structs.replace(TRAINING, epochs=1)
    settled = [
        classification.classification_settings(r, pictures, training, Augmentation(), "cuda") for r in (row, LENET)
    ]
    assert [settings.get("precision") for settings in settled] == ["bfloat16", None]
    losses = []
    for precision in ("float32", "bfloat16"):
        spec = unit_of(tmp_path, fashion, row, training=training)
        spec = msgspec.structs.replace(spec, settings=spec.settings | {"precision": precision})
        outcome = classification.train(spec, Store(tmp_path).workdir(spec), lambda *_: None)
        losses += [r["value"] for r in outcome.curves if r["metric"] == "loss_train"]
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.02)


def test_roughness_is_the_mean_bend() -> None:
    curve = [{"epoch": e, "metric": "loss_train", "value": v} for e, v in enumerate((4.0, 2.0, 1.0, 1.0))]
    assert classification.roughness(curve) == 1.0
    assert classification.roughness([{**row, "value": 1.0 - row["epoch"] / 4} for row in curve]) == 0.0
    assert math.isnan(classification.roughness(curve[:2]))


def test_a_cosine_ends_with_the_training_however_many_pictures_there_are(tmp_path, fashion):
    pictures = image_data.record_images(tmp_path, "fashion-mnist", fashion, size=None, images=None)
    found = classification.with_cosine_decay(msgspec.structs.replace(TRAINING, epochs=8), pictures)
    assert (found.warmup_steps, found.decay_steps) == (3, 24)
    assert found.rate(23) < 0.01 * found.lr
    many = classification.with_cosine_decay(msgspec.structs.replace(TRAINING, epochs=100), pictures)
    assert (many.warmup_steps, many.decay_steps) == (15, 300)


def test_the_estimate_counts_what_is_measured_and_leaves_no_trace(tmp_path, fashion):
    spec, threads, state = unit_of(tmp_path, fashion, LENET), torch.get_num_threads(), torch.get_rng_state()
    assert 0 < classification.run_seconds(spec, Store(tmp_path)) < 60
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    on_cpu = classification.memory_bytes(spec)
    assert torch.equal(torch.get_rng_state(), state)
    batch = spec.settings["training"]["batch"]
    larger = {**spec.settings, "training": {**spec.settings["training"], "batch": 2 * batch}}
    more = classification.memory_bytes(msgspec.structs.replace(spec, settings=larger)) - on_cpu
    images, parameters = 2 * 80 * 784, sum(p.nbytes for p in LENET.model().parameters())
    assert on_cpu - images - classification.STATES * parameters == pytest.approx(more, rel=0.01), "the activations"
    assert more > batch * 4 * 784, "at least the images as numbers"
    on_gpu = msgspec.structs.replace(spec, settings={**spec.settings, "device": "cuda"})
    assert classification.memory_bytes(on_gpu) == images


# what does not fit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (vision("SCPE"), r"SCPE makes rows of width 3 and the model adds them to tokens of width 24"),
        (vision("RoPE(head_dim=8)"), r"RoPE acts on heads of width 8 and the model's have 12"),
        (LeNetSpec(config=LeNetConfig(placement="features"), scheme=parse("RoPE")), "no attention, and RoPE acts"),
        (LeNetSpec(config=LeNetConfig(placement="pixels"), scheme=parse("SCPE")), "one number, and SCPE gives 3"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_before_anything_is_trained(tmp_path, fashion, row, sentence):
    with pytest.raises(ValueError, match=sentence):
        unit_of(tmp_path, fashion, row)


def test_pictures_of_other_colours_than_a_recipe_are_said_before_anything_is_trained(tmp_path, fashion):
    with pytest.raises(ValueError, match="mean has 3 colors and the images have 1"):
        unit_of(tmp_path, fashion, LENET, augmentation=Augmentation(mean=(0.5,) * 3, std=(0.5,) * 3))


def test_a_plateau_waits_for_what_is_measured(tmp_path, fashion):
    plateau = Plateau(metric="accuracy", mode="max", factor=0.5, patience=0)
    training = msgspec.structs.replace(TRAINING, lr=1e-12, epochs=3, plateau=plateau)
    spec = unit_of(tmp_path, fashion, LENET, training=training)
    outcome = classification.train(spec, Store(tmp_path).workdir(spec), lambda *_: None)
    assert len({row["value"] for row in outcome.curves if row["metric"] == "accuracy"}) == 1
