"""Training, validation and test parts of a user's images.

data/parts-DIGEST.json     number of images of each part, and classes without test images
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.studies.shared.image_data import ImageRecord, dataset_key, read_images
from posenc.workbench.studies.shared.own_data import (
    GIVEN_VALIDATION_SHARE,
    TEST_SHARE,
    VALIDATION_SHARE,
    Split,
    parts_settings,
)
from posenc.workbench.tasks.class_split import split_by_class
from posenc.workbench.tasks.images import Splits, with_parts


def image_parts(root: Path, record: ImageRecord) -> dict[str, Any]:
    """Entries "split", "items" and "dataset" of the settings of runs on a user's images.

    Args:
        root: Root of the store.
        record: Record of the images.

    Returns:
        The entries.

    Raises:
        ValueError: There are too few images for three parts.
    """
    path, records = root / "data" / f"parts-{record.digest}.json", StoredRecords(root)
    read = records.get(dataset_key(root, record))
    assert read is not None, "record_images has kept it"
    where = records.paths(read.key)
    if not path.exists():
        splits = read_images(root, record)
        split: Split = "given" if splits.given else "seed"
        parts = divide_images(splits, split, seed=0)
        whole = split == "given" and len(splits.validation) > 0
        described = with_parts(read, parts, "all given" if whole else split)
        counts = {name: len(getattr(parts, name)) for name in ("train", "validation", "test")}
        settings = parts_settings(split, counts, "images", described.untested)
        write_whole(path, msgspec.json.encode(settings | {"dataset": records.add(described, Path(where[-1]))}))
    settings = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    described = records.get(settings["dataset"])
    if described is not None:  # the same images may have been read elsewhere, under another name
        records.add(msgspec.structs.replace(described, name=read.name), Path(where[-1]))
    return settings


def divide_images(splits: Splits, split: Split, seed: int) -> Splits:
    """Divide a user's images into the parts of a seed.

    Args:
        splits: The images as their reader returns them.
        split: "seed" to draw the test part too, "given" to keep it.
        seed: Seed of the run.

    Returns:
        The parts, stratified by class.

    Raises:
        ValueError: There are too few images.
    """
    if split == "given" and len(splits.validation):
        return splits
    pool, shares = splits.train, (0.0, GIVEN_VALIDATION_SHARE)
    if split == "seed":
        rows, labels = (splits.train.rows, splits.test.rows), (splits.train.labels, splits.test.labels)
        pool = dataclasses.replace(splits.train, rows=np.concatenate(rows), labels=torch.cat(labels))
        shares = (TEST_SHARE, VALIDATION_SHARE)
    parts = split_by_class(pool.labels.numpy(), test=shares[0], validation=shares[1], seed=seed)
    if not len(parts.validation):
        raise ValueError(
            f"{pool.name} has {len(pool)} images of {len(pool.classes)} classes, and none is left to choose the step "
            f"of the training with. Give at least {3 if split == 'seed' else 2} images of a class."
        )
    test = pool.take(parts.test) if split == "seed" else splits.test
    return Splits(pool.take(parts.train), pool.take(parts.validation), test, splits.given)
