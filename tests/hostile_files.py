"""Attempts on readers, as data: a whole file for each reader, and what may stand in its place.

``READERS`` and ``MALFORMATIONS`` are multiplied by ``test_hostile_files.py`` and by ``tools/fuzz.py``.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import socket
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image


class Reader(NamedTuple):
    """A reader of the workbench: name of its file, a function that writes a whole one, and one that reads it."""

    file: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


RESULTS = "setting,scheme,seed,metric,value\nmain,rope,0,loss,0.5\n"
PUZZLES = "ID,LST_num,condition,puzzles,solutions\n"
RNG = np.random.default_rng(0)
CORNERS = "0 0 0\n1 0 0\n0 1 0\n0 0 1\n"
FACES = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))


def _image(kind: str) -> Callable[[Path], object]:
    return lambda path: Image.fromarray(RNG.integers(0, 255, (9, 7, 3), np.uint8)).save(path, kind)


def _class_folders(path: Path) -> None:
    for name in ("cat", "dog"):
        (path.parents[1] / name).mkdir(exist_ok=True)
        for number in range(3):
            _image("PNG")(path.parents[1] / name / f"{number}.png")


def _image_labels(path: Path) -> None:
    for number in range(4):
        _image("PNG")(path.parent / f"{number}.png")
    path.write_text("file,label\n" + "".join(f"{number}.png,{number % 2}\n" for number in range(4)))


def _npz(**arrays: Any) -> Callable[[Path], object]:
    return lambda path: np.savez_compressed(path, **arrays)


def _idx(path: Path) -> None:
    content = bytes((0, 0, 8, 3)) + struct.pack(">III", 2, 3, 4) + bytes(24)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def _obj(path: Path) -> None:
    lines = [f"v {line}" for line in CORNERS.splitlines()] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES]
    path.write_text("\n".join(lines) + "\n")


def _off(path: Path) -> None:
    path.write_text("OFF\n4 4 0\n" + CORNERS + "".join(f"3 {a} {b} {c}\n" for a, b, c in FACES))


def _stl(path: Path) -> None:
    corners = np.array([line.split() for line in CORNERS.splitlines()], "<f4")
    record = b"".join(bytes(12) + corners[list(face)].tobytes() + bytes(2) for face in FACES)
    path.write_bytes(bytes(80) + struct.pack("<I", 4) + record)


def _cifar(path: Path) -> None:
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        batch = {b"data": RNG.integers(0, 255, (2, 3072), np.uint8), b"labels": [0, 1]}
        (path.parent / name).write_bytes(pickle.dumps(batch, protocol=2))
    (path.parent / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2))


def _cifar_archive(path: Path) -> None:
    _cifar(path)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.add(path.parent / name, f"cifar-10-batches-py/{name}")


IMAGES = ("png", "jpeg", "webp", "tiff")
POSE = [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]


def transforms(**changes: Any) -> dict[str, Any]:
    """Content of a transforms.json of three frames; changes are of its first frame."""
    frames = [{"file_path": f"{number}.png", "transform_matrix": POSE} for number in range(3)]
    return {"camera_angle_x": 0.8, "frames": [frames[0] | changes, *frames[1:]]}


def write_transforms(path: Path) -> None:
    """Write a scene of three images."""
    path.write_text(json.dumps(transforms()))
    for number in range(3):
        _image("PNG")(path.parent / f"{number}.png")


def _puzzles(path: Path) -> None:
    from posenc.workbench.tasks.latin_squares import generate_dataset, save_dataset

    save_dataset(generate_dataset(train=6, iid=0, ood=3, seed=0), path)


def _clouds(path: Path) -> None:
    from posenc.workbench.tasks import points

    part = points.solid_clouds(1, 8, seed=0)
    points.save_clouds(points.Splits(part, part), path)


def _pack(path: Path) -> None:
    from posenc.workbench import RunResult, RunSpec, Store, pack

    store = Store(path.parent / "store")
    spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
    store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
    pack(store, path.parent)


def _parquet(path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.sql("select 1.5 as a, 2.0 as b union all select 0.5, 1.0").write_parquet(str(path))


def texts(content: str) -> Callable[[Path], object]:
    """Function that writes a text."""
    return lambda path: path.write_text(content)


def _text_parquet(path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.sql("select 'to be' as text, 2 as b union all select 'or not', 1").write_parquet(str(path))


def _train_and_val(path: Path) -> None:
    path.write_text("to be or not")
    path.with_name("val.txt").write_text("to be")


def _tokenizer(path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"to": 0, "be": 1, "[UNK]": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))


def _read_with_tokenizer(path: Path) -> object:
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.tasks import text

    beside = path.with_name("beside.txt")
    beside.write_text("to be or not to be")
    return text.read_text(beside, ReadingOptions(tokenizer=str(path)))


def _text_readers() -> dict[str, Reader]:
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.tasks import text

    return {
        "text": Reader("a.txt", texts("to be or not to be"), text.read_text),
        "text.gz": Reader("a.txt.gz", lambda path: path.write_bytes(gzip.compress(b"to be")), text.read_text),
        "folder of texts": Reader("texts/a.txt", texts("to be"), lambda path: text.read_text(path.parent)),
        "json lines": Reader("a.jsonl", texts('{"text": "to be"}\n{"text": "or not"}\n'), text.read_text),
        "fasta": Reader("a.fasta", texts(">one\nACGT\nAC\n>two\nGG\n"), text.read_text),
        "train and val": Reader("g/train.txt", _train_and_val, lambda path: text.read_text(path.parent)),
        "words": Reader(
            "a.txt",
            texts("to be or not to be"),
            lambda path: text.read_text(path, ReadingOptions(tokenizer="words")),
        ),
        "tokenizer": Reader("t.json", _tokenizer, _read_with_tokenizer),
        "text parquet": Reader("a.parquet", _text_parquet, text.read_text),
        "ids npy": Reader("a.npy", lambda path: np.save(path, np.arange(9, dtype=np.uint16)), text.read_text),
        "ids bin": Reader(
            "a.bin",
            lambda path: path.write_bytes(np.arange(9, dtype="<u2").tobytes()),
            lambda path: text.read_text(path, ReadingOptions(dtype="uint16")),
        ),
    }


def _image_readers() -> dict[str, Reader]:
    from posenc.workbench.data.readers import cifar_batches, class_folders, idx_files, image_labels, packed_images
    from posenc.workbench.data.reading_options import NO_OPTIONS
    from posenc.workbench.tasks import single_image
    from posenc.workbench.tasks.images.image_decoder import Square, read_square

    ends, labels = np.array([4, 8]), np.array([0, 1], np.uint8)
    packed = {"jpeg": np.zeros(8, np.uint8), "end": ends, "y": labels}
    splits = {f"{name}_{part}": value for part in ("train", "test") for name, value in packed.items()}
    photos = {"images": np.zeros((2, 256, 256, 3), np.uint8), "names": np.array(["a", "b"])}

    return {
        "photographs": Reader(
            "photos/photos_256.npz", _npz(**photos), lambda path: single_image.load_photos(path.parents[1], 256)
        ),
        "packed images": Reader(
            "a.npz", _npz(classes=np.array(["a", "b"]), **splits), lambda path: packed_images.read(path, NO_OPTIONS)
        ),
        "class folders": Reader(
            "pets/cat/1.png", _class_folders, lambda path: class_folders.inspect(path.parents[1], NO_OPTIONS)
        ),
        "image labels": Reader("labels.csv", _image_labels, lambda path: image_labels.read(path, NO_OPTIONS)),
        "image to classify": Reader("a.png", _image("PNG"), lambda path: read_square(path, Square(8))),
        "idx": Reader("a-idx3-ubyte", _idx, lambda path: idx_files.read_idx(path, 3)),
        "idx.gz": Reader("a-idx3-ubyte.gz", _idx, lambda path: idx_files.read_idx(path, 3)),
        "cifar": Reader("data_batch_1", _cifar, lambda path: cifar_batches.read_batches(path.parent, "cifar-10")),
        "cifar archive": Reader(
            "cifar-10-python.tar.gz", _cifar_archive, lambda path: cifar_batches.read(path, NO_OPTIONS).arrays()
        ),
    }


PLY_POINTS = (
    "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
)


def _cloud_readers() -> dict[str, Reader]:
    from posenc.workbench.data.readers import cloud_folder, read
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.tasks.points import load_clouds

    def cloud(path: Path) -> object:
        return read(path, "clouds", ReadingOptions())

    def folder(path: Path) -> object:
        """Read the class folders, and the file itself as the task does."""
        for name in ("b", "c"):
            (path.parents[1] / name).mkdir(exist_ok=True)
            (path.parents[1] / name / "1.xyz").write_text(CORNERS)
        cloud_folder.inspect(path.parents[1], ReadingOptions())
        return cloud(path)

    points = np.array([line.split() for line in CORNERS.splitlines()], np.float32)
    return {
        "clouds": Reader("a.npz", _clouds, load_clouds),
        "cloud npy": Reader("a.npy", lambda path: np.save(path, points), cloud),
        "cloud npz": Reader("a.npz", _npz(points=points, rgb=np.zeros((4, 3), np.uint8)), cloud),
        "cloud ply": Reader("a.ply", texts(PLY_POINTS + CORNERS), cloud),
        "cloud xyz": Reader("a.xyz", texts(CORNERS), cloud),
        "cloud csv": Reader("a.csv", texts("x,y,z\n" + CORNERS.replace(" ", ",")), cloud),
        "class folders of clouds": Reader("a/1.ply", texts(PLY_POINTS + CORNERS), folder),
    }


def _table_readers() -> dict[str, Reader]:
    from posenc.workbench.data.readers import read
    from posenc.workbench.data.reading_options import ReadingOptions
    from tiny_data import WRITERS, read_houses

    def series(path: Path) -> object:
        return read(path, "series", ReadingOptions())

    def parquet(path: Path) -> None:
        import duckdb

        with duckdb.connect() as connection:
            rows = ", ".join(f"(DATE '2024-01-0{day}', {day * day}.5)" for day in (1, 2, 4, 5))
            connection.sql(f"SELECT * FROM (VALUES {rows}) AS t(date, y)").write_parquet(str(path))

    return {
        "series csv": Reader("a.csv", texts("date,y\n2024-01-01,1\n2024-01-02,2\n2024-01-04,\n2024-01-05,5\n"), series),
        "series parquet": Reader("a.parquet", parquet, series),
        **{f"places {end}": Reader(f"a.{end}", WRITERS[f"houses.{end}"], read_houses) for end in ("csv", "parquet")},
    }


def _mesh_readers() -> dict[str, Reader]:
    from posenc.workbench.tasks import scenes, shapes

    mesh = {"v": np.array([line.split() for line in CORNERS.splitlines()], np.float32), "f": np.array(FACES)}
    return {
        "obj": Reader("a.obj", _obj, shapes.read_shape),
        "off": Reader("a.off", _off, shapes.read_shape),
        "stl": Reader("a.stl", _stl, shapes.read_shape),
        "mesh npz": Reader("a.npz", _npz(**mesh), shapes.read_shape),
        "spot": Reader("spot.npz", _npz(**mesh), scenes.load_spot),
    }


def _readers() -> dict[str, Reader]:
    from hostile_graph_files import graph_readers
    from posenc.workbench.report import result_rows
    from posenc.workbench.storage import packs
    from posenc.workbench.tasks import globe, latin_squares, scenes, single_image
    from posenc.workbench.tasks.brain.confounds import read_table
    from posenc.workbench.tasks.brain.networks import read_networks
    from posenc.workbench.tasks.recordings import read_recordings

    cells = np.zeros((360, 720), np.int16)
    series = RNG.normal(size=(2, 3, 20))

    return {
        **_text_readers(),
        **{kind: Reader(f"a.{kind}", _image(kind.upper()), single_image.read_image) for kind in IMAGES},
        **_image_readers(),
        **_cloud_readers(),
        **_table_readers(),
        **graph_readers(Reader, texts),
        **_mesh_readers(),
        "raster": Reader("a.npz", _npz(land=cells.astype(np.uint8), country_iso=cells), globe.read_raster),
        "puzzles": Reader("a.npz", _puzzles, latin_squares.load_dataset),
        "puzzles csv": Reader("a.csv", texts(PUZZLES + "0,,Binary,1234000000500000,1\n"), latin_squares.read_csv),
        "recordings": Reader("a.npz", _npz(recordings=series), read_recordings),
        "table": Reader("a.csv", texts("x,y\n1,2\n3,5\n"), lambda path: read_recordings(path.parent)),
        "parquet": Reader("a.parquet", _parquet, lambda path: read_recordings(path.parent)),
        "confounds": Reader("a.tsv", texts("x\ty\n1\t2\n"), read_table),
        "networks": Reader("a.txt", texts("one\ntwo\n"), lambda path: read_networks(path, ("a", "b"))),
        "transforms": Reader("transforms.json", write_transforms, lambda path: scenes.read_scene(path.parent)),
        "results": Reader("a.csv", texts(RESULTS), result_rows.read_csv),
        "pack": Reader("toy-quick.pack", _pack, packs.read),
    }


READERS = _readers()


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


def _link(path: Path, target: str | Path) -> None:
    path.symlink_to(target)


def _linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    _link(path, "pipe")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def npz_of(path: Path, shape: str, content: bytes = b"") -> Path:
    """Write an npz archive whose arrays have a header with this shape, and these bytes."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (64 - (len(header) + 11) % 64) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("v", "f", "recordings"):
            archive.writestr(f"{name}.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + content)
    return path


def _zeros(name: str, shape: tuple[int, ...], kind: str, **others: Any) -> Callable[[Path], object]:
    """Function that writes a small npz archive of an array of zeros, which is never in memory as a whole."""

    def write(path: Path) -> None:
        header = io.BytesIO()
        described = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                file.write(header.getvalue())
                left = int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize
                while left:
                    left -= file.write(bytes(min(left, 1 << 24)))
            for other, value in others.items():
                content = io.BytesIO()
                np.save(content, value)
                archive.writestr(f"{other}.npy", content.getvalue())

    return write


def _packed_zeros(count: int, before: bytes = b"") -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(before)
            for _ in range(count >> 24):
                file.write(bytes(1 << 24))

    return write


def _archive_of_zeros(path: Path) -> None:
    """A packed archive whose one member has 40 GB."""
    member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    member.size = 40 << 30
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(member.tobuf())
        for _ in range(48):
            file.write(bytes(1 << 24))


def _large_parquet(path: Path) -> None:
    import duckdb

    columns = ", ".join(f"0.0::double as c{number}" for number in range(40))
    with duckdb.connect() as connection:
        connection.sql(f"select {columns} from range(2000000)").write_parquet(str(path))


def _large_image(path: Path) -> None:
    """A PNG of 12,000 x 12,000 pixels in 20 kB."""
    Image.new("1", (12_000, 12_000)).save(path, "PNG")


BOMBS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a text that unpacks to 1 GiB": ("text.gz", _packed_zeros(1 << 30)),
    "a mesh of 100 GiB by its header": ("mesh npz", lambda path: npz_of(path, "(10000000000, 3)")),
    "a mesh with 10**12 corners": ("mesh npz", lambda path: npz_of(path, "(1000000000000, 3)")),
    "a mesh whose header is no text": ("mesh npz", lambda path: npz_of(path, "((((")),
    "a mesh whose header calculates": ("mesh npz", lambda path: npz_of(path, "(10**12, 3)")),
    "a mesh that unpacks to 1 GiB": ("mesh npz", _zeros("v", (90_000_000, 3), "<f4", f=np.array(FACES))),
    "Spot of 1 GiB": ("spot", _zeros("v", (90_000_000, 3), "<f4", f=np.array(FACES))),
    "photographs of 1 GiB": ("photographs", _zeros("images", (5500, 256, 256, 3), "u1", names=np.array(["a"]))),
    "recordings of 1 GiB": ("recordings", _zeros("recordings", (2, 90_000_000, 3), "<f2")),
    "an image of 144 megapixels": ("png", _large_image),
    "a table of 2 GiB of nothing": ("table", lambda path: _sparse(path)),
    "a mesh of 2 GiB of nothing": ("obj", lambda path: _sparse(path)),
    "results of 2 GiB of nothing": ("results", lambda path: _sparse(path)),
    "a pack of 2 GiB of nothing": ("pack", lambda path: _sparse(path)),
    "transforms of 2 GiB of nothing": ("transforms", lambda path: _sparse(path)),
    "a parquet file of 640 MB in memory": ("parquet", _large_parquet),
    "an archive with a member of 40 GiB": ("cifar archive", _archive_of_zeros),
    "an idx file of 4 PiB by its header": (
        "idx.gz",
        lambda path: path.write_bytes(gzip.compress(bytes((0, 0, 8, 3)) + struct.pack(">III", 1 << 30, 1 << 20, 4))),
    ),
}
"""Small files that would take much memory: reader and the function that writes it."""

SPECIAL: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a link to a named pipe": _linked_pipe,
    "a folder": Path.mkdir,
    "a socket": _socket,
    "a device": lambda path: _link(path, "/dev/zero"),
    "a link to nothing": lambda path: _link(path, "nowhere"),
    "nothing": lambda path: None,
}
"""Folders, pipes and devices in the place of a file."""
DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(4096),
    "half": lambda content: content[: len(content) // 2],
    "ends in noise": lambda content: content[: len(content) // 2] + bytes(range(256)),
    "its first bytes alone": lambda content: content[:8] + b"\xff" * 64,
}
"""Damage of a whole file."""
