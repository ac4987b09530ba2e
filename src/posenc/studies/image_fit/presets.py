"""The scales of the image study, its subjects, and a unit's settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from posenc.store import Store
from posenc.studies import Request
from posenc.studies.field_rows import Budget, memory_of
from posenc.studies.found import Preset
from posenc.studies.image_fit import rows, work
from posenc.studies.image_fit.choosing import CHOSEN_ON, HELD
from posenc.studies.sweep import Needs
from posenc.tasks import pictures
from posenc.tasks.room import refuse_beyond

SWEEP, SHIFTED = "sizes", "shifted"
SHIFT = 100.0
"""How far places are moved, in pictures."""
QUICK_PICTURE = "astronaut"

SUFFIX = {"fit": "", "held": HELD, SWEEP: f" {SWEEP}", SHIFTED: f" {SHIFTED}"}
"""What a setting's name ends in, by the kind of panel it belongs to."""

PRESETS = {
    "quick": Preset(
        about="one picture of up to 512 pixels a side, six encodings x 3 seeds, 12 seconds each: three minutes",
        scale="pictures of up to 512 pixels a side; 12 seconds of training on one core for each fit",
        seeds=(0, 1, 2),
        panels=("fit",),
        asks=False,
        own={
            "longest": 512,
            "parameters": 240_000,
            "fit": {"seconds": 12.0},
            "photographs": 1,
            "held": {"longest": 128, "parameters": 40_000, "steps": 1000, "photographs": 2},
            "sizes": {"seconds": 6.0, "parameters": (8_000, 15_000, 60_000, 240_000)},
        },
    ),
    "standard": Preset(
        about="seven photographs or your own in full, 120 seconds a fit; held out: sigma chosen on four, the rest on "
        "six more: seven hours on two cores",
        scale="pictures in full; 120 seconds of training on one core for each fit",
        seeds=(0, 1, 2),
        panels=("fit", "held-out", "sigma", "sizes", "interpolation", "shifted"),
        own={
            "longest": None,
            "parameters": 240_000,
            "fit": {"seconds": 120.0},
            "photographs": 7,
            "held": {"longest": 256, "parameters": 240_000, "steps": 1000, "photographs": 10},
            "sizes": {"seconds": 60.0, "parameters": (8_000, 15_000, 60_000, 240_000, 960_000)},
        },
    ),
}


def subjects(request: Request, preset: Preset, kind: str) -> tuple[str, ...]:
    """The settings of a kind of panel: the user's picture is "main"; photographs stand under their names."""
    if request.source is not None:
        names: tuple[str, ...] = ("main",)
    elif kind == "held":
        names = tuple(_names(request, 256))[: preset.own["held"]["photographs"]]
    else:
        count = preset.own["photographs"] if kind == "fit" else 1
        names = (QUICK_PICTURE,) if count == 1 else tuple(_names(request, 512))[:count]
    return tuple(name + SUFFIX[kind] for name in names)


Labels = tuple[str, ...] | Callable[[Preset], tuple[str, ...]]


def kind_of(setting: str) -> str:
    """ "fit", "held", "sizes" or "shifted"."""
    return next((kind for kind, end in SUFFIX.items() if end and setting.endswith(end)), "fit")


def over(kind: str, labels: Labels) -> Callable[[Request, Preset], Needs]:
    """What a panel needs: these rows in every setting of a kind; labels: a tuple, or a function of the preset."""

    def needs(request: Request, preset: Preset) -> Needs:
        found: tuple[str, ...] = labels(preset) if callable(labels) else labels
        return dict.fromkeys(subjects(request, preset, kind), found)

    return needs


def fitted(request: Request, preset: Preset) -> Needs:
    """Every pixel learned: the six rows, and at longer scales the sigmas that held-out pixels may choose."""
    return dict.fromkeys(subjects(request, preset, "fit"), (*rows.SIX, *(rows.NEAR if preset.asks else ())))


def mapped(request: Request, preset: Preset) -> Needs:
    """The mappings on each picture; where sigma is chosen on some of them, all sigmas, and near ones on the rest."""
    on, others = _divided(request, preset)
    if not on:
        return dict.fromkeys(others, rows.MAPPINGS)
    return dict.fromkeys(on, tuple(rows.OF_SIGMA)) | dict.fromkeys(others, (*rows.MAPPINGS, *rows.NEAR))


def swept(request: Request, preset: Preset) -> Needs:
    """Every sigma on the pictures that it is chosen on; where none is chosen, on all."""
    on, others = _divided(request, preset)
    return dict.fromkeys(on or others, tuple(rows.OF_SIGMA))


def _divided(request: Request, preset: Preset) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Settings that sigma is chosen on, and those that are reported on; all are reported on where none is left."""
    every = subjects(request, preset, "held")
    on = tuple(setting for setting in every if setting.removesuffix(HELD) in CHOSEN_ON)
    others = tuple(setting for setting in every if setting not in on)
    return (on, others) if others else ((), every)


def sized(preset: Preset) -> tuple[str, ...]:
    return tuple(f"{name}@{size}" for name in rows.GRIDS for size in preset.own["sizes"]["parameters"])


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings, with its picture in the store. Raises ValueError for a picture or a row that cannot be."""
    preset = PRESETS[request.preset]
    kind = kind_of(setting)
    held = kind == "held"
    own = preset.own["held"] if held else preset.own["sizes"] if kind == SWEEP else preset.own["fit"]
    pixels = _pixels(request, setting.removesuffix(SUFFIX[kind]), 256 if held else 512)
    longest = own.get("longest", preset.own["longest"])
    if longest:
        pixels = pictures.reduced(pixels, longest)
    if held and min(pixels.shape[:2]) < 2:
        raise ValueError(f"a picture of {pixels.shape[1]} x {pixels.shape[0]} has no odd pixels to hold out.")
    parameters = preset.own["parameters"] if kind == SWEEP else own.get("parameters", preset.own["parameters"])
    if longest is None and not held:
        parameters = round(parameters * max(1.0, pixels.shape[0] * pixels.shape[1] / 512**2))
    budget = Budget(2, pixels.shape[2], parameters, max(2, max(pixels.shape[:2]) // 2))
    row = rows.row(label, budget)
    training = rows.training(row, own)
    if request.device == "cpu":
        needed = memory_of(row, max(training.batch, work.CHUNK))
        refuse_beyond(needed, f"fitting {label}", "Ask for a smaller table or network, or make the picture smaller.")
    moved = {"shift": SHIFT} if kind == SHIFTED else {}
    return moved | {
        "picture": work.keep_picture(store.root, pixels),
        "protocol": "held-out" if held else "all",
        "row": msgspec.to_builtins(row),
        "training": training.plain,
        "device": request.device,
    }


def _pixels(request: Request, name: str, size: int) -> np.ndarray:
    if request.source is not None:
        return pictures.read(request.source)
    found = pictures.photos(_folder(request), size)
    return found[name]


def _names(request: Request, size: int) -> list[str]:
    return list(pictures.photos(_folder(request), size))


def _folder(request: Request) -> Any:
    if request.data is None:
        raise ValueError(
            "this study needs a picture: posenc run image-fit photo.jpg. Without one it takes the photographs of a "
            "data folder, --data DIR."
        )
    return request.data
