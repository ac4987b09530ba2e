"""Data sets that posenc downloads, each file with its checksum. Only sets with a license that allows it are listed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

EXTRA = "pip install 'posenc[vision]'"


@dataclasses.dataclass(frozen=True)
class Download:
    """Files of a data set to download.

    Attributes:
        name: Name of the set.
        folder: Name of the folder that the files are saved in.
        license: License of the set.
        base: Address that the file names are appended to.
        files: SHA-256 digest of each file, by file name.
    """

    name: str
    folder: str
    license: str
    base: str
    files: Mapping[str, str]


FASHION_MNIST = Download(
    name="fashion-mnist",
    folder="fashion_mnist",
    license="MIT, Zalando SE",
    base="https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    files={
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)


def cache_folder() -> Path:
    """Folder for decoded images and downloads: ``$POSENC_CACHE``, or the system's cache folder for posenc.

    Raises:
        ValueError: pooch is not installed.
    """
    try:
        import pooch
    except ImportError as error:
        raise ValueError(f"the path of the cache folder comes from pooch: {EXTRA}, or name a folder.") from error
    return Path(pooch.create(path=pooch.os_cache("posenc"), base_url="", env="POSENC_CACHE").path)


def download_files(download: Download, folder: Path) -> Path:
    """Download the missing files of a set and check the checksum of each.

    Args:
        download: The set.
        folder: Folder that gets the set's own folder. Files that exist already are not downloaded again.

    Returns:
        The set's own folder.

    Raises:
        ValueError: pooch is not installed, the network or the folder refuses, or a checksum differs.
    """
    try:
        import pooch
    except ImportError as error:
        raise ValueError(f"downloading {download.name} needs pooch: {EXTRA}") from error
    target = folder / download.folder
    registry = {name: f"sha256:{digest}" for name, digest in download.files.items()}
    registered = pooch.create(path=target, base_url=download.base, registry=registry)
    for name in download.files:
        try:
            registered.fetch(name)
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; another checksum is a ValueError
            reason = "its checksum differs" if isinstance(error, ValueError) else type(error).__name__
            raise ValueError(
                f"{name} of {download.name} could not be downloaded ({reason}). Get it from {download.base} yourself "
                f"and put it into {target}, or name the folder that has {download.folder}/: --data DIR"
            ) from error
    return target
