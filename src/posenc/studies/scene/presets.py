"""The scales of the scene study, its subjects, and a unit's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from posenc.models.radiance import RadianceConfig, surroundings
from posenc.store import Store
from posenc.studies import Request
from posenc.studies.field_rows import Budget
from posenc.studies.found import Preset
from posenc.studies.scene import rows, work
from posenc.studies.sweep import Needs
from posenc.tasks import scenes

SPOT, OTHER = "spot", "torus"
"""The solid that is reported, and the one on which sigma and the rates are chosen."""
BLIND, MATTE, MATTE_BLIND = " without directions", " without highlights", " without highlights or directions"
UNCELLED, IMPORTANT, NERF = " without cells", " with importance samples", " with importance samples without cells"
"""Of a setting's name: what is another in the scene (its highlights), or in the field's surroundings (``_changed``)."""
SEEN, SAMPLED = ("", BLIND, MATTE, MATTE_BLIND), ("", UNCELLED, IMPORTANT, NERF)
VARIANTS = (BLIND, MATTE_BLIND, MATTE, NERF, IMPORTANT, UNCELLED)
"""The longer before those that they end in."""
RENDERED = {"train": 40, "held": 8, "side": 100, "fine": 3}

PRESETS = {
    "quick": Preset(
        about="one scene, seven rows x 3 seeds, 36 seconds each: eight minutes on two cores",
        scale="40 views of 100 x 100 pixels, or your own as small; 36 seconds of training on one core a field",
        seeds=(0, 1, 2),
        panels=("encodings",),
        asks=False,
        own={
            "longest": 100, "held": 8, "seconds": 36.0, "parameters": 78_000, "rays": 1024, "points": 2**13,
            "samples": 64, "cells": 32, "coarsest": 8, "finest": 64, "levels": 6,
        },
    ),
    "standard": Preset(
        about="one scene, nine rows x 3 seeds, 150 seconds each, directions, samples and sigma besides: an hour "
        "and a half on two cores",
        scale="40 views of 100 x 100 pixels, or your own of up to 400; 150 seconds of training on one core a field",
        seeds=(0, 1, 2),
        panels=("encodings", "directions", "samples", "sigma"),
        own={
            "longest": 400, "held": 8, "seconds": 150.0, "parameters": 360_000, "rays": 2048, "points": 2**14,
            "samples": 96, "cells": 48, "coarsest": 8, "finest": 128, "levels": 8,
        },
    ),
}  # fmt: skip


def subject(request: Request) -> str:
    """The setting of a request: the user's folder by its name, or the solid that is rendered."""
    if request.source is not None:
        name = request.source.resolve().name or "scene"
        return f"your {name}" if name in (SPOT, OTHER) else name
    return SPOT if _mesh(request) else OTHER


def encodings(request: Request, preset: Preset) -> Needs:
    return {subject(request): (*rows.ROWS, *(rows.MORE if preset.asks else ()))}


def directions(request: Request, preset: Preset) -> Needs:
    """With directions and without, and the same of a matte twin where the scene is rendered here."""
    variants = SEEN if request.source is None else ("", BLIND)
    return {subject(request) + variant: ("multires",) for variant in variants}


def samples(request: Request, preset: Preset) -> Needs:
    return {subject(request) + variant: ("multires",) for variant in SAMPLED}


def parted(setting: str) -> tuple[str, str]:
    """A setting's scene, and what is another there, which may be nothing."""
    variant = next((variant for variant in VARIANTS if setting.endswith(variant)), "")
    return setting.removesuffix(variant), variant


def _changed(config: RadianceConfig, variant: str) -> RadianceConfig:
    """With colours of places alone; or half of its sections even and half where those find weight; or asked in every
    section, whether or not anything is thought to be there."""
    change: dict[str, Any] = {"views": False} if variant in (BLIND, MATTE_BLIND) else {}
    if variant in (IMPORTANT, NERF):
        change |= {"samples": config.samples // 2, "fine": config.samples - config.samples // 2}
    if variant in (UNCELLED, NERF):
        change |= {"cells": 0}
    return msgspec.structs.replace(config, **change)


def sigmas(request: Request, preset: Preset) -> Needs:
    return {OTHER: tuple(rows.OF_SIGMA)}


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings, with its scene in the store. Raises ValueError for a scene or a row that cannot be.

    A setting of another request, as a report meets it in a store, is such a scene where what it is of is not at hand.
    """
    own = PRESETS[request.preset].own
    name, variant = parted(setting)
    arguments, make = _scene(request, name, matte=variant in (MATTE, MATTE_BLIND))
    scene = work.keep(store.root, arguments, make)
    config = RadianceConfig(background=scene.background, samples=own["samples"], cells=own["cells"])
    config = _changed(config, variant)
    budget = Budget(
        axes=3,
        outputs=1 + config.features,
        parameters=own["parameters"] - surroundings(config),
        finest=own["finest"],
        coarsest=own["coarsest"],
        levels=own["levels"],
    )
    row = rows.row(label, budget)
    return {
        "scene": arguments,
        "row": msgspec.to_builtins(row),
        "radiance": msgspec.to_builtins(config),
        "points": own["points"],
        "training": rows.training(row, dict(own)).plain,
        "device": request.device,
    }


def _scene(request: Request, name: str, *, matte: bool) -> tuple[dict[str, Any], Callable[[], scenes.Scene]]:
    """What decides a scene, plain JSON, and how it is made or read."""
    own = PRESETS[request.preset].own
    if request.source is not None and name != OTHER:
        folder, how = request.source, {"side": own["longest"], "held": own["held"]}
        return {"files": scenes.digest(folder, **how), **how}, lambda: scenes.read(folder, **how)
    mesh = _mesh(request) if name != OTHER else None
    if name not in (SPOT, OTHER) or (name == SPOT and mesh is None):
        raise ValueError(f"the scene {name!r} is not at hand: name its folder, or, for {SPOT!r}, give --data DIR.")
    solid = scenes.torus() if mesh is None else scenes.spot(mesh)

    solid = solid._replace(shine=0.0) if matte else solid

    def render() -> scenes.Scene:
        if request.source is None and _mesh(request) is None and list(request.panels or ()) != ["sigma"]:
            print("Spot is not at hand (--data DIR with mesh/spot.npz); rendering a torus instead.")
        return scenes.make(solid, **RENDERED)

    return {"solid": solid.name, "mesh": solid.digest, **({"shine": 0} if matte else {}), **RENDERED}, render


def _mesh(request: Request) -> Path | None:
    path = None if request.data is None else request.data / "mesh" / "spot.npz"
    return path if path is not None and path.is_file() else None
