"""The scales of the grid-cell study: which pictures and models, how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.classifying import settled, to_zero
from posenc.studies.found import Preset, plain_label
from posenc.studies.gridpe import rows
from posenc.studies.other_sizes import measurements
from posenc.studies.picture_sets import keep
from posenc.studies.sweep import Needs
from posenc.tasks.images import IMAGENET, Augmentation
from posenc.training.config import Plateau
from posenc.training.loop import TrainingConfig

FASHION, CALTECH = "fashion-mnist", "caltech-100"
PVT, PHOTOGRAPHS, PVT_PHOTOGRAPHS = "pvt", "photographs", "pvt photographs"
BLOCK: Mapping[str, rows.Block] = {"main": "vit", PVT: "pvt", PHOTOGRAPHS: "vit", PVT_PHOTOGRAPHS: "pvt"}
"""Settings: the main one is a ViT on the first set of pictures."""
OF_PHOTOGRAPHS = (PHOTOGRAPHS, PVT_PHOTOGRAPHS)
PATCH: Mapping[str, int] = {PHOTOGRAPHS: 8, PVT_PHOTOGRAPHS: 4}
"""Of the first stage, on photographs of 128 pixels, in the models that small pictures have."""
TRAINED_AT = 224
SCALES: Mapping[str, float] = {
    f"x{side / TRAINED_AT:.2f}": side / TRAINED_AT for side in (160, 192, 256, 320, 384, 448, 512)
}
"""The sizes, as multiples of the trained one, that the paper's third version asks its models about."""

SMALL = TrainingConfig(epochs=5, batch=64, lr=3e-3, weight_decay=0.05, evaluate_every=1)
"""All but the paper's trainings end in a cosine, after a warm-up; see ``classifying.to_zero``."""
SHORT = replace(SMALL, epochs=4, batch=32, lr=2e-3)
PLAIN = Augmentation()
RELEASED = TrainingConfig(
    epochs=200, batch=32, lr=1e-4, evaluate_every=1,
    plateau=Plateau(metric="accuracy", mode="max", factor=0.5, patience=10, min_lr=1e-6),
)  # fmt: skip
TWINS = TrainingConfig(epochs=200, batch=32, lr=5e-4 * 32 / 512, weight_decay=0.05, clip=5.0, evaluate_every=1)
CHANGED = Augmentation(
    size=384, crop="resized", flip=0.5, operations=2, magnitude=9.0, erasing=0.25, mixup=0.8, cutmix=1.0, smoothing=0.1,
    mean=IMAGENET[0], std=IMAGENET[1],
)  # fmt: skip
"""The recipe of the code that the released PVTs are trained with, that of Twins."""

PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="a small ViT and a small PVT on 10,000 pictures of Fashion-MNIST, 3 seeds: a quarter of an hour on two "
        "cores",
        scale="10,000 pictures, a ViT of width 64 and four layers, 4 epochs; a PVT of one block a stage, 2 epochs",
        seeds=(0, 1, 2),
        panels=("accuracy", "pyramid", "curves", "rows"),
        asks=False,
        own={
            "images": 10_000, "vit": (SHORT, PLAIN), "pvt": (SMALL, PLAIN), "sizes": {"vit": "quick", "pvt": "micro"},
            "epochs": {PVT: 2}, "looked_at": 500,
            "rows": ("learned", "nope", "sinusoid", "rope-axial", "gridpe",
                     *(f"grid-{name}" for name in rows.VARIANTS)),
            "pyramid": ("pvt-o", "cpvt", "gridpe", "nope"),
        },
    ),
    "standard": Preset(
        about="all rows on all of Fashion-MNIST and on Caltech-100 at 128 pixels, 5 seeds: days on two cores",
        scale="all pictures; a ViT of width 64 and a PVT of one block a stage, 10 epochs; the same on photographs at "
        "128 pixels, 30 epochs",
        seeds=(0, 1, 2, 3, 4),
        panels=("accuracy", "literal", "pyramid", "curves", "resolution", "heads", "reach", "rows"),
        own={
            "images": None, "epochs": {"main": 10, PVT: 10, PHOTOGRAPHS: 30, PVT_PHOTOGRAPHS: 30},
            "vit": (SMALL, PLAIN), "pvt": (SMALL, PLAIN), "sizes": {"vit": "quick", "pvt": "micro"},
            "looked_at": None, "rows": rows.CLEAN, "pyramid": (*rows.PYRAMID, *rows.PYRAMID_LITERAL),
        },
    ),
    "paper": Preset(
        about="the paper's models on a folder of ImageNet-100, 224 and 384 pixels, 200 epochs, 5 seeds: several GPUs",
        scale="ImageNet-100, the released ViT at 224 pixels and PVT-small at 384, 200 epochs",
        seeds=(0, 1, 2, 3, 4),
        panels=("accuracy", "literal", "pyramid", "curves", "resolution", "heads", "reach", "rows"),
        own={
            "images": None, "vit": (RELEASED, Augmentation(mean=IMAGENET[0], std=IMAGENET[1])), "pvt": (TWINS, CHANGED),
            "sizes": {"vit": "gridpe", "pvt": "small"}, "looked_at": None, "rows": rows.CLEAN,
            "pyramid": (*rows.PYRAMID, *rows.PYRAMID_LITERAL),
        },
    ),
}  # fmt: skip


