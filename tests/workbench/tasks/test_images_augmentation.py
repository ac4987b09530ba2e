"""Pictures are changed at random as the papers say, by (seed, step) alone, and by nothing when they are evaluated."""

import builtins

import numpy as np
import pytest
import torch

from posenc.workbench.tasks.images import IMAGENET, Augment, Augmentation
from posenc.workbench.tasks.images.augmentation import OPERATIONS
from posenc.workbench.tasks.images.mixup import mix_batch, soft_targets

pytest.importorskip("kornia")
DRAW = torch.Generator
EVERYTHING = Augmentation(
    size=24, crop="resized", flip=0.5, operations=2, erasing=0.5, mixup=0.8, cutmix=1.0, smoothing=0.1
)


def pictures(count=12, channels=3, side=32, seed=0):
    return torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8, generator=DRAW().manual_seed(seed))


def labels(count=12, classes=5):
    return torch.arange(count) % classes


@pytest.mark.parametrize("channels", [1, 3])
def test_everything_at_once_gives_floats_and_targets(channels):
    x, targets = Augment(EVERYTHING, 5)(pictures(channels=channels), labels(), seed=0, step=0)
    assert x.shape == (12, channels, 24, 24)
    assert x.dtype == torch.float32
    assert x.is_contiguous()
    assert -1 <= x.min() < -0.5 < 0.5 < x.max() <= 1.00001
    assert torch.allclose(targets.sum(1), torch.ones(12))
    assert (targets > 0).all()


def test_chance_is_a_function_of_seed_step_and_part_alone():
    ready, images = Augment(EVERYTHING, 5), pictures()
    first, targets = ready(images, labels(), seed=3, step=7)
    ready(images, labels(), seed=3, step=8)
    torch.rand(5)
    again, same = Augment(EVERYTHING, 5)(images, labels(), seed=3, step=7)
    assert torch.equal(first, again)
    assert torch.equal(targets, same)
    for other in ({"seed": 4, "step": 7}, {"seed": 3, "step": 8}, {"seed": 3, "step": 7, "part": 1}):
        assert not torch.equal(ready(images, labels(), **other)[0], first)


def test_the_global_generator_is_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Augment(EVERYTHING, 5)(pictures(), labels(), seed=0, step=0)
    assert torch.equal(torch.rand(3), expected)


def test_pictures_given_are_left_alone():
    images = pictures()
    before = images.clone()
    Augment(EVERYTHING, 5)(images, labels(), seed=0, step=0)
    assert torch.equal(images, before)


def test_the_order_of_memory_does_not_matter():
    images = pictures()
    ready = Augment(EVERYTHING, 5)
    x, _ = ready(images, labels(), seed=0, step=0)
    y, _ = ready(images.to(memory_format=torch.channels_last), labels(), seed=0, step=0)
    assert torch.equal(x, y)


def test_nothing_but_scaling_by_default():
    images = pictures()
    ready = Augment(Augmentation(), 5)
    x, targets = ready(images, labels(), seed=0, step=0)
    assert torch.equal(x, images.float() / 255 * 2 - 1) or torch.allclose(x, images.float() / 127.5 - 1, atol=1e-6)
    assert torch.equal(targets, torch.nn.functional.one_hot(labels(), 5).float())
    assert torch.equal(ready.evaluate(images), x)


def test_evaluation_cuts_the_centre_or_resizes_and_normalises_by_colour():
    mean, std = IMAGENET
    images = pictures()
    x = Augment(Augmentation(size=20, mean=mean, std=std), 5).evaluate(images)
    cut = images[:, :, 6:26, 6:26].float() / 255
    assert torch.allclose(x, (cut - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1), atol=1e-6)
    flat = torch.full((2, 1, 28, 28), 51, dtype=torch.uint8)
    x = Augment(Augmentation(size=32, fit="resized", mean=(0.0,), std=(1.0,)), 5).evaluate(flat)
    assert x.shape == (2, 1, 32, 32)
    assert torch.allclose(x, torch.full_like(x, 0.2))


