"""Train, validation and test splits, stratified by class and reproducible from a seed."""

from __future__ import annotations

import numpy as np

from posenc.workbench.tasks.images.image_set import ImageSet, Splits


def stratified_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """Random order of ``(N,)`` labels in which every prefix has each class in proportion, to one image.

    Image r of the n_c images of class c is sorted by r / n_c. A prefix with as many images as there are classes has one
    of each. Subsets from one seed are nested.
    """
    noise = np.random.Generator(np.random.Philox(key=seed)).random(len(labels))
    by_class = np.lexsort((noise, labels))
    counts = np.bincount(labels)
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    sorted_labels = labels[by_class]
    place = np.empty(len(labels))
    place[by_class] = (np.arange(len(labels)) - first[sorted_labels]) / counts[sorted_labels]
    return np.lexsort((noise, place))


def split(
    images: ImageSet,
    test: ImageSet | None = None,
    *,
    validation: float = 0.1,
    share: float = 0.2,
    count: int | None = None,
    seed: int = 0,
) -> Splits:
    """Divide a set into train, validation and test splits, stratified by class.

    Args:
        images: The set to divide.
        test: The set's own test split. Without one, ``share`` of the images become the test split.
        validation: Share of the remaining images that become the validation split; 0 for none.
        share: Share of all images for the test split, where ``test`` is None.
        count: Number of training images to use; None for all.
        seed: Seed of the random order.

    Returns:
        The three splits.

    Raises:
        ValueError: A split would be empty, or the training split would lack a class.
    """
    for name, part in (("validation", validation), ("share", share)):
        if not 0 <= part < 1:
            raise ValueError(f"{name} is a share of the images, at least 0 and below 1; got {part:g}.")
    order, given = stratified_order(images.labels.numpy(), seed), test is not None
    if test is None:
        remaining = len(order) - round(share * len(order))
        order, test = order[:remaining], images.take(np.sort(order[remaining:]))
    remaining = len(order) - round(validation * len(order))
    order, rest = order[:remaining], order[remaining:]
    most = len(order)
    if count is not None:
        if not 1 <= count <= most:
            raise ValueError(f"{images.name} has {most} images to learn from; got images={count}.")
        order = order[:count]
    if len(np.unique(images.labels.numpy()[order])) < len(images.classes) or not len(test):
        raise ValueError(
            f"{images.name} has {len(images)} images of {len(images.classes)} classes: too few for {len(order)} to "
            f"learn from with every class, and {len(test)} to test with. Add images, or ask for a larger part."
        )
    return Splits(images.take(np.sort(order)), images.take(np.sort(rest)), test, given)
