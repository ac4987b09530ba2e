"""The scales of the grid-cell study: models, training and data by condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from typing_extensions import override

from posenc.models import pvt, vit
from posenc.workbench.studies.gridpe import variants
from posenc.workbench.studies.gridpe.conditions import CONDITIONS, PHOTOGRAPHS, PVT, PVT_PHOTOGRAPHS
from posenc.workbench.studies.gridpe.variants import Architecture
from posenc.workbench.studies.shared.declarations import MAIN, OwnDataPlan, Preset
from posenc.workbench.tasks.images import IMAGENET, Augmentation
from posenc.workbench.training.config import Plateau
from posenc.workbench.training.loop import TrainingConfig

TRAINED_SIDE = 224
"""Side of the training images in the paper, in pixels."""
SCALES: Mapping[str, float] = {
    f"x{side / TRAINED_SIDE:.2f}": side / TRAINED_SIDE for side in (160, 192, 256, 320, 384, 448, 512)
}
"""Image sizes of the paper's version 3, as multiples of the trained size."""
PHOTOGRAPH_SIDE = 64
"""A learned table is ahead of none here by 0.032 [0.012, 0.052] after 30 epochs (three seeds). At 32 pixels it is ahead
by 0.028 [0.009, 0.047] too, but a ViT then has 16 positions; here it has 64."""
OWN_STEPS, OWN_PVT_STEPS = 400, 200
"""Steps of a ViT and of a PVT on a folder of the user at the quick preset."""
NO_AUGMENTATION = Augmentation()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Model and training of a condition.

    Attributes:
        size: Name of the model's size.
        training: Training configuration.
        augmentation: Data augmentation.
        side: Pixels per side of an image; None for the size of a data set of arrays.
        patch: Pixels per side of a patch of the first stage; None for that of the model's size.
        dropout: Dropout probability of the model, of the embedded patches too.
        own_steps: Number of steps on a folder of the user, where the preset plans one.
    """

    size: str
    training: TrainingConfig
    augmentation: Augmentation = NO_AUGMENTATION
    side: int | None = None
    patch: int | None = None
    dropout: float = 0.0
    own_steps: int = OWN_STEPS


@dataclass(frozen=True, kw_only=True)
class GridPEPreset(Preset):
    """A scale of the grid-cell study.

    Attributes:
        recipes: Condition to its model and training.
        train_images: Largest number of training images; None for all.
        data: Name of the data set unless the user names a folder; None if a folder is needed.
        vit_variants: Encodings of the ViT in the accuracy panels.
        pvt_variants: Encodings of the PVT in the accuracy panels.
        resized_images: Number of held-out images that are scored at other sizes; None for all.
        limits: Sentences on the limitations of the results.
    """

    recipes: Mapping[str, Recipe]
    train_images: int | None = None
    data: str | None = "fashion-mnist"
    vit_variants: Sequence[str] = variants.AS_PUBLISHED
    pvt_variants: Sequence[str] = (*variants.PVT_AS_PUBLISHED, *variants.PVT_AS_RELEASED)
    resized_images: int | None = None
    limits: Sequence[str] = ()

    @property
    @override
    def computed(self) -> Collection[str]:
        """The steps of a cosine decay, from the number of images, where no rate waits for a plateau."""
        if any(recipe.training.plateau for recipe in self.recipes.values()):
            return ()
        return ("recipes.training.warmup_steps", "recipes.training.decay_steps")

    @property
    @override
    def computed_on_own_data(self) -> Collection[str]:
        """The epochs and evaluations, of the steps on a user's images, where the preset plans such steps."""
        return ("recipes.training.epochs", "recipes.training.evaluate_every") if self.own is not None else ()

    @property
    @override
    def names(self) -> Mapping[str, Sequence[str]]:
        """Sizes of the models, by the architecture of a condition."""
        sizes: dict[str, Sequence[str]] = {"vit": tuple(vit.SIZES), "pvt": pvt.SIZES}
        return {f"recipes.{label}.size": sizes[CONDITIONS[label].architecture] for label in self.recipes}

    def variants_of(self, architecture: Architecture) -> tuple[str, ...]:
        """Encodings of an architecture in the panels of accuracy."""
        return tuple(self.vit_variants if architecture == "vit" else self.pvt_variants)


