"""Labelled pictures to classify: read, divided, changed at random, scored.

Every reader makes an ``ImageSet``: uint8 ``(C, H, W)`` of one size and a class for each. What is an array already (IDX,
CIFAR's batches) is held in memory; what is files of its own (class folders, a packed ``.npz``) is decoded once and
mapped from a cache on disk.

A worked example, without any file:

>>> import numpy as np; import torch
>>> pixels = np.zeros((20, 1, 4, 4), np.uint8); pixels[10:] = 255
>>> both = ImageSet.of("shades", ("black", "white"), pixels, np.repeat([0, 1], 10))
>>> parts = split(both, validation=0.25, share=0.2, seed=0)  # every class in proportion
>>> len(parts.train), len(parts.validation), len(parts.test), parts.train.counts.tolist()
(12, 4, 4, [6, 6])
>>> numbers = torch.arange(3)
>>> ready = Augment(Augmentation(smoothing=0.1), classes=2)
>>> x, targets = ready(parts.train.read(numbers), parts.train.labels[numbers], seed=0, step=0)
>>> x.shape, x.unique().tolist(), targets[0].tolist()  # -1 is black
(torch.Size([3, 1, 4, 4]), [-1.0], [0.949999988079071, 0.05000000074505806])
>>> score(torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1, 1]))["accuracy-per-class"]
0.75

Sources of the sets by name: Fashion-MNIST, Xiao et al. 2017, arXiv 1708.07747; CIFAR, Krizhevsky 2009; Caltech-101,
Fei-Fei et al. 2004, less one class.
"""

from __future__ import annotations

from posenc.tasks.images.augmenting import IMAGENET, Augment, Augmentation
from posenc.tasks.images.downloading import FASHION_MNIST, cache_folder, fetch
from posenc.tasks.images.finding import PLACES, find
from posenc.tasks.images.image_set import ImageSet, Parts
from posenc.tasks.images.scores import mean_of_classes, score
from posenc.tasks.images.splitting import fair_order, split

__all__ = [
    "FASHION_MNIST", "IMAGENET", "PLACES", "Augment", "Augmentation", "ImageSet", "Parts", "cache_folder", "fair_order",
    "fetch", "find", "mean_of_classes", "score", "split",
]  # fmt: skip
