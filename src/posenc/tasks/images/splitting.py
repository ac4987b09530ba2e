"""Parts of a set by a seed: each has every class in proportion, and the same seed gives the same parts everywhere."""

from __future__ import annotations

import numpy as np

from posenc.tasks.images.image_set import ImageSet, Parts


def fair_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """A random order of ``(N,)`` labels in which every beginning has each class in proportion, to one picture.

    Picture r of the n_c of class c stands at r / n_c; a beginning of as many pictures as there are classes has all of
    them. Subsets of one seed lie within each other.
    """
    noise = np.random.Generator(np.random.Philox(key=seed)).random(len(labels))
    by_class = np.lexsort((noise, labels))
    counts = np.bincount(labels)
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    own = labels[by_class]
    place = np.empty(len(labels))
    place[by_class] = (np.arange(len(labels)) - first[own]) / counts[own]
    return np.lexsort((noise, place))


def split(
    images: ImageSet,
    test: ImageSet | None = None,
    *,
    validation: float = 0.1,
    share: float = 0.2,
    count: int | None = None,
    seed: int = 0,
) -> Parts:
    """Train, validation and test parts of a set, stratified, by a seed.

    test: the set's own test part; without one, ``share`` of the pictures become it. validation: the share of the
    others that is kept to choose by, 0 for none. count: learn from so many pictures alone. Raises ValueError where a
    part would be empty or lack a class to learn.
    """
    for name, part in (("validation", validation), ("share", share)):
        if not 0 <= part < 1:
            raise ValueError(f"{name} is a share of the pictures, at least 0 and below 1; got {part:g}.")
    order = fair_order(images.labels.numpy(), seed)
    if test is None:
        kept = len(order) - round(share * len(order))
        order, test = order[:kept], images.take(np.sort(order[kept:]))
    kept = len(order) - round(validation * len(order))
    order, rest = order[:kept], order[kept:]
    most = len(order)
    if count is not None:
        if not 1 <= count <= most:
            raise ValueError(f"{images.name} has {most} pictures to learn from; got images={count}.")
        order = order[:count]
    if len(np.unique(images.labels.numpy()[order])) < len(images.classes) or not len(test):
        raise ValueError(
            f"{images.name} has {len(images)} pictures of {len(images.classes)} classes: too few for {len(order)} to "
            f"learn from with every class, and {len(test)} to test with. Add pictures, or ask for a larger part."
        )
    return Parts(images.take(np.sort(order)), images.take(np.sort(rest)), test)