# Every training but that of the paper's ViT has a warm-up and a cosine decay; see settings.py.
SMALL = TrainingConfig(epochs=5, batch=64, lr=3e-3, weight_decay=0.05, evaluate_every=1)
RELEASED_VIT = TrainingConfig(
    epochs=200,
    batch=32,
    lr=1e-4,
    evaluate_every=1,
    plateau=Plateau(metric="accuracy", mode="max", factor=0.5, patience=10, min_lr=1e-6),
)
PUBLISHED = TrainingConfig(
    epochs=200,
    batch=32,
    lr=1e-4,
    weight_decay=0.01,
    evaluate_every=1,
    plateau=Plateau(metric="accuracy", mode="max", factor=0.5, patience=10),
)
"""Training of the paper's text, for both architectures: AdamW whose rate is halved on a plateau of 10 epochs."""
PUBLISHED_AUGMENTATION = Augmentation(mean=IMAGENET[0], std=IMAGENET[1])
DECIDED = (
    "a learning rate of 0.0001, of the example of the released ViT, for both architectures.",
    "a weight decay of 0.01, the default of torch's AdamW.",
    "no augmentation of the images but normalization, no warm-up, no dropout and no stochastic depth.",
    "a ViT of width 256 with 6 layers, 8 heads and patches of 16 pixels, and PVT-Small, of the released code.",
    "grid-cell encodings in every block of each stage, without learned tables.",
    "five seeds; the paper reports one run of each model.",
)
"""Settings that arXiv 2406.07049 leaves open, with the values of the preset paper."""
RELEASED_DROPOUT = 0.1
"""Dropout probability of the released ViT, in the example of its README."""
TWINS = TrainingConfig(epochs=200, batch=32, lr=5e-4 * 32 / 512, weight_decay=0.05, clip=5.0, evaluate_every=1)
"""Training of the code behind the released PVTs, which is that of Twins."""
TWINS_AUGMENTATION = Augmentation(
    size=384,
    crop="resized",
    flip=0.5,
    operations=2,
    magnitude=9.0,
    erasing=0.25,
    mixup=0.8,
    cutmix=1.0,
    smoothing=0.1,
    mean=IMAGENET[0],
    std=IMAGENET[1],
)
EVERY_PANEL = ("accuracy", "as-released", "pvt", "curves", "resolution", "heads", "attention-distance", "variants")
STILL_LEARNING = (
    "The models are still learning: of 22 differences between encodings of the ViT whose interval excludes 0 after 4 "
    "epochs, 3 have the opposite sign after 16 epochs and 11 an interval that contains 0 (three seeds; "
    "results/committed-pages-gridpe-cpu.json). Which rotary or grid-cell encoding is the better one cannot be read "
    "from this scale, nor which of the four forms of the paper: after 16 epochs grid-deep is above the others, by "
    "0.006 to 0.008. The learned table catches up: gridpe is above it by 0.002 [-0.001, 0.006] then. All encodings "
    "stay above none. For 16 epochs: --set epochs=16."
)
TUNING = (
    "Batch size and learning rate of the ViT were chosen on Fashion-MNIST for the learned table alone, with two "
    "seeds that are not used here: accuracy 0.800 for batch 32 at 0.002, 0.794 for 32 at 0.0015, 0.785 for 32 at "
    "0.003, 0.788 for 64 at 0.004, 0.783 for 64 at 0.003. The other variants train with the same values."
)

PRESETS: Mapping[str, GridPEPreset] = {
    "quick": GridPEPreset(
        about="a small ViT and a small PVT on at most 10,000 training images, 3 seeds: 15 minutes on two cores",
        seeds=(0, 1, 2),
        panels=("accuracy", "pvt", "curves", "variants"),
        asks=False,
        own=OwnDataPlan(),
        recipes={
            MAIN: Recipe(size="quick", training=replace(SMALL, epochs=4, batch=32, lr=2e-3)),
            PVT: Recipe(size="micro", training=replace(SMALL, epochs=2), side=32, own_steps=OWN_PVT_STEPS),
        },
        train_images=10_000,
        vit_variants=(variants.LEARNED, "nope", "sinusoid", "rope-axial", "gridpe",
                      *(f"grid-{form}" for form in variants.GRID_FORMS)),
        pvt_variants=("pvt-o", "cpvt", "gridpe", "nope"),
        resized_images=500,
        limits=(
            STILL_LEARNING,
            TUNING,
            "The variants as released are trained for 4 epochs, those of the paper for 200. In more epochs a network "
            "may learn to give less weight to waves that are drawn anew at each call.",
        ),
    ),
    "standard": GridPEPreset(
        about="all variants on all of Fashion-MNIST and on Caltech-100 at 64 pixels, 5 seeds: 16 hours on two cores",
        seeds=(0, 1, 2, 3, 4),
        panels=EVERY_PANEL,
        own=OwnDataPlan(),
        recipes={
            MAIN: Recipe(size="quick", training=replace(SMALL, epochs=10), own_steps=4000),
            PVT: Recipe(size="micro", training=replace(SMALL, epochs=10), side=32, own_steps=2000),
            PHOTOGRAPHS: Recipe(
                size="quick", training=replace(SMALL, epochs=30), side=PHOTOGRAPH_SIDE, patch=8
            ),
            PVT_PHOTOGRAPHS: Recipe(
                size="micro", training=replace(SMALL, epochs=30), side=PHOTOGRAPH_SIDE, patch=4
            ),
        },
    ),
    "paper": GridPEPreset(
        about="the paper's text on a folder of ImageNet-100: 224 and 384 pixels, AdamW with a plateau schedule, 200 "
        "epochs, 5 seeds: several GPUs",
        seeds=(0, 1, 2, 3, 4),
        panels=EVERY_PANEL,
        recipes={
            MAIN: Recipe(
                size="gridpe", training=PUBLISHED, augmentation=PUBLISHED_AUGMENTATION, side=TRAINED_SIDE
            ),
            PVT: Recipe(size="small", training=PUBLISHED, augmentation=PUBLISHED_AUGMENTATION, side=384),
        },
        data=None,
        decided=DECIDED,
    ),
    "as-released": GridPEPreset(
        about="as the released code trains: the ViT with dropout and a plateau schedule, the PVT with the recipe of "
        "Twins, 200 epochs, 5 seeds: several GPUs",
        seeds=(0, 1, 2, 3, 4),
        panels=EVERY_PANEL,
        recipes={
            MAIN: Recipe(
                size="gridpe",
                training=RELEASED_VIT,
                augmentation=PUBLISHED_AUGMENTATION,
                side=TRAINED_SIDE,
                dropout=RELEASED_DROPOUT,
            ),
            PVT: Recipe(size="small", training=TWINS, augmentation=TWINS_AUGMENTATION, side=384),
        },
        data=None,
    ),
}  # fmt: skip
