"""The scales of the spherical study: training images and epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.workbench.studies.sc_pe import variants
from posenc.workbench.studies.shared.declarations import Preset


@dataclass(frozen=True, kw_only=True)
class SCPEPreset(Preset):
    """A scale of the spherical study.

    Attributes:
        epochs: Epochs of a LeNet.
        transformer_epochs: Epochs of a vision transformer.
        train_images: Largest number of training images; None for all.
        feature_variants: Variants of the panel on concatenated encodings.
        limits: Sentences on the limitations of the results.
    """

    epochs: int
    transformer_epochs: int
    train_images: int | None = None
    feature_variants: Sequence[str] = variants.FEATURE_VARIANTS
    limits: Sequence[str] = ()


PRESETS: Mapping[str, SCPEPreset] = {
    "quick": SCPEPreset(
        about="LeNet on at most 10,000 training images, 10 epochs, 3 seeds: about five minutes on two cores",
        scale="10 epochs",
        seeds=(0, 1, 2),
        panels=("similarity", "beside", "starts", "over", "variants"),
        asks=False,
        epochs=10,
        transformer_epochs=4,
        train_images=10_000,
        limits=("Training stops after 10 epochs, while the accuracy still rises.",),
    ),
    "standard": SCPEPreset(
        about="LeNet on all of Fashion-MNIST, 30 epochs, 10 seeds: about five hours on one core",
        scale="30 epochs",
        seeds=tuple(range(10)),
        panels=("similarity", "beside", "variants"),
        epochs=30,
        transformer_epochs=12,
        feature_variants=("plain", "plain-padded", "as-published", "constant", "constant-padded"),
    ),
    "paper": SCPEPreset(
        about="as the note: 100 epochs, every variant, 10 seeds: days on one core",
        scale="100 epochs",
        seeds=tuple(range(10)),
        panels=("similarity", "beside", "starts", "over", "rates", "tokens", "variants"),
        epochs=100,
        transformer_epochs=100,
    ),
}
