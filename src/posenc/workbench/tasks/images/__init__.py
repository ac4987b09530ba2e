"""Image classification: data sets, train/validation/test splits, augmentation and scores.

An `ImageSet` has uint8 images ``(C, H, W)`` of one size, with one class label each. The readers of
``posenc.workbench.data`` find them: images that are arrays (IDX, batches of CIFAR) are held in memory, and image files
(class folders, a packed ``.npz``) are decoded once and memory-mapped from a cache on disk.

Example, without any file:

>>> import numpy as np; import torch
>>> pixels = np.zeros((20, 1, 4, 4), np.uint8); pixels[10:] = 255
>>> shades = ImageSet.from_arrays("shades", ("black", "white"), pixels, np.repeat([0, 1], 10))
>>> splits = split(shades, validation=0.25, share=0.2, seed=0)  # stratified by class
>>> len(splits.train), len(splits.validation), len(splits.test), splits.train.counts.tolist()
(12, 4, 4, [6, 6])
>>> indices = torch.arange(3)
>>> augment = Augment(Augmentation(smoothing=0.1), classes=2)
>>> x, targets = augment(splits.train.read(indices), splits.train.labels[indices], seed=0, step=0)
>>> x.shape, x.unique().tolist(), targets[0].tolist()  # -1 is black
(torch.Size([3, 1, 4, 4]), [-1.0], [0.949999988079071, 0.05000000074505806])
>>> score(torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 1, 1]))["accuracy-per-class"]
0.75

References:
    Fashion-MNIST: Xiao, Rasul, Vollgraf 2017, arXiv 1708.07747. CIFAR: Krizhevsky 2009. Caltech-101: Fei-Fei, Fergus,
    Perona 2004, used here without one of its classes.
"""

from __future__ import annotations

from posenc.workbench.tasks.images.augmentation import IMAGENET, Augment, Augmentation
from posenc.workbench.tasks.images.data_sets import LOCATIONS, image_record, load_images, source_files, with_parts
from posenc.workbench.tasks.images.download import FASHION_MNIST, cache_folder, download_files
from posenc.workbench.tasks.images.image_set import ImageSet, Splits
from posenc.workbench.tasks.images.scores import balanced_accuracy, score
from posenc.workbench.tasks.images.splits import split, stratified_order

__all__ = [
    "FASHION_MNIST",
    "IMAGENET",
    "LOCATIONS",
    "Augment",
    "Augmentation",
    "ImageSet",
    "Splits",
    "balanced_accuracy",
    "cache_folder",
    "download_files",
    "image_record",
    "load_images",
    "score",
    "source_files",
    "split",
    "stratified_order",
    "with_parts",
]  # fmt: skip
