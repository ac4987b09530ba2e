"""Batches of pictures changed at random on the way into training: one object, whose chance is (seed, step) alone.

    uint8 -> 0 .. 1 -> crop -> flip -> RandAugment -> (x - mean) / std -> erase -> mixup or CutMix

Crops, flips, RandAugment's operations and erasing are kornia's, batched and on the pictures' own device. kornia draws
from torch's global generator, which is seeded here for the length of a call and put back after it, so a run that is
resumed draws what it would have drawn. Three things differ from kornia's own, on purpose:

* RandAugment draws operations for each picture, as its paper does; kornia's draws them once for a whole batch.
* A shear goes up to a factor of 0.3, the paper's, which is 16.7 degrees; kornia's goes up to 54.
* mixup and CutMix are ``mixing``: kornia's mixup draws its share evenly, not from Beta(alpha, alpha).

Sources: RandAugment, Cubuk et al. 2020, arXiv 1909.13719; random erasing, Zhong et al. 2020, arXiv 1708.04896; the
order is that of DeiT, Touvron et al. 2021, arXiv 2012.12877.
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

from posenc.tasks.images.image_set import resized
from posenc.tasks.images.mixing import mix, soft

EXTRA = "pip install 'posenc[vision]'"
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's colours, as the vision models' papers use them."""
STRONGEST = 30
SHEAR = math.degrees(math.atan(0.3)) / 180
"""The paper's shear factor of 0.3, as kornia says it: in halves of a turn."""
OPERATIONS: tuple[tuple[str, float, float], ...] = (
    ("auto_contrast", 0, 1), ("equalize", 0, 1), ("invert", 0, 1), ("rotate", -30.0, 30.0), ("posterize", 4.0, 8.0),
    ("solarize", 0.0, 1.0), ("solarize_add", 0.0, 0.43), ("color", 0.1, 1.9), ("contrast", 0.1, 1.9),
    ("brightness", 0.1, 1.9), ("sharpness", 0.1, 1.9), ("shear_x", -SHEAR, SHEAR), ("shear_y", -SHEAR, SHEAR),
    ("translate_x", -0.1, 0.1), ("translate_y", -0.1, 0.1),
)  # fmt: skip
"""RandAugment's, kornia's names and ranges."""
OF_COLOUR = ("color",)
"""Needs three channels."""


class Augmentation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done to a picture before it is learned from; nothing, by default, but scaling to -1 .. 1.

    size: the side that comes out; None leaves it. crop: ``padded`` cuts ``size`` anywhere out of the picture with
    ``padding`` black pixels around; ``resized`` cuts a part of ``scale`` of its area, 3:4 to 4:3, and scales it to
    ``size``; ``none`` does what evaluation does. fit: how a picture of another size comes to ``size`` there: its
    ``centre`` is cut, or all of it is ``resized``. flip: the chance of a mirror image. operations: RandAugment's n, 0
    for none. magnitude: RandAugment's m, above 0 and below 30. erasing: the chance that a rectangle is erased, to the
    mean colour. mixup, cutmix: alpha of Beta(alpha, alpha), 0 for neither; with both, a batch has one of them, by a
    fair coin. smoothing: this much of every target is shared by all classes. mean, std: by colour, or one for all.
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
        if self.operations and not 0 < self.magnitude < STRONGEST:
            raise ValueError(f"magnitude is above 0 and below {STRONGEST}; got {self.magnitude:g}.")
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale is a range of areas within 0 .. 1; got {self.scale}. As scale=(0.08, 1.0).")
        if len(self.mean) != len(self.std) or not all(part > 0 for part in self.std):
            raise ValueError(f"mean and std have a number for each colour, std above 0; got {self.mean}, {self.std}.")
        if self.crop != "none" and self.size is None:
            raise ValueError(f'crop="{self.crop}" needs the size that it cuts: Augmentation(size=32, ..).')

    @property
    def by_kornia(self) -> bool:
        """Whether anything here is kornia's."""
        return bool(self.crop != "none" or self.flip or self.operations or self.erasing)