def chosen_rows(name: str, labels: Sequence[str]) -> Callable[[Request, Preset], Needs]:
    """The rows of a panel of ViTs: the preset's, or these; on the photographs too where a preset has them."""

    def needs(request: Request, preset: Preset) -> Needs:
        found = tuple(preset.own.get(name, labels))
        return dict.fromkeys(["main", *_more(request, PHOTOGRAPHS)], found)

    return needs


def pyramid(request: Request, preset: Preset) -> Needs:
    return dict.fromkeys([PVT, *_more(request, PVT_PHOTOGRAPHS)], tuple(preset.own["pyramid"]))


def both(request: Request, preset: Preset) -> Needs:
    return {**chosen_rows("rows", rows.CLEAN)(request, preset), **pyramid(request, preset)}


def asked_of_other_sizes(request: Request, preset: Preset, store: Store, units: Sequence[Unit]) -> list[Unit]:
    """The measurements of the panel of other sizes."""
    shown = chosen_rows("resolution", rows.RESIZED)(request, preset)
    trained = [unit for unit in units if plain_label(unit) in shown.get(unit.setting, ())]
    return measurements(trained, store, SCALES, preset.own["looked_at"])


def nothing(request: Request, preset: Preset) -> Needs:
    return {}


def belongs(setting: str, label: str) -> bool:
    return rows.belongs(BLOCK[setting], label)


def _more(request: Request, setting: str) -> list[str]:
    """Photographs beside Fashion-MNIST, at the standard preset and where they are at hand."""
    if request.preset != "standard" or request.source is not None or request.data is None:
        return []
    return [setting] if (request.data / "caltech100").is_dir() else []


def _source(request: Request, setting: str) -> str | Path:
    if setting in OF_PHOTOGRAPHS:
        return CALTECH
    if request.source is not None:
        return request.source
    if request.preset == "paper":
        raise ValueError(
            "preset paper wants ImageNet-100 as a folder of class folders, which nobody may hand on: posenc run gridpe "
            "FOLDER --preset paper"
        )
    return FASHION


def _side(request: Request, setting: str) -> int | None:
    """Pixels a side; None for those that a set of arrays has."""
    if setting in OF_PHOTOGRAPHS:
        return 128
    if request.preset == "paper":
        return TRAINED_AT if BLOCK[setting] == "vit" else 384
    if BLOCK[setting] == "pvt":
        return 32
    return None if request.source is None else 32


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError where the pictures are not at hand or the row does not fit them."""
    own, block = PRESETS[request.preset].own, BLOCK[setting]
    pictures = keep(
        store.root, _source(request, setting), request.data, size=_side(request, setting), images=own["images"]
    )
    training, augmentation = own[block]
    training = replace(training, epochs=own.get("epochs", {}).get(setting, training.epochs))
    training = training if training.plateau is not None else to_zero(training, pictures)
    row = rows.row(block, label, pictures, own["sizes"][block], PATCH.get(setting))
    return settled(row, pictures, training, augmentation, request.device)