def test_a_padded_crop_is_a_shift_with_black_around():
    images = pictures(count=40, side=8).clamp(1)
    raw = Augmentation(size=8, crop="padded", padding=2, mean=(0.0,), std=(1.0,))
    x, _ = Augment(raw, 5)(images, labels(40), seed=0, step=0)
    x = (x * 255).round().byte()
    around = torch.nn.functional.pad(images, (2, 2, 2, 2))
    seen = set()
    for picture, original in zip(x, around, strict=True):
        places = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if torch.equal(picture, original[:, top : top + 8, left : left + 8])
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) > 10


def test_a_resized_crop_is_a_part_of_the_picture():
    ramp = torch.arange(64, dtype=torch.uint8).mul(4).expand(30, 1, 64, 64)  # the value says the column
    config = Augmentation(size=16, crop="resized", scale=(0.1, 0.5), mean=(0.0,), std=(1.0,))
    x, _ = Augment(config, 5)(ramp, labels(30), seed=0, step=0)
    width = (x[..., -1] - x[..., 0]).mean((1, 2)) * 255 / 4 / 15 * 16  # columns that a picture spans
    assert width.min() > 64 * (0.1 * 3 / 4) ** 0.5 - 3
    assert width.max() < 64 * (0.5 * 4 / 3) ** 0.5 + 3
    assert width.std() > 3


def test_half_are_mirrored():
    images = pictures(count=400, side=4)
    x, _ = Augment(Augmentation(flip=0.5, mean=(0.0,), std=(1.0,)), 5)(images, labels(400), seed=0, step=0)
    x = (x * 255).round().byte()
    mirrored = (x == images.flip(-1)).flatten(1).all(1)
    same = (x == images).flatten(1).all(1)
    assert (mirrored ^ same).all()
    assert 160 < mirrored.sum() < 240


def test_each_picture_has_its_own_operations():
    images = pictures(count=1).expand(60, -1, -1, -1)
    x, _ = Augment(Augmentation(operations=1), 5)(images, labels(60), seed=0, step=0)
    assert len({row.numpy().tobytes() for row in x}) > len(OPERATIONS) / 2
    y, _ = Augment(Augmentation(operations=2), 5)(images, labels(60), seed=0, step=0)
    assert len({row.numpy().tobytes() for row in y}) > 30


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_every_operation_changes_a_picture_and_stays_in_range(number, channels):
    ready = Augment(Augmentation(operations=1), 5)
    name, operation = ready.operations[number]
    if name == "color" and channels == 1:
        return
    x = (pictures(count=3, channels=channels).float() / 255) * 0.5 + 0.2
    y = operation(x)
    assert y.shape == x.shape
    assert torch.isfinite(y).all()
    assert not torch.allclose(x, y, atol=1e-3)
    assert y.clamp(0, 1).sub(y).abs().max() < 0.3


def test_a_shear_is_the_papers():
    ready = Augment(Augmentation(operations=1, magnitude=29.999), 5)
    shear = dict(ready.operations)["shear_x"]
    x = torch.zeros(1, 1, 65, 65)
    x[..., 32] = 1.0
    columns = shear(x)[0, 0].argmax(1).float()
    middle = columns[20:45]
    slope = (middle[-1] - middle[0]).abs() / 24
    assert slope == pytest.approx(0.3, abs=0.05)


def test_erasing_leaves_the_mean_colour():
    images = torch.full((50, 3, 16, 16), 255, dtype=torch.uint8)
    x, _ = Augment(Augmentation(erasing=1.0), 5)(images, labels(50), seed=0, step=0)
    erased = (x == 0).all(1).flatten(1).sum(1) / 256
    assert set(x.unique().tolist()) == {0.0, 1.0}
    assert (erased > 0).all()
    assert erased.max() < 0.45


# mixing ------------------------------------------------------------------------------------------------------------


