"""The scales of the points study, its settings, and what decides a unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from posenc.models.point_cloud import PointsConfig
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.points import rows, work
from posenc.workbench.studies.shared.declarations import Needs, Preset
from posenc.workbench.tasks import points as task
from posenc.workbench.training.loop import TrainingConfig

SOLIDS, SPOT, ANY = "solids", "spot", " turned any way"
"""The project's own clouds, the cow's, and what stands behind a setting whose clouds are turned in any way."""
NOISE = 0.02
LIMITS = (
    "Solids are made, and so is what tells them apart: they say what an encoding can carry, not what scanned things "
    "ask of it.",
    "What tokens carry besides is the shape of a neighbourhood of an eighth of all points, which is coarser than the "
    "edges that PCT's own embedding sees, so the printed accuracies are of another model.",
)


def _own(**changes: Any) -> dict[str, Any]:
    quick = {
        "train": 100,
        "test": 30,
        "points": 96,
        "most": None,
        "model": {"dim": 48, "depth": 2, "heads": 2, "hidden": 96},
        "training": {"epochs": 8, "batch": 32, "lr": 3e-3},
    }
    return {**quick, **changes}


PRESETS = {
    "quick": Preset(
        about="12 rows on 1,400 clouds of 96 points, 3 seeds: about nine minutes on two cores",
        scale="two layers of width 48, 350 steps, 96 points a cloud, asked about 48 to 384",
        seeds=(0, 1, 2),
        panels=("accuracy", "points", "moved", "clouds", "rows"),
        asks=False,
        own=_own(),
    ),
    "standard": Preset(
        about="12 rows on 2,100 clouds of 192 points, upright and turned any way, Spot's parts, 3 seeds: "
        "two hours on two cores",
        scale="two layers of width 48, 660 steps, 192 points a cloud, asked about 96 to 768",
        seeds=(0, 1, 2),
        panels=("accuracy", "points", "moved", "any", "spot", "clouds", "rows"),
        own=_own(train=150, test=60, points=192, training={"epochs": 10, "batch": 32, "lr": 2e-3}),
    ),
    "paper": Preset(
        about="the same with 7,000 clouds of 512 points and four layers of width 96: days on two cores",
        scale="four layers of width 96, 6,600 steps, 512 points a cloud, asked about 256 to 2,048",
        seeds=(0, 1, 2, 3, 4),
        panels=("accuracy", "points", "moved", "any", "spot", "clouds", "rows"),
        own=_own(
            train=500,
            test=100,
            points=512,
            model={"dim": 96, "depth": 4, "heads": 2, "hidden": 192},
            training={"epochs": 30, "batch": 32, "lr": 1e-3},
        ),
    ),
}


def subject(request: Request) -> str:
    """The setting of a request: the user's folder by its name, or the solids."""
    if request.source is None:
        return SOLIDS
    name = request.source.resolve().name or "folder"
    return f"your {name}" if name in (SOLIDS, SPOT) else name


def upright(request: Request, preset: Preset) -> Needs:
    """All rows, clouds turned about the upright axis."""
    return {subject(request): rows.NAMES}


def turned(request: Request, preset: Preset) -> Needs:
    """The rows without coordinates among the features, clouds turned in any way while they learn too."""
    return {subject(request) + ANY: rows.PLAIN}


def of_spot(request: Request, preset: Preset) -> Needs:
    return {SPOT: rows.PLAIN} if spot_at(request) else {}


def spot_at(request: Request) -> Path | None:
    path = None if request.data is None else request.data / "mesh" / "spot.npz"
    return path if path is not None and path.is_file() else None


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError for clouds or a row that cannot be."""
    own = PRESETS[request.preset].own
    _refuse_rows(request)
    data, classes, learned, held = _data(request, store, setting.removesuffix(ANY))
    config = PointsConfig(channels=1, classes=classes, **own["model"])
    row, config = rows.row(label, config)
    steps = -(-learned // own["training"]["batch"]) * own["training"]["epochs"]
    training = TrainingConfig(
        **own["training"],
        optimizer="adam",
        warmup_steps=max(steps // 20, 1),
        decay_steps=steps,
        clip=1.0,
        evaluate_every=max(own["training"]["epochs"] // 4, 1),
    )
    return {
        "data": data,
        "clouds": learned + held,
        "points": own["points"],
        "turned": "any" if setting.endswith(ANY) else "z",
        "noise": NOISE,
        "row": msgspec.to_builtins(row),
        "model": msgspec.to_builtins(config),
        "training": training.plain,
        "device": request.device,
    }


def _refuse_rows(request: Request) -> None:
    """Raises ValueError for a row asked for by name that cannot be, before the meshes of a folder are read."""
    config = PointsConfig(channels=1, classes=2, **PRESETS[request.preset].own["model"])
    for label in request.schemes or ():
        rows.row(label, config)


def _data(request: Request, store: Store, name: str) -> tuple[dict[str, Any], int, int, int]:
    """What decides the clouds, plain JSON; and how many classes, clouds to learn from and clouds held out there are."""
    own = PRESETS[request.preset].own
    points = round(max(work.RATIOS) * own["points"])
    if name == subject(request) and request.source is not None:
        data = {"folder": task.folder_digest(request.source), "points": points, "most": own["most"]}
        parts = work.keep_folder(store.root, request.source, data)
        return data, len(parts.train.classes), len(parts.train), len(parts.test)
    data: dict[str, Any] = {"train": own["train"], "test": own["test"], "points": points}
    classes = len(task.SOLIDS)
    if name == SPOT:
        mesh = spot_at(request)
        if mesh is None:
            raise ValueError("Spot's parts need her mesh: name the folder that has mesh/spot.npz, --data DIR.")
        data["mesh"], classes = work.keep_mesh(store.root, mesh), len(task.SPOT_PARTS)
    return data, classes, classes * own["train"], classes * own["test"]
