"""A data set by its name or its place, in the parts that a study uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posenc.tasks.images import batches, idx
from posenc.tasks.images.decoding import Square, measure
from posenc.tasks.images.downloading import FASHION_MNIST, cache_folder, fetch
from posenc.tasks.images.encoded import Encoded, class_folders, packed
from posenc.tasks.images.image_set import ImageSet, Parts
from posenc.tasks.images.keeping import Progress, kept
from posenc.tasks.images.splitting import split

PLACES: Mapping[str, tuple[str, ...]] = {
    "fashion-mnist": ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
    "mnist": ("mnist", "MNIST/raw"),
    "cifar-10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar-100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "caltech-100": ("caltech100/caltech100_128px_packed.npz",),
}
"""The sets that have a name, and where they may lie in a folder of data; anything else is a folder or file of yours."""
FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
OWN_COPY = "it is your own copy, which posenc does not download"
HOW_TO_GET: Mapping[str, str] = {
    "fashion-mnist": "download it: posenc data fashion-mnist",
    "cifar-10": f"{OWN_COPY}, for its authors state no licence",
    "cifar-100": f"{OWN_COPY}, for its authors state no licence",
}


def find(
    source: str | Path,
    data: Path | None = None,
    *,
    size: int | None = None,
    square: Square = "cut",
    validation: float = 0.1,
    share: float = 0.2,
    images: int | None = None,
    seed: int = 0,
    kept_in: Path | None = None,
    download: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Parts:
    """Pictures to learn from, to choose by and to report: ``find("fashion-mnist", data)``.

    source: a name of `PLACES`; a folder of class folders (see ``class_folders``), of IDX files or of CIFAR's python
    batches; a packed ``.npz``. data: the folder of real data, looked into before the cache. size: pixels a side;
    pictures that are files of their own need it, arrays keep theirs without. square: how files become square.
    validation: the share of the training pictures that is kept to choose by, where the set has no such part, 0 for
    none. share: of all pictures, which becomes the test where there is none. images: learn from so many pictures
    alone. seed: of these parts; classes are in proportion in each. kept_in: where decoded pictures and downloads are
    kept; otherwise ``cache_folder()``. download: fetch a set that is missing, where its licence allows that.
    threads: that decode. progress: called with (decoded, files).

    Raises ValueError, in a sentence, for what is missing, damaged, or too small to be divided.
    """
    place = _place(source, data, kept_in, download)
    name = str(source) if str(source) in PLACES else place.stem
    if kind := batches.is_batches(place):
        return _arrays(batches.read_batches(place, kind), size, validation, share, images, seed)
    if place.is_dir() and idx.is_idx(place):
        classes = FASHION if name == "fashion-mnist" else None
        return _arrays(idx.read_folder(place, name, classes), size, validation, share, images, seed)
    if not place.is_dir() and place.suffix != ".npz":
        raise ValueError(f"{place} is no data set: class folders, IDX files, CIFAR's batches and a packed .npz are.")
    files = class_folders(place, name) if place.is_dir() else packed(place, name)
    size = size or _own_size(place, files["train"])
    folder = kept_in or cache_folder()
    sets = {part: kept(own, folder, size, square=square, threads=threads, progress=progress)
            for part, own in files.items()}  # fmt: skip
    if "validation" in sets:
        parts = split(sets["train"], sets["test"], validation=0.0, count=images, seed=seed)
        return Parts(parts.train, sets["validation"], sets["test"])
    return split(sets["train"], sets.get("test"), validation=validation, share=share, count=images, seed=seed)


def _arrays(
    sets: tuple[ImageSet, ImageSet], size: int | None, validation: float, share: float, images: int | None, seed: int
) -> Parts:
    parts = split(*sets, validation=validation, share=share, count=images, seed=seed)
    return parts if size is None else parts.at(size)


def _place(source: str | Path, data: Path | None, kept_in: Path | None, download: bool) -> Path:
    """Where a set is. Raises ValueError, naming the file, the folder for it and the option, where it is not."""
    if str(source) not in PLACES:
        own = Path(source)
        if own.exists():
            return own
        raise ValueError(f"{own} is not there, and no set has that name: {', '.join(PLACES)}, or a folder of yours.")
    name = str(source)
    if (inside := _inside(name, data)) is not None:
        return inside
    folder = kept_in or cache_folder()
    if (inside := _inside(name, folder)) is not None:
        return inside
    if download and name == FASHION_MNIST.name:
        return fetch(FASHION_MNIST, folder)
    raise _missing(name, data or folder)


def _inside(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    return next((folder / place for place in PLACES[name] if (folder / place).exists()), None)


def _missing(name: str, folder: Path) -> ValueError:
    first, *others = PLACES[name]
    return ValueError(
        f"{name} is not at {folder / first}{''.join(f' or {other}' for other in others)}: "
        f"{HOW_TO_GET.get(name, OWN_COPY)}, put it there, or name the folder that has it: --data DIR"
    )


def _own_size(place: Path, files: Encoded) -> int:
    """The side of a packed set's first picture. Raises ValueError for pictures that are files of their own."""
    if place.is_dir():
        raise ValueError(f"the pictures of {place} have sizes of their own. Say at which to read them, as size=128.")
    return min(measure(files.open(0)))
