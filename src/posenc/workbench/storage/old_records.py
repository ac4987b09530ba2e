"""Records of the data of runs whose settings name none: of runs that were stored before records, and of generated data.

The settings of such a run hold what decides its data, under names that are constants. This module knows the names of
each study up to this version; a later study makes its records itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.dataset_record import DatasetRecord, Part, digest_of, generated

Settings = Mapping[str, Any]
Names = Mapping[str, str]
"""Key of the data of a user's file, as earlier versions noted it, to the name of the file."""

SAMPLE_DIGESTS: Mapping[str, str] = {
    "a1776586c26b556a": "7b2da8ddf81b3d86",  # Fashion-MNIST, 10,000 training images
    "db422a4833f2ec82": "c26b05223513b58a",  # Fashion-MNIST, 20,000 training images
    "96e86e821f6e2527": "d31d79626c41a3c9",  # Fashion-MNIST, all images
    "0f2c502ecbad471a": "924335db27460f93",  # Caltech-100, 128 x 128 pixels
}
"""Digest of all images of a data set, to the digest of a sample of them that stands in the settings of stored runs."""


def read_names(root: Path) -> dict[str, str]:
    """Names of users' files that an earlier version noted in a store, by the key of their data.

    Args:
        root: Root of the store.

    Returns:
        Key -> name. A key with several names has the newest.
    """
    path, names = root / "data" / "sources.jsonl", dict[str, str]()
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(msgspec.DecodeError, TypeError, KeyError):
            entry: Mapping[str, Any] = msgspec.json.decode(line)
            names[str(entry["key"])] = str(entry["name"])
    return names


def record_of_settings(settings: Settings, names: Names) -> DatasetRecord | None:
    """Record of the data that the settings of a run describe.

    Args:
        settings: The settings.
        names: Names of users' files by the key of their data.

    Returns:
        The record; None for settings of a study that is unknown here.
    """
    return next((record for make in _MAKERS if (record := make(settings, names)) is not None), None)


def _images(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    images = settings.get("pictures") or (data.get("pictures") if isinstance(data, Mapping) else None)
    if not isinstance(images, Mapping):
        return None
    digest = images["digest"]
    return DatasetRecord(
        kind="images",
        name=names.get(digest, images["name"]),
        digest=digest,
        parts=_parts("images", training=images["train"], test=images["test"]),
        options={"shape": list(images["shape"])},
        own=digest in names,
    )


def _text(settings: Settings, names: Names) -> DatasetRecord | None:
    text = settings.get("text")
    if not isinstance(text, Mapping):
        return None
    digest = text["digest"]
    name, own = names.get(digest, "tiny-shakespeare"), digest in names
    return DatasetRecord(kind="text", name=name, digest=digest, options={"unit": text["unit"]}, own=own)


def _image(settings: Settings, names: Names) -> DatasetRecord | None:
    image = settings.get("picture")
    if not isinstance(image, str):
        return None
    name, own = names.get(image, "photograph"), image in names
    digest, options = _digits(image), {"size": list(settings["size"])}
    return DatasetRecord(kind="image", name=name, digest=digest, options=options, own=own)


def _shape(settings: Settings, names: Names) -> DatasetRecord | None:
    points = settings.get("points")
    if not isinstance(points, str):
        return None
    return DatasetRecord(kind="shape", name=names.get(points, "spot"), digest=_digits(points), own=points in names)


def _scene(settings: Settings, names: Names) -> DatasetRecord | None:
    scene = settings.get("scene")
    if not isinstance(scene, Mapping):
        return None
    if "files" not in scene:
        return generated(scene["solid"], scene, _parts("views", training=scene["train"], test=scene["held"]))
    name, own = names.get(scene["files"], "scene"), scene["files"] in names
    options = {name: scene[name] for name in ("side", "held")}
    return DatasetRecord(kind="scene", name=name, digest=scene["files"], options=options, own=own)


def _recordings(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    if not isinstance(data, Mapping) or "recordings" not in data:
        return None
    digest = data["recordings"]
    return DatasetRecord(kind="recordings", name=names.get(digest, "recordings"), digest=digest, own=digest in names)


def _clouds(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    if not isinstance(data, Mapping) or "clouds" not in settings:
        return None
    if "folder" not in data:
        name = "parts of Spot" if "mesh" in data else "solids"
        return generated(name, data, _parts("clouds of each class", training=data["train"], test=data["test"]))
    key = msgspec.json.encode(data).decode()
    options = {"points": data["points"], "most": data["most"]}
    return DatasetRecord(
        kind="clouds", name=names.get(key, "meshes"), digest=data["folder"], options=options, own=key in names
    )


def _globe(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    if not isinstance(data, Mapping) or "target" not in data:
        return None
    if "raster" not in data:
        return generated("random field", {name: value for name, value in data.items() if name != "target"})
    options = {"target": data["target"]} | ({"classes": data["most"]} if "most" in data else {})
    return DatasetRecord(kind="raster", name="natural-earth", digest=data["raster"], options=options)


def _networks(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    if not isinstance(data, Mapping) or "network" not in data:
        return None
    return generated("networks", data, _parts("time points", training=data["train"], test=data["test"]))


def _puzzles(settings: Settings, names: Names) -> DatasetRecord | None:
    data = settings.get("data")
    if not isinstance(data, Mapping):
        return None
    if "authors" in data:
        return DatasetRecord(kind="puzzles", name="authors' puzzles", digest=digest_of(data["authors"]))
    if not {"train", "iid", "ood"} <= data.keys():
        return None
    counts = {"training": data["train"], "test, in distribution": data["iid"], "test, out of distribution": data["ood"]}
    parts = tuple(Part(name=name, counts={"puzzles": count}) for name, count in counts.items())
    return generated("puzzles", data, parts)


def _recall(settings: Settings, names: Names) -> DatasetRecord | None:
    task = settings.get("task")
    if not isinstance(task, Mapping) or "symbols" not in task:
        return None
    return generated(task["name"], {**task, "window": settings["window"]})


_MAKERS = (_images, _text, _image, _shape, _scene, _recordings, _clouds, _globe, _networks, _puzzles, _recall)


def _parts(unit: str, *, training: int, test: int) -> tuple[Part, ...]:
    return (Part(name="training", counts={unit: training}), Part(name="test", counts={unit: test}))


def _digits(name: str) -> str:
    """Digest in the name of a stored file, such as "picture-7605af19ba2b9758.npy"."""
    return name.partition("-")[2].partition(".")[0]
