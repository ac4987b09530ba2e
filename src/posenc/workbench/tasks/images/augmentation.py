"""Data augmentation of image batches. The random numbers depend on (seed, step, part) alone.

    uint8 -> 0 .. 1 -> crop -> flip -> RandAugment -> (x - mean) / std -> erase -> mixup or CutMix

Crops, flips, RandAugment's operations and random erasing are kornia's. They run batched, on the device of the images.
kornia draws from torch's global generator. That generator is seeded here for the length of a call and restored
afterwards, so a resumed run draws the same numbers. Three things differ from kornia's own versions, on purpose:

* RandAugment draws operations for each image, as in its paper. kornia draws them once for a whole batch.
* A shear has a factor of at most 0.3, as in the paper, which is 16.7 degrees. kornia's goes up to 54 degrees.
* mixup and CutMix are those of ``mixup.py``. kornia's mixup draws its weight uniformly, not from Beta(alpha, alpha).

References:
    RandAugment: Cubuk et al. 2020, arXiv 1909.13719. Random erasing: Zhong et al. 2020, arXiv 1708.04896. The order of
    the steps: DeiT, Touvron et al. 2021, arXiv 2012.12877.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.workbench.tasks.images.image_set import resize
from posenc.workbench.tasks.images.mixup import mix_batch, soft_targets

EXTRA = "pip install 'posenc[vision]'"
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's colors (red, green, blue), as the papers on vision models use them."""
MAX_MAGNITUDE = 30
SHEAR = math.degrees(math.atan(0.3)) / 180
"""The paper's shear factor of 0.3 in kornia's unit, half turns."""
OPERATIONS: tuple[tuple[str, float, float], ...] = (
    ("auto_contrast", 0, 1), ("equalize", 0, 1), ("invert", 0, 1), ("rotate", -30.0, 30.0), ("posterize", 4.0, 8.0),
    ("solarize", 0.0, 1.0), ("solarize_add", 0.0, 0.43), ("color", 0.1, 1.9), ("contrast", 0.1, 1.9),
    ("brightness", 0.1, 1.9), ("sharpness", 0.1, 1.9), ("shear_x", -SHEAR, SHEAR), ("shear_y", -SHEAR, SHEAR),
    ("translate_x", -0.1, 0.1), ("translate_y", -0.1, 0.1),
)  # fmt: skip
"""RandAugment's operations, with kornia's names and ranges."""
COLOR_ONLY = ("color",)
"""Operations that need three color channels."""