class Augment:
    """``Augment(config, classes)(images, labels, seed=.., step=..)``, and ``.evaluate(images)`` without chance.

    Raises ValueError where the configuration needs kornia and it is not installed.
    """

    def __init__(self, config: Augmentation, classes: int) -> None:
        self.config, self.classes = config, classes
        self.before: list[Any] = []
        self.drawn: list[tuple[str, Any]] = []
        self.erase: Any = None
        if config.by_kornia:
            self._make()

    def _make(self) -> None:
        try:
            from kornia import augmentation
            from kornia.augmentation.auto import RandAugment
        except ImportError as error:
            raise ValueError(f"crops, flips, RandAugment and erasing are kornia's: {EXTRA}") from error
        config = self.config
        side = config.size or 0, config.size or 0
        if config.crop == "padded":
            self.before.append(augmentation.RandomCrop(side, padding=config.padding or None))
        if config.crop == "resized":
            self.before.append(augmentation.RandomResizedCrop(side, scale=config.scale, align_corners=False))
        if config.flip:
            self.before.append(augmentation.RandomHorizontalFlip(p=config.flip))
        if config.operations:
            make: Any = RandAugment
            self.drawn = [(entry[0], make(1, config.magnitude, policy=[[entry]])) for entry in OPERATIONS]
        if config.erasing:
            self.erase = augmentation.RandomErasing(p=config.erasing, value=0.0)

    @torch.no_grad()
    def __call__(self, images: Tensor, labels: Tensor, *, seed: int, step: int, part: int = 0) -> tuple[Tensor, Tensor]:
        """Pictures ``(B, C, size, size)`` float32 and targets ``(B, classes)`` that sum to 1.

        images: ``(B, C, H, W)`` uint8. labels: ``(B,)``. seed, step, part: all that chance depends on; part is the
        number of a device or of a piece of a batch, where a step has several. Raises ValueError for pictures that are
        smaller than the crop and for a number of colours that is not that of ``mean``.
        """
        check(images, labels)
        drawn = np.random.SeedSequence([seed, step, part])
        config, own = self.config, torch.autocast(images.device.type, enabled=False)
        with own, seeded(int(drawn.generate_state(1, np.uint64)[0] >> 1), images.device):
            x = images.contiguous().float() / 255
            if config.crop == "padded":
                self._refuse_small(x, config.padding)
            x = self._sized(x) if config.crop == "none" else x
            for change in self.before:
                x = change(x)
            x = self._normalised(self._operated(x))
            x = x if self.erase is None else self.erase(x)
            targets = soft(labels, self.classes, config.smoothing)
            x, targets = mix(x, targets, config.mixup, config.cutmix, np.random.Generator(np.random.Philox(drawn)))
        return x.contiguous(), targets

    @torch.no_grad()
    def evaluate(self, images: Tensor) -> Tensor:
        """The same pictures as a trained model is asked about them: brought to ``size`` and normalised."""
        with torch.autocast(images.device.type, enabled=False):
            return self._normalised(self._sized(images.contiguous().float() / 255)).contiguous()

    def _sized(self, x: Tensor) -> Tensor:
        size = self.config.size
        if size is None or x.shape[-2:] == (size, size):
            return x
        if self.config.fit == "resized":
            return resized(x, size)
        self._refuse_small(x, 0)
        top, left = (x.shape[-2] - size) // 2, (x.shape[-1] - size) // 2
        return x[..., top : top + size, left : left + size]

    def _refuse_small(self, x: Tensor, padding: int) -> None:
        size, height, width = self.config.size or 0, *x.shape[-2:]
        if min(height, width) + 2 * padding < size:
            around = f" with {padding} around" if padding else ""
            raise ValueError(
                f"pictures of {height} x {width}{around} are smaller than the crop of {size}. Use a smaller size, or "
                + ('fit="resized".' if self.config.crop == "none" else 'crop="resized".')
            )

    def _normalised(self, x: Tensor) -> Tensor:
        if len(self.config.mean) not in (1, x.shape[1]):
            raise ValueError(f"mean has {len(self.config.mean)} colours and the pictures have {x.shape[1]}.")
        mean, std = (x.new_tensor(values).view(-1, 1, 1) for values in (self.config.mean, self.config.std))
        return (x - mean) / std

    def _operated(self, x: Tensor) -> Tensor:
        """RandAugment: each picture has its own operations, drawn without repeats; those of one kind go together."""
        kinds = [change for name, change in self.drawn if x.shape[1] == 3 or name not in OF_COLOUR]
        if not kinds:
            return x
        chosen = torch.rand(len(x), len(kinds)).argsort(1)[:, : self.config.operations]
        for turn in chosen.unbind(1):
            done = torch.empty_like(x)
            for kind in turn.unique().tolist():
                rows = (turn == kind).nonzero()[:, 0].to(x.device)
                done[rows] = kinds[kind](x[rows]).clamp(0, 1)
            x = done
        return x


def check(images: Tensor, labels: Tensor) -> None:
    """Raises ValueError for anything but a batch of bytes and a label for each."""
    if images.dtype != torch.uint8 or images.dim() != 4 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"pictures (B, C, H, W) of uint8 and labels (B,) are augmented; got {images.dtype} of shape "
            f"{tuple(images.shape)} and labels {tuple(labels.shape)}. Normalising is done here."
        )


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """torch's global generators of the CPU and this device, seeded inside and as they were afterwards."""
    devices: Sequence[torch.device] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        for one in devices:
            with torch.cuda.device(one):
                torch.cuda.manual_seed(seed)
        yield
