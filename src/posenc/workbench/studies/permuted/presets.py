"""The scales of the study of permuted images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.models.encoder import EncoderConfig
from posenc.workbench.studies.permuted.variants import QUICK_VARIANTS, VARIANTS
from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.training.loop import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class PermutedPreset(Preset):
    """A scale of the study of permuted images.

    Attributes:
        images: Largest number of training images; None for all.
        test_images: Largest number of held-out images.
        variants: Variants to train.
        model: Configuration of the model.
        training: Configuration of the training.
    """

    images: int | None
    test_images: int
    variants: Sequence[str]
    model: EncoderConfig
    training: TrainingConfig


PANELS = ("neighbors", "maps", "errors", "curves")
PRESETS: Mapping[str, PermutedPreset] = {
    "quick": PermutedPreset(
        about="one layer of width 32 on 20,000 images, 2,000 steps, 9 encodings, 3 permutations: about five minutes",
        scale="one layer of width 32, 2,000 steps with batches of 64 images",
        seeds=(0, 1, 2),
        panels=PANELS,
        asks=False,
        images=20_000,
        test_images=500,
        variants=QUICK_VARIANTS,
        model=EncoderConfig(channels=16, classes=16, dim=32, depth=1, hidden=128, activation="relu"),
        training=TrainingConfig(epochs=2000, batch=64, lr=3e-3, optimizer="adam", evaluate_every=250),
    ),
    "standard": PermutedPreset(
        about="four layers of width 64 on all images, 20,000 steps, 10 encodings, 5 permutations: days on two cores",
        scale="four layers of width 64, 20,000 steps of 128 images",
        seeds=(0, 1, 2, 3, 4),
        panels=PANELS,
        images=None,
        test_images=2000,
        variants=VARIANTS,
        model=EncoderConfig(channels=16, classes=16, dim=64, depth=4, hidden=256, second_activation=True),
        training=TrainingConfig(epochs=20_000, batch=128, lr=3e-4, optimizer="adam", evaluate_every=1000),
    ),
}