class Augmentation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of the data augmentation. By default images are only scaled to -1 .. 1.

    Attributes:
        size: Side of the output in pixels; None keeps the size of the input.
        crop: ``padded`` adds ``padding`` black pixels on each side and cuts ``size`` at a random place. ``resized``
            cuts a random part of the area, with an aspect ratio of 3:4 to 4:3, and resizes it to ``size``. ``none``
            does the same as in evaluation.
        padding: Black pixels added on each side, for ``crop="padded"``.
        scale: Range of the part of the area that ``crop="resized"`` cuts.
        fit: How an image of another size is brought to ``size`` without a crop: ``centre`` cuts the middle, ``resized``
            resizes the whole image.
        flip: Probability of a mirror image.
        operations: RandAugment's n, the number of operations per image; 0 for none.
        magnitude: RandAugment's m, above 0 and below 30.
        erasing: Probability that a rectangle is erased to the mean color.
        mixup: alpha of Beta(alpha, alpha); 0 for none. With mixup and CutMix, each batch has one of them, by a fair
            coin.
        cutmix: alpha of Beta(alpha, alpha); 0 for none.
        smoothing: Label smoothing: this part of every target is shared equally by all classes.
        mean: Mean of each color channel, or one mean for all, on the scale 0 .. 1.
        std: Standard deviation of each color channel, or one for all, on the scale 0 .. 1.
    """

    size: int | None = None
    crop: Literal["none", "padded", "resized"] = "none"
    padding: int = 4
    scale: tuple[float, float] = (0.08, 1.0)
    fit: Literal["centre", "resized"] = "centre"
    flip: float = 0.0
    operations: int = 0
    magnitude: float = 9.0
    erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    smoothing: float = 0.0
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        for name in ("flip", "erasing", "smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1; got {getattr(self, name):g}.")
        for name in ("padding", "operations", "mixup", "cutmix"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is not negative; got {getattr(self, name):g}.")
        if self.operations and not 0 < self.magnitude < MAX_MAGNITUDE:
            raise ValueError(f"magnitude is above 0 and below {MAX_MAGNITUDE}; got {self.magnitude:g}.")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale is a range of areas within 0 .. 1; got {self.scale}. As scale=(0.08, 1.0).")
        if len(self.mean) != len(self.std) or not all(part > 0 for part in self.std):
            raise ValueError(f"mean and std have a number for each color, std above 0; got {self.mean}, {self.std}.")
        if self.crop != "none" and self.size is None:
            raise ValueError(f'crop="{self.crop}" needs the size that it cuts: Augmentation(size=32, ..).')

    @property
    def by_kornia(self) -> bool:
        """True where the configuration needs kornia."""
        return bool(self.crop != "none" or self.flip or self.operations or self.erasing)


class Augment:
    """Augmentation as a callable: ``Augment(config, classes)(images, labels, seed=.., step=..)``.

    ``evaluate`` prepares images without random changes.

    Args:
        config: The augmentation.
        classes: Number of classes.

    Raises:
        ValueError: The configuration needs kornia, and kornia is not installed.
    """

    def __init__(self, config: Augmentation, classes: int) -> None:
        self.config, self.classes = config, classes
        self.crops_and_flips: list[Any] = []
        self.operations: list[tuple[str, Any]] = []
        self.erase: Any = None
        if config.by_kornia:
            self._make_transforms()

    def _make_transforms(self) -> None:
        try:
            from kornia import augmentation
            from kornia.augmentation.auto import RandAugment
        except ImportError as error:
            raise ValueError(f"crops, flips, RandAugment and erasing are kornia's: {EXTRA}") from error
        config = self.config
        side = config.size or 0, config.size or 0
        if config.crop == "padded":
            self.crops_and_flips.append(augmentation.RandomCrop(side, padding=config.padding or None))
        if config.crop == "resized":
            self.crops_and_flips.append(augmentation.RandomResizedCrop(side, scale=config.scale, align_corners=False))
        if config.flip:
            self.crops_and_flips.append(augmentation.RandomHorizontalFlip(p=config.flip))
        if config.operations:
            make: Any = RandAugment
            self.operations = [(entry[0], make(1, config.magnitude, policy=[[entry]])) for entry in OPERATIONS]
        if config.erasing:
            self.erase = augmentation.RandomErasing(p=config.erasing, value=0.0)

    @torch.no_grad()
    def __call__(self, images: Tensor, labels: Tensor, *, seed: int, step: int, part: int = 0) -> tuple[Tensor, Tensor]:
        """Augment a batch of images and mix their targets.

        Args:
            images: ``(B, C, H, W)`` uint8.
            labels: ``(B,)`` class numbers.
            seed: Seed of the run.
            step: Training step.
            part: Number of the device, or of the piece of a batch, where a step has several.

        Returns:
            Images ``(B, C, size, size)`` float32 and targets ``(B, classes)`` that sum to 1.

        Raises:
            ValueError: The images are smaller than the crop, or their number of colors is not that of ``mean``.
        """
        check_batch(images, labels)
        seeds = np.random.SeedSequence([seed, step, part])
        config, own = self.config, torch.autocast(images.device.type, enabled=False)
        with own, seeded_generators(int(seeds.generate_state(1, np.uint64)[0] >> 1), images.device):
            x = images.contiguous().float() / 255
            if config.crop == "padded":
                self._refuse_small(x, config.padding)
            x = self._resized(x) if config.crop == "none" else x
            for change in self.crops_and_flips:
                x = change(x)
            x = self._normalized(self._rand_augment(x))
            x = x if self.erase is None else self.erase(x)
            targets = soft_targets(labels, self.classes, config.smoothing)
            x, targets = mix_batch(
                x, targets, config.mixup, config.cutmix, np.random.Generator(np.random.Philox(seeds))
            )
        return x.contiguous(), targets

    @torch.no_grad()
    def evaluate(self, images: Tensor) -> Tensor:
        """Resize and normalize images ``(B, C, H, W)`` uint8 for evaluation, without random changes."""
        with torch.autocast(images.device.type, enabled=False):
            return self._normalized(self._resized(images.contiguous().float() / 255)).contiguous()

    def _resized(self, x: Tensor) -> Tensor:
        size = self.config.size
        if size is None or x.shape[-2:] == (size, size):
            return x
        if self.config.fit == "resized":
            return resize(x, size)
        self._refuse_small(x, 0)
        top, left = (x.shape[-2] - size) // 2, (x.shape[-1] - size) // 2
        return x[..., top : top + size, left : left + size]

    def _refuse_small(self, x: Tensor, padding: int) -> None:
        size, height, width = self.config.size or 0, *x.shape[-2:]
        if min(height, width) + 2 * padding < size:
            around = f" with {padding} around" if padding else ""
            raise ValueError(
                f"images of {width} x {height}{around} are smaller than the crop of {size}. Use a smaller size, or "
                + ('fit="resized".' if self.config.crop == "none" else 'crop="resized".')
            )

    def _normalized(self, x: Tensor) -> Tensor:
        if len(self.config.mean) not in (1, x.shape[1]):
            raise ValueError(f"mean has {len(self.config.mean)} colors and the images have {x.shape[1]}.")
        mean, std = (x.new_tensor(values).view(-1, 1, 1) for values in (self.config.mean, self.config.std))
        return (x - mean) / std

    def _rand_augment(self, x: Tensor) -> Tensor:
        """Apply RandAugment: each image draws distinct operations, and each operation runs on its images at once."""
        kinds = [change for name, change in self.operations if x.shape[1] == 3 or name not in COLOR_ONLY]
        if not kinds:
            return x
        chosen = torch.rand(len(x), len(kinds)).argsort(1)[:, : self.config.operations]
        for turn in chosen.unbind(1):
            changed = torch.empty_like(x)
            for kind in turn.unique().tolist():
                rows = (turn == kind).nonzero()[:, 0].to(x.device)
                changed[rows] = kinds[kind](x[rows]).clamp(0, 1)
            x = changed
        return x


def check_batch(images: Tensor, labels: Tensor) -> None:
    """Raise ValueError unless the batch is uint8 ``(B, C, H, W)`` with one label for each image."""
    if images.dtype != torch.uint8 or images.dim() != 4 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"images (B, C, H, W) of uint8 and labels (B,) are augmented; got {images.dtype} of shape "
            f"{tuple(images.shape)} and labels {tuple(labels.shape)}. Normalizing is done here."
        )


@contextmanager
def seeded_generators(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators (CPU and this device) inside the block and restore their state after it."""
    devices: Sequence[torch.device] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        for one in devices:
            with torch.cuda.device(one):
                torch.cuda.manual_seed(seed)
        yield
