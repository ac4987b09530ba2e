"""Clouds of a run: generated from its seed, or read from what a store has of the user's meshes.

data/points-DIGEST.npz     points of the clouds and meshes of a user's folder
data/mesh-DIGEST.npz       mesh of Spot
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.data.readers.cloud_folder import CloudFolder
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.studies.shared.own_data import GIVEN_VALIDATION_SHARE, TEST_SHARE, VALIDATION_SHARE, Split
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.class_split import split_by_class
from posenc.workbench.tasks.shapes import Mesh, read_shape

CLOUDS_VERSION = 1
"""Version of the reading of clouds that are no meshes: part of the identity of their runs."""


def reading_of(data: Mapping[str, Any]) -> task.CloudReading:
    """The reading of a folder that the entry "data" of the settings of a run states."""
    return task.CloudReading(
        data["points"], data["most"], features=data.get("features", "none"), scale=data.get("scale", "unit")
    )


def reading_entry(listed: CloudFolder, reading: task.CloudReading) -> dict[str, Any]:
    """Return the options of the reading for the entry "data" of the settings; none for meshes with the defaults.

    Args:
        listed: Files of the folder.
        reading: Their reading.
    """
    clouds = {} if all(file.read is None for file in listed.files) else {"clouds": CLOUDS_VERSION}
    features = {} if reading.features == "none" else {"features": reading.features}
    return clouds | features | ({} if reading.scale == "unit" else {"scale": reading.scale})


def store_clouds(root: Path, folder: Path, data: Mapping[str, Any]) -> task.Splits:
    """Read the clouds of a folder into a store, once for each store.

    Args:
        root: Root of the store.
        folder: Folder of clouds or meshes.
        data: Entry "data" of the settings of a run.

    Returns:
        Training and held-out clouds.

    Raises:
        ValueError: The folder has no labeled clouds.
    """
    path = clouds_path(root, data)
    if not path.exists():
        print(f"Reading the points of {folder}; this is done once for each store.")
        task.save_clouds(task.read_class_folders(folder, reading_of(data)), path)
    return task.load_clouds(path)


def store_mesh(root: Path, path: Path) -> str:
    """Copy Spot's mesh into the folder of data of a store; return the digest that names the copy."""
    read_shape(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    copy = _mesh_path(root, digest)
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_whole(copy, content)
    return digest


def clouds_path(root: Path, data: Mapping[str, Any]) -> Path:
    """File of a store that holds the clouds of a user's folder."""
    digest = hashlib.sha256(msgspec.json.encode(dict(data), order="sorted")).hexdigest()[:16]
    return root / "data" / f"points-{digest}.npz"


def _mesh_path(root: Path, digest: str) -> Path:
    return root / "data" / f"mesh-{digest}.npz"


def divide_clouds(splits: task.Splits, split: Split, seed: int) -> task.Splits:
    """Divide a user's clouds into the parts of a seed.

    Args:
        splits: The clouds of the folder.
        split: "seed" to draw the test part too, "given" to keep it, and the validation part of the user.
        seed: Seed of the run.

    Returns:
        Training, validation and held-out clouds.

    Raises:
        ValueError: There are too few clouds.
    """
    if split == "given" and splits.validation is not None:
        return splits
    pool, drawn = splits.train, split == "seed"
    shares = (TEST_SHARE, VALIDATION_SHARE) if drawn else (0.0, GIVEN_VALIDATION_SHARE)
    parts = split_by_class(pool.labels.numpy(), test=shares[0], validation=shares[1], seed=seed)
    if not len(parts.validation):
        raise ValueError(
            f"{pool.name} has {len(pool)} clouds of {len(pool.classes)} classes, and none is left to choose the step "
            f"of the training with. Give at least {3 if drawn else 2} clouds of a class."
        )
    test = pool.take(parts.test) if drawn else splits.test
    return task.Splits(pool.take(parts.train), test, pool.take(parts.validation))


def read_clouds(root: Path, data: Mapping[str, Any], seed: int, split: Split | None = None) -> task.Splits:
    """Training and held-out clouds of a run.

    Args:
        root: Root of the store.
        data: Entry "data" of the settings of the run.
        seed: Seed of the run. Seeds have different clouds, unless these are from a user's folder.
        split: Entry "split" of the settings; None for clouds without a validation part.

    Returns:
        Training and held-out clouds.

    Raises:
        ValueError: The store lacks the clouds of the folder, or the mesh.
    """
    if "folder" in data:
        if not (path := clouds_path(root, data)).exists():
            raise ValueError(f"the clouds are no longer at {path}. Run the same command again.")
        clouds = task.load_clouds(path)
        return clouds._replace(validation=None) if split is None else divide_clouds(clouds, split, seed)
    splits = ((data["train"], 2 * seed), (data["test"], 2 * seed + 1))
    if "mesh" not in data:
        return task.Splits(*(task.solid_clouds(count, data["points"], seed=own) for count, own in splits))
    if not (path := _mesh_path(root, data["mesh"])).exists():
        raise ValueError(f"the mesh is no longer at {path}. Run the same command again.")
    shape = read_shape(path)
    mesh = Mesh(shape.placement.from_cube(shape.mesh.vertices), shape.mesh.faces)
    return task.Splits(*(task.spot_part_clouds(mesh, count, data["points"], seed=own) for count, own in splits))