def test_targets_are_smoothed_by_the_formula():
    assert soft_targets(torch.tensor([1]), 4, 0.2)[0].tolist() == pytest.approx([0.05, 0.85, 0.05, 0.05])


def test_mixup_is_one_share_of_pictures_and_targets():
    x = torch.arange(6.0).view(6, 1, 1, 1).expand(-1, 1, 3, 3)
    shares = []
    for seed in range(300):
        mixed, targets = mix_batch(x, torch.eye(6), 0.2, 0.0, np.random.default_rng(seed))
        assert torch.allclose(mixed[:, 0, 0, 0], targets @ torch.arange(6.0), atol=1e-5)
        rows = targets.sort(1, descending=True).values
        shares.append(float(rows[(rows[:, 0] < 0.999)][:1, 0].sum()))
    near = np.mean([share > 0.9 or share == 0 for share in shares])  # Beta(.2, .2) keeps to the ends, U(0, 1) does not
    assert near > 0.5


def test_cutmix_counts_the_pixels_that_it_moved():
    x = torch.arange(5.0).view(5, 1, 1, 1).expand(-1, 1, 12, 10)
    areas = []
    for seed in range(100):
        mixed, targets = mix_batch(x, torch.eye(5), 0.0, 1.0, np.random.default_rng(seed))
        for value in range(5):
            share = (mixed == value).float().mean((1, 2, 3))
            assert torch.allclose(share, targets[:, value], atol=1e-5)
        areas.append(float(targets.max(1).values.min()))
    assert min(areas) < 0.6
    assert max(areas) > 0.9


def test_a_coin_chooses_between_both():
    x = torch.arange(8.0).view(8, 1, 1, 1).expand(-1, 1, 16, 16)
    cut = 0
    for seed in range(100):
        mixed, _ = mix_batch(x, torch.eye(8), 0.8, 1.0, np.random.default_rng(seed))
        cut += bool((mixed == mixed.round()).all())
    assert 30 < cut < 70


# what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"flip": 1.5}, "flip is a share from 0 to 1; got 1.5"),
        ({"mixup": -1.0}, "mixup is not negative"),
        ({"operations": 2, "magnitude": 30.0}, "magnitude is above 0 and below 30"),
        ({"scale": (0.5, 0.2)}, "scale is a range of areas"),
        ({"mean": (0.5,), "std": (0.0,)}, "std above 0"),
        ({"crop": "padded"}, "needs the size that it cuts"),
    ],
)
def test_a_wrong_configuration_is_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Augmentation(**options)


def test_pictures_smaller_than_the_crop_are_refused():
    with pytest.raises(ValueError, match="28 x 28 are smaller than the crop of 32"):
        Augment(Augmentation(size=32), 5).evaluate(pictures(side=28))
    ready = Augment(Augmentation(size=40, crop="padded", padding=4), 5)
    with pytest.raises(ValueError, match="28 x 28 with 4 around are smaller than the crop of 40"):
        ready(pictures(side=28), labels(), seed=0, step=0)


def test_what_is_no_batch_of_bytes_is_refused():
    ready = Augment(Augmentation(), 5)
    with pytest.raises(ValueError, match="of uint8 and labels"):
        ready(pictures().float(), labels(), seed=0, step=0)
    with pytest.raises(ValueError, match="of uint8 and labels"):
        ready(pictures(), labels(3), seed=0, step=0)
    with pytest.raises(ValueError, match="mean has 3 colors and the images have 1"):
        Augment(Augmentation(mean=IMAGENET[0], std=IMAGENET[1]), 5).evaluate(pictures(channels=1))


def test_without_kornia_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("kornia"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"are kornia's: pip install 'posenc\[vision\]'"):
        Augment(Augmentation(flip=0.5), 5)
    Augment(Augmentation(mixup=0.5, smoothing=0.1), 5)(pictures(), labels(), seed=0, step=0)  # needs none
