"""The scales of the spherical study: training images and epochs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from posenc.workbench.studies.sc_pe import variants
from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig

OWN_STEPS = 400
"""Steps on a folder of the user at the quick preset."""


@dataclass(frozen=True, kw_only=True)
class SCPEPreset(Preset):
    """A scale of the spherical study.

    Attributes:
        training: Training of a LeNet.
        transformer_training: Training of a vision transformer.
        train_images: Largest number of training images; None for all.
        own_steps: Number of steps on a folder of the user, where the preset plans one.
        evaluations: Largest number of evaluations of a LeNet, unless a request says after how many epochs.
        feature_variants: Variants of the panel on concatenated encodings.
        limits: Sentences on the limitations of the results.
    """

    training: TrainingConfig
    transformer_training: TrainingConfig
    train_images: int | None = None
    own_steps: int = OWN_STEPS
    evaluations: int = 30
    feature_variants: Sequence[str] = variants.FEATURE_VARIANTS
    limits: Sequence[str] = ()

    @property
    @override
    def computed(self) -> Collection[str]:
        """The evaluations of a LeNet, and the steps of a transformer's cosine decay, from the number of images."""
        return (
            "training.evaluate_every",
            "transformer_training.warmup_steps",
            "transformer_training.decay_steps",
        )

    @property
    @override
    def computed_on_own_data(self) -> Collection[str]:
        """The epochs, of the steps on a user's images."""
        return ("training.epochs", "transformer_training.epochs")


def lenet_training(epochs: int) -> TrainingConfig:
    """The author's training: Adam at 0.001, batches of 256 images."""
    return TrainingConfig(epochs=epochs, batch=256, lr=1e-3, optimizer="adam")


def transformer_training(epochs: int) -> TrainingConfig:
    """AdamW with weight decay 0.05, batches of 64 images."""
    return TrainingConfig(epochs=epochs, batch=64, lr=1e-3, weight_decay=0.05, evaluate_every=1)


DECIDED = (
    "Adam at a learning rate of 0.001 with batches of 256 images, and max pooling and ReLU in the LeNet, of the "
    "released code.",
    "the step between two pixels, a quarter turn divided by the side of the image, which keeps all pixels distinct.",
    "a vision transformer of width 64 with four layers on the same images for Fig. 5, trained by AdamW at 0.001 with a "
    "weight decay of 0.05; neither its model nor its data is described.",
    "ten seeds; the note shows one run, and a second one of fewer epochs.",
)
"""Settings that the note leaves open, with the values of the preset paper."""

PRESETS: Mapping[str, SCPEPreset] = {
    "quick": SCPEPreset(
        about="LeNet on at most 10,000 training images, 10 epochs, 3 seeds: about five minutes on two cores",
        seeds=(0, 1, 2),
        panels=("similarity", "concatenation", "readout-scale", "multiplication", "variants"),
        asks=False,
        own=OwnDataPlan(),
        training=lenet_training(10),
        transformer_training=transformer_training(4),
        train_images=10_000,
        limits=("Training stops after 10 epochs, while the accuracy still rises.",),
    ),
    "standard": SCPEPreset(
        about="LeNet on all of Fashion-MNIST, 30 epochs, 10 seeds: about five hours on one core",
        seeds=tuple(range(10)),
        panels=("similarity", "concatenation", "variants"),
        own=OwnDataPlan(),
        own_steps=4000,
        training=lenet_training(30),
        transformer_training=transformer_training(12),
        feature_variants=("plain", "plain-padded", "as-published", "constant", "constant-padded"),
    ),
    "paper": SCPEPreset(
        about="as the note: 100 epochs, evaluated after each, every variant, 10 seeds: days on one core",
        seeds=tuple(range(10)),
        panels=("similarity", "concatenation", "readout-scale", "multiplication", "rates", "tokens", "variants"),
        training=lenet_training(100),
        transformer_training=transformer_training(100),
        evaluations=100,
        feature_variants=(*variants.FEATURE_VARIANTS, *variants.FURTHER_READOUTS),
        decided=DECIDED,
    ),
}
