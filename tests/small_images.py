"""Small files in the formats of real data sets."""

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
from PIL import Image

RANDOM = np.random.default_rng(0).integers(0, 256, (40, 3072), dtype=np.uint8)


def idx_bytes(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder, *, pack=True, train=12, classes=3):
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", 6)):
        for kind, array in (
            ("images-idx3", RANDOM[:count, :20].reshape(count, 4, 5)),
            ("labels-idx1", np.arange(count, dtype=np.uint8) % classes),
        ):
            content = idx_bytes(array)
            path = folder / f"{part}-{kind}-ubyte{'.gz' if pack else ''}"
            path.write_bytes(gzip.compress(content) if pack else content)
    return folder


def as_python2(value):
    """A pickle as the official ones are: protocol 2, arrays by NumPy's old name, dtype with align=0."""

    class Old(pickle._Pickler):
        def save_global(self, obj, name=None):
            if getattr(obj, "__name__", "") == "_reconstruct":
                self.write(b"cnumpy.core.multiarray\n_reconstruct\n")
                return
            super().save_global(obj, name)

    stream = io.BytesIO()
    Old(stream, 2).dump(value)
    return stream.getvalue()


def batch(rows, key=b"labels", classes=10):
    return {b"data": RANDOM[rows], key: [row % classes for row in rows], b"batch_label": b"some"}


def write_cifar10(folder):
    folder.mkdir(parents=True)
    for number in range(5):
        rows = list(range(6 * number, 6 * number + 6))
        (folder / f"data_batch_{number + 1}").write_bytes(as_python2(batch(rows)))
    (folder / "test_batch").write_bytes(as_python2(batch(list(range(30, 40)))))
    names = [name.encode() for name in ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]]
    (folder / "batches.meta").write_bytes(as_python2({b"label_names": names}))
    return folder


def archived(folder, path):
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


def encoded(pixels, kind, **options):
    stream = io.BytesIO()
    (pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)).save(stream, kind, **options)
    return stream.getvalue()


def write_photographs(path, side):
    """Packed JPEG files of noise."""
    noise = np.random.default_rng(0).integers(0, 256, (12, side, side, 3), dtype=np.uint8)
    return write_packed(path, [encoded(pixels, "JPEG") for pixels in noise])


def write_packed(path, files=None, **changes):
    files = files or [encoded(np.full((8, 8, 3), 20 * i, np.uint8), "PNG") for i in range(12)]
    ends = np.cumsum([len(file) for file in files])
    arrays = {"classes": np.array(["a", "b"])}
    for part, rows in (("train", slice(0, 8)), ("test", slice(8, 12))):
        blob = b"".join(files[rows])
        arrays |= {
            f"jpeg_{part}": np.frombuffer(blob, np.uint8),
            f"end_{part}": ends[rows] - (ends[7] if part == "test" else 0),
            f"y_{part}": (np.arange(12, dtype=np.uint8) % 2)[rows],
        }
    np.savez(path, **(arrays | changes))
    return path


def write_folder(root, count=6, size=10):
    """Pictures whose colour says which they are; classes alternate."""
    for name, first in (("cat", 0), ("dog", 1)):
        (root / name).mkdir(parents=True)
        for number in range(first, count, 2):
            Image.new("RGB", (size, size + 4), (10 * number, 0, 200)).save(root / name / f"{number}.png")
    return root


def packed_photographs(folder):
    """Write a small stand-in for Caltech-100: squares of one gray in two classes, packed as the set is."""
    folder.mkdir(exist_ok=True)
    squares = [encoded(np.full((128, 128, 3), 20 * number, np.uint8), "JPEG") for number in range(12)]
    return write_packed(folder / "caltech100_128px_packed.npz", squares)
