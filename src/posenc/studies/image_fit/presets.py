"""The scales of the image study, its subjects, and a unit's settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from posenc.report.rows import listed
from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.field_rows import Budget
from posenc.studies.found import Preset
from posenc.studies.image_fit import rows, work
from posenc.studies.image_fit.choosing import CHOSEN_ON, HELD
from posenc.studies.sweep import Needs
from posenc.tasks import pictures

SWEEP, SHIFTED = "sizes", "shifted"
SHIFT = 100.0
"""How far places are moved, in pictures."""
QUICK_PICTURE = "astronaut"
CROSSING = (8_000, 15_000, 60_000, 240_000, 960_000)
SMALLER = (15_000, 60_000)
OPEN_BY = 0.5
"""The part of its steps after which a row from coarse to fine has all its levels."""

SUFFIX = {"fit": "", "held": HELD, SWEEP: f" {SWEEP}", SHIFTED: f" {SHIFTED}"}
"""What a setting's name ends in, by the kind of panel it belongs to."""

PRESETS = {
    "quick": Preset(
        about="one picture of up to 512 pixels a side, six encodings in three sizes x 3 seeds, up to 10 seconds each: "
        "three minutes",
        scale="pictures of up to 512 pixels a side; 10 seconds of training on one core for each fit",
        seeds=(0, 1, 2),
        panels=("fit", "parameters"),
        asks=False,
        own={
            "longest": 512,
            "parameters": 240_000,
            "fit": {"seconds": 10.0},
            "photographs": 1,
            "held": {"longest": 128, "parameters": 40_000, "steps": 1000, "batch": 2**12, "photographs": 2},
            "sizes": {"seconds": 3.5, "parameters": CROSSING, "smaller": SMALLER},
        },
    ),
    "standard": Preset(
        about="seven photographs or your own in full, 120 seconds a fit; held out: scales chosen on four, the rest on "
        "six more: six hours on two cores",
        scale="pictures in full; 120 seconds of training on one core for each fit",
        seeds=(0, 1, 2),
        panels=("fit", "parameters", "held-out", "sigma", "sizes", "interpolation", "shifted"),
        own={
            "longest": None,
            "parameters": 240_000,
            "fit": {"seconds": 120.0},
            "photographs": 7,
            "held": {"longest": 256, "parameters": 120_000, "steps": 1000, "batch": 2**12, "photographs": 10},
            "sizes": {"seconds": 60.0, "parameters": CROSSING, "smaller": SMALLER},
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
    """Every pixel learned: the six rows, and the sigmas that held-out pixels may choose where they do."""
    chosen = preset.asks and _divided(request, preset)[0]
    return dict.fromkeys(subjects(request, preset, "fit"), (*rows.SIX, *(rows.NEAR if chosen else ())))


def belongs(setting: str, label: str) -> bool:
    """Rows of their usual size are not fitted anew among the sizes."""
    return kind_of(setting) != SWEEP or "@" in label or label.startswith("multires-")


def smaller(request: Request, preset: Preset) -> Needs:
    """The six rows in smaller sizes, and as they are fitted."""
    settings = subjects(request, preset, SWEEP)
    plain = [setting.removesuffix(SUFFIX[SWEEP]) for setting in settings]
    sizes = tuple(f"{label}@{size}" for size in preset.own["sizes"]["smaller"] for label in rows.SIX)
    return dict.fromkeys(settings, sizes) | dict.fromkeys(plain, rows.SIX)


def mapped(request: Request, preset: Preset) -> Needs:
    """The mappings on each picture; where scales are chosen on some, all of them there, and what may be chosen here."""
    on, others = _divided(request, preset)
    if not on:
        return dict.fromkeys(others, rows.MAPPINGS)
    reported = [label for label in rows.MAPPINGS if label != "posenc"]
    return dict.fromkeys(on, (*rows.OF_SIGMA, *rows.SCALES)) | dict.fromkeys(
        others, (*reported, *rows.SCALES, *rows.NEAR)
    )


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
    name, longest = setting.removesuffix(SUFFIX[kind]), own.get("longest", preset.own["longest"])
    picture, shape = _kept(request, store, name, 256 if held else 512, longest)
    if held and min(shape[:2]) < 2:
        raise ValueError(
            f"a picture of {shape[1]} x {shape[0]} has no odd pixels to hold out. Give a larger one, or leave out the "
            "panels held-out and sigma."
        )
    parameters = preset.own["parameters"] if kind == SWEEP else own.get("parameters", preset.own["parameters"])
    if longest is None and not held:
        area = math.prod(shape[:2])
        parameters = round(parameters * max(1.0, (area if rows.grows(label) else min(area, work.MANY)) / 512**2))
    protocol: pictures.Protocol = "held-out" if held else "all"
    budget = Budget(
        axes=2,
        outputs=shape[2],
        parameters=parameters,
        finest=max(2, max(shape[:2]) // 2),
        released=max(2.0, max(pictures.learned(shape, protocol)) / 4),
    )
    row = rows.row(label, budget)
    training = rows.training(label, row, own)
    moved = {"shift": SHIFT} if kind == SHIFTED else {}
    opened = {"open_by": OPEN_BY} if rows.opens(label) else {}
    return {
        **moved,
        **opened,
        "picture": picture,
        "size": list(shape[:2]),
        "protocol": protocol,
        "row": msgspec.to_builtins(row),
        "training": training.plain,
        "device": request.device,
    }


def remarks(store: Store, units: Sequence[Unit]) -> tuple[str, ...]:
    """What is not done of a large picture in full; which pictures had a part in a choice."""
    sizes = {tuple(unit.settings.get("size", ())) for unit in units}
    settings = dict.fromkeys(unit.setting for unit in units)
    twice = [name for name in CHOSEN_ON if {name, name + HELD} <= settings.keys()]
    reported = any(kind_of(name) == "held" and name.removesuffix(HELD) not in CHOSEN_ON for name in settings)
    known = (f"Of the photographs that are fitted, {listed(twice)} had a part in choosing the scales.",)
    return (known if twice and reported else ()) + tuple(
        f"Of the picture of {width:,} x {height:,} pixels {work.MANY:,} are scored, one drawn in each of as many equal "
        "cells; all may be learned. Grids grow with the picture, networks of waves only up to one of so many pixels: "
        "a step of theirs takes time in proportion."
        for height, width in sorted(size for size in sizes if math.prod(size) > work.MANY)
    )


def _kept(request: Request, store: Store, name: str, size: int, longest: int | None) -> tuple[str, tuple[int, ...]]:
    """The name in the store of the user's picture, or of a photograph, and its shape there."""
    if request.source is not None:
        return work.keep_source(store.root, request.source, longest)
    pixels = pictures.photos(_folder(request), size)[name]
    pixels = pictures.reduced(pixels, longest) if longest else pixels
    return work.keep_picture(store.root, pixels), pixels.shape


def _names(request: Request, size: int) -> list[str]:
    return list(pictures.photos(_folder(request), size))


def _folder(request: Request) -> Any:
    if request.data is None:
        raise ValueError(
            "this study needs a picture: posenc run image-fit photo.jpg. Without one it takes the photographs of a "
            "data folder, --data DIR."
        )
    return request.data
