"""Image data sets by name or by path, divided into train, validation and test splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec

from posenc.workbench.data import readers
from posenc.workbench.data.labeled_images import ImageFiles, LabeledArrays, LabeledImages
from posenc.workbench.data.reading_options import NO_OPTIONS, Fit, ReadingOptions
from posenc.workbench.dataset_record import SPLITS, DatasetRecord, Part, SplitPhrase
from posenc.workbench.tasks.equal_items import TEST, TRAINING, equal_items_note
from posenc.workbench.tasks.images.download import FASHION_MNIST, cache_folder, download_files
from posenc.workbench.tasks.images.image_cache import Progress, cached_images
from posenc.workbench.tasks.images.image_decoder import WHITE, Square, image_size, rgb_of
from posenc.workbench.tasks.images.image_set import ImageSet, Splits
from posenc.workbench.tasks.images.splits import split

LOCATIONS: Mapping[str, tuple[str, ...]] = {
    "fashion-mnist": ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
    "mnist": ("mnist", "MNIST/raw"),
    "cifar-10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar-100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "caltech-100": ("caltech100/caltech100_128px_packed.npz",),
}
"""Possible places of each named data set in a data folder. Any other source is a folder or file of the user."""
SHAPES: Mapping[Fit, str] = {
    "crop": "the middle square, without the ends of the longer side",
    "pad": "the whole image",
    "resize": "the whole image, with another aspect ratio if it is not square",
}
FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
OWN_COPY = "it is your own copy, which posenc does not download"
HOW_TO_GET: Mapping[str, str] = {
    "fashion-mnist": "download it: posenc data fashion-mnist",
    "cifar-10": f"{OWN_COPY}, for its authors state no license",
    "cifar-100": f"{OWN_COPY}, for its authors state no license",
}


def load_images(
    source: str | Path,
    data: Path | None = None,
    *,
    size: int | None = None,
    reading: ReadingOptions = NO_OPTIONS,
    validation: float = 0.1,
    share: float = 0.2,
    images: int | None = None,
    seed: int = 0,
    cache: Path | None = None,
    download: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Splits:
    """Load a data set and divide it into splits: ``load_images("fashion-mnist", data)``.

    Args:
        source: A name of `LOCATIONS`; a folder of class folders, of images with a CSV of labels, of IDX files or of
            CIFAR's Python batches; a CSV of labels; or a packed ``.npz``.
        data: The data folder, searched before the cache.
        size: Side of the images in pixels. Needed for image files; arrays keep their size without it.
        reading: Options of the reader of image files: their format and labels, how they become square, and the
            background. Its size is not read.
        validation: Share of the training images that become the validation split, where the set has none; 0 for none.
        share: Share of all images that become the test split, where the set has none.
        images: Number of training images to use; None for all.
        seed: Seed of the stratified splits.
        cache: Folder for decoded images and downloads; by default ``cache_folder()``.
        download: Download a missing set, where its license allows that.
        threads: Number of decoding threads.
        progress: Called with (decoded, files) from time to time.

    Returns:
        The train, validation and test splits.

    Raises:
        ValueError: The data set is missing, damaged, or too small to be divided.
    """
    place = _locate(source, data, cache, download)
    name = str(source) if str(source) in LOCATIONS else place.stem
    read = _read(place, reading)
    if isinstance(read, LabeledArrays):
        divided = split(*_image_sets(name, read), validation=validation, share=share, count=images, seed=seed)
        return divided if size is None else divided.resized(size)
    parts = {part: dataclasses.replace(files, name=name) for part, files in read.parts.items()}
    square = Square(size or _packed_size(place, parts["train"]), reading.fit or "crop", reading.background or WHITE)
    rgb_of(square.background)  # a wrong color is refused before anything is decoded
    folder = cache or cache_folder()
    sets = {
        part: cached_images(files, folder, square, threads=threads, progress=progress) for part, files in parts.items()
    }
    _refuse_empty_class(sets["train"])
    if "validation" in sets:
        divided = split(sets["train"], sets["test"], validation=0.0, count=images, seed=seed)
        divided = dataclasses.replace(divided, validation=sets["validation"])
    else:
        divided = split(sets["train"], sets.get("test"), validation=validation, share=share, count=images, seed=seed)
    return dataclasses.replace(divided, left_out=read.left_out)


def _refuse_empty_class(images: ImageSet) -> None:
    """Raise ValueError if no training image of a class decodes."""
    empty = [name for name, count in zip(images.classes, images.counts.tolist(), strict=True) if not count]
    if empty:
        raise ValueError(
            f"no training image of the class {empty[0]} of {images.name} decodes. Replace them, or remove the class. "
            f"{images.note}"
        )


def _read(place: Path, reading: ReadingOptions) -> LabeledImages | LabeledArrays:
    """The images of a place, not decoded."""
    return readers.read(place, "images", reading)


def _image_sets(name: str, read: LabeledArrays) -> tuple[ImageSet, ImageSet]:
    """Training and test set of images that are arrays."""
    parts = read.arrays()
    classes = parts["train"].classes
    if name == FASHION_MNIST.name:
        classes = tuple(dict(enumerate(FASHION)).get(int(number), number) for number in classes)
    train, test = (ImageSet.from_arrays(name, classes, each.pixels, each.labels) for each in parts.values())
    return train, test


def source_files(
    source: str | Path, data: Path | None = None, reading: ReadingOptions = NO_OPTIONS
) -> tuple[Path, list[Path]]:
    """Find the files of a data set, for a digest of their contents.

    Args:
        source: Name of a data set, or path of the user's file or folder, as in ``load_images``.
        data: The data folder, searched before the cache.
        reading: Options of the reader of image files.

    Returns:
        The file or folder of the data set, and its files.

    Raises:
        ValueError: The data set is missing.
    """
    place = _locate(source, data, None, download=False)
    files = list(_read(place, reading).files)
    return (place if place.is_dir() or files == [place] else place.parent), files


def image_record(
    splits: Splits,
    digest: str,
    *,
    source: str | Path,
    limited: bool,
    reading: ReadingOptions = NO_OPTIONS,
) -> DatasetRecord:
    """Record of the training and held-out images of a data set.

    Args:
        splits: The images.
        digest: Digest of their contents.
        source: Name of the data set, or path of the user's file or folder.
        limited: True if the training images are a part of those that the data set has.
        reading: Options of the reader of image files that differ from the defaults.

    Returns:
        The record.
    """
    own, (channels, height, width) = str(source) not in LOCATIONS, splits.train.shape
    options: dict[str, object] = {"size": f"{height} x {width} pixels", "channels": channels}
    if own and isinstance(_read(Path(source), reading), LabeledImages):
        background = reading.background or WHITE
        border = f", with a {background} border beside the shorter side" if reading.fit == "pad" else ""
        options |= {"shape": SHAPES[reading.fit or "crop"] + border, "transparency": f"laid on {background}"}
    if flags := reading.flags:
        options["flags"] = flags
    if limited:
        options |= {"training images": f"{len(splits.train)} of more, each class in proportion"}
    parts = {name: part.keys() for name, part in _named(splits).items()} if own else {TRAINING: []}
    equal = equal_items_note(parts, "images", drawn=not splits.given)
    return DatasetRecord(
        kind="images",
        name=Path(source).resolve().name if own else splits.train.name,
        digest=digest,
        parts=_parts(splits),
        classes=splits.train.classes,
        options=options,
        left_out=(*splits.remarks, *filter(None, (splits.note, equal))),
        own=own,
    )


def with_parts(record: DatasetRecord, splits: Splits, split: SplitPhrase) -> DatasetRecord:
    """Return a record with the counts of other splits.

    Args:
        record: The record.
        splits: The splits of a seed.
        split: "seed" if the seed of a run draws the parts, "given" for the user's test part, "all given" for the
            user's validation and test parts.

    Returns:
        The record.
    """
    return msgspec.structs.replace(record, parts=_parts(splits), options={**record.options, "split": SPLITS[split]})


def _parts(splits: Splits) -> tuple[Part, ...]:
    return tuple(
        Part(name=name, counts={"images": len(part)}, by_class=tuple(part.counts.tolist()))
        for name, part in _named(splits).items()
        if len(part)
    )


def _named(splits: Splits) -> dict[str, ImageSet]:
    return {TRAINING: splits.train, "validation": splits.validation, TEST: splits.test}


def _locate(source: str | Path, data: Path | None, cache: Path | None, download: bool) -> Path:
    """Path of a data set. The ValueError for a missing set names the file, its folder and the option."""
    if str(source) not in LOCATIONS:
        path = Path(source)
        if path.exists():
            return path
        raise ValueError(
            f"{path} does not exist, and no data set has that name. Name a folder of yours or one of "
            f"{', '.join(LOCATIONS)}."
        )
    name = str(source)
    if (inside := _existing(name, data)) is not None:
        return inside
    folder = cache or cache_folder()
    if (inside := _existing(name, folder)) is not None:
        return inside
    if download and name == FASHION_MNIST.name:
        return download_files(FASHION_MNIST, folder)
    raise _missing_error(name, data or folder)


def _existing(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    return next((folder / place for place in LOCATIONS[name] if (folder / place).exists()), None)


def _missing_error(name: str, folder: Path) -> ValueError:
    first, *others = LOCATIONS[name]
    return ValueError(
        f"{name} is not at {folder / first}{''.join(f' or {other}' for other in others)}: "
        f"{HOW_TO_GET.get(name, OWN_COPY)}, put it into that folder, or name the folder that has it: --data DIR"
    )


def _packed_size(place: Path, files: ImageFiles) -> int:
    """Side of a packed set's first image in pixels. Raises ValueError for a folder of image files."""
    if place.is_dir():
        raise ValueError(f"the images of {place} differ in size. Choose the size at which to read them: size=128")
    return min(image_size(files.open(0)))
