"""A set of pictures: what it holds, divided by a seed, scored."""

import doctest
import math

import numpy as np
import pytest
import torch

from posenc.workbench.tasks import images as face
from posenc.workbench.tasks.images.image_set import ImageSet
from posenc.workbench.tasks.images.scores import balanced_accuracy, score
from posenc.workbench.tasks.images.splits import split, stratified_order


def test_the_worked_example():
    found = doctest.testmod(face)
    assert found.attempted > 5
    assert found.failed == 0


def some(counts=(40, 20, 10), seed=0):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    pixels = np.arange(len(labels), dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    return ImageSet.from_arrays("some", [str(i) for i in range(len(counts))], pixels, labels)


def numbers(images):
    return images.read(np.arange(len(images)))[:, 0, 0, 0].tolist()


# a set and its parts -------------------------------------------------------------------------------------------------


def test_a_set_reads_what_it_is_asked_for():
    images = some()
    part = images.take([5, 3, 60])
    assert numbers(part) == [5, 3, 60]
    assert part.labels.tolist() == images.labels[[5, 3, 60]].tolist()
    assert numbers(part.take(torch.tensor([2]))) == [60]
    assert images.shape == (1, 2, 2)
    assert images.counts.tolist() == [40, 20, 10]
    read = images.read(torch.tensor([1, 2]))
    read.zero_()  # a copy
    assert numbers(images)[1:3] == [1, 2]


def test_a_set_of_another_size_is_resized_once():
    images = some()
    larger = images.take([7, 9]).resized(5)
    assert larger.shape == (1, 5, 5)
    assert (larger.read([1]) == 9).all()
    assert images.resized(2) is images


def test_what_does_not_go_together_is_refused():
    images = some()
    with pytest.raises(ValueError, match=r"an array \(N, C, H, W\) of uint8; got float64"):
        ImageSet.from_arrays("some", ["a"], np.zeros((2, 1, 2, 2)), np.zeros(2))
    with pytest.raises(ValueError, match=r"images are \(N, C, H, W\), .* Write pixels.transpose\(0, 3, 1, 2\)"):
        ImageSet.from_arrays("some", ["a"], np.zeros((2, 8, 8, 3), np.uint8), np.zeros(2))
    with pytest.raises(ValueError, match="labels are numbers of classes"):
        ImageSet.from_arrays("some", ["a"], np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 0.9]))
    with pytest.raises(ValueError, match="70 images and 3 labels"):
        ImageSet.from_arrays("some", ["a"], images.pixels, np.zeros(3))
    with pytest.raises(ValueError, match="has label -1, but its 3 classes are numbered 0 to 2"):
        ImageSet.from_arrays("some", images.classes, images.pixels, images.labels.numpy() - 1)


def test_every_beginning_of_the_order_is_fair():
    labels = some((400, 200, 31)).labels.numpy()
    order = stratified_order(labels, 3)
    assert sorted(order) == list(range(631))
    for count in (3, 10, 100, 500):
        share = np.bincount(labels[order[:count]], minlength=3)
        assert (share >= 1).all()
        assert abs(share - count * np.array([400, 200, 31]) / 631).max() <= 2
    assert (stratified_order(labels, 3) == order).all()
    assert (stratified_order(labels, 4) != order).any()
    first = order[:3]
    assert {tuple(stratified_order(labels, seed)[:3]) for seed in range(9)} != {tuple(first)}


def test_parts_are_apart_and_stratified_and_nest():
    images = some()
    parts = split(images, validation=0.2, share=0.2, seed=1)
    held = [numbers(part) for part in (parts.train, parts.validation, parts.test)]
    assert sorted(number for part in held for number in part) == list(range(70))
    assert [len(part) for part in held] == [45, 11, 14]
    assert abs(parts.train.counts - torch.tensor([40, 20, 10]) * 45 / 70).max() < 1.5
    again = split(images, validation=0.2, share=0.2, seed=1)
    assert numbers(again.train) == held[0]
    assert numbers(split(images, validation=0.2, share=0.2, seed=2).train) != held[0]
    fewer, few = (split(images, validation=0.2, share=0.2, seed=1, count=count).train for count in (20, 10))
    assert set(numbers(few)) < set(numbers(fewer)) < set(held[0])


def test_a_test_part_of_its_own_stays_whole():
    images = some()
    parts = split(images, images.take([1, 2]), validation=0.0, seed=0)
    assert numbers(parts.test) == [1, 2]
    assert (len(parts.train), len(parts.validation)) == (70, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"validation": 1.0}, "validation is a share of the images"),
        ({"count": 71, "validation": 0.0, "share": 0.1}, "has 63 images to learn from; got images=71"),
        ({"count": 2}, "too few for 2 to learn from with every class"),
        ({"share": 0.0}, "and 0 to test with"),
    ],
)
def test_parts_that_cannot_be_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        split(some(), **options)


# scores --------------------------------------------------------------------------------------------------------------


def test_the_mean_over_classes_is_not_the_mean_over_pictures():
    labels = torch.tensor([0] * 9 + [2])
    right = labels == 0
    assert balanced_accuracy(right, labels) == pytest.approx(0.5)
    assert math.isnan(balanced_accuracy(right[:0], labels[:0]))


def test_scores_agree_with_their_definitions():
    logits = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 8
    found = score(logits, labels)
    ranks = [(row > row[label]).sum().item() for row, label in zip(logits, labels, strict=True)]
    assert found["accuracy"] == pytest.approx(np.mean([rank == 0 for rank in ranks]))
    assert found["accuracy-top5"] == pytest.approx(np.mean([rank < 5 for rank in ranks]))
    by_class = [np.mean([rank == 0 for rank in ranks[kind::8]]) for kind in range(8)]
    assert found["accuracy-per-class"] == pytest.approx(np.mean(by_class))
    own = -logits.double().log_softmax(1)[torch.arange(50), labels].mean()
    assert found["loss"] == pytest.approx(own.item())
    assert score(logits[:, :3], labels % 3)["accuracy-top5"] == 1
    with pytest.raises(ValueError, match=r"scored by N labels; got \(50, 8\) and \(3,\)"):
        score(logits, labels[:3])
