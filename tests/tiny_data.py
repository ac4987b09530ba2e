"""Small files of a user's data, one function for each name of the table in docs/own-data.md."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from posenc.workbench.data.readers import read
from posenc.workbench.data.reading_options import ReadingOptions
from small_images import write_cifar10, write_idx, write_packed

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "the", "dog", "ran", "far", "away", "from", "home"]
CUBE = """OFF
8 12 0
0 0 0
1 0 0
1 1 0
0 1 0
0 0 1
1 0 1
1 1 1
0 1 1
3 0 2 1
3 0 3 2
3 4 5 6
3 4 6 7
3 0 1 5
3 0 5 4
3 1 2 6
3 1 6 5
3 2 3 7
3 2 7 6
3 3 0 4
3 3 4 7
"""


def words(count: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def ids(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50, count).astype("<u2")


def _texts(folder: Path) -> None:
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.txt").write_text(words(60, number))


def _two(folder: Path) -> None:
    folder.mkdir()
    (folder / "train.txt").write_text(words(500))
    (folder / "val.txt").write_text(words(200, 1))


def _nano(folder: Path) -> None:
    folder.mkdir()
    ids(900).tofile(folder / "train.bin")
    ids(400).tofile(folder / "val.bin")


def _parquet(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = ", ".join(f"('{words(20, seed)}', {seed})" for seed in range(40))
    with duckdb.connect() as connection:
        connection.sql(f"SELECT * FROM (VALUES {values}) AS t(body, n)").write_parquet(str(path))


def _tokenizer(path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=270, initial_alphabet=alphabet)
    made.train_from_iterator([words(100)], trainer)
    made.save(str(path))


def image(path: Path, shade: int = 0, side: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(shade).integers(0, 128, (side, side, 3)) + shade % 2 * 120
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def _photos(folder: Path) -> None:
    for number in range(16):
        image(folder / ("cat", "dog")[number % 2] / f"{number}.png", number)


def _divided(folder: Path) -> None:
    for number in range(24):
        part = ("train", "train", "val", "test")[number // 2 % 4]
        image(folder / part / ("cat", "dog")[number % 2] / f"{number}.png", number)


def _bare(folder: Path) -> None:
    for number in range(16):
        image(folder / f"{number}.png", number)


def _labels(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("file,label\n" + "".join(f"{number}.png,{('cat', 'dog')[number % 2]}\n" for number in range(16)))


def _flat(folder: Path) -> None:
    _bare(folder)
    _labels(folder / "labels.csv")


def cloud(number: int, columns: int = 3) -> np.ndarray:
    draw = np.random.default_rng(number)
    points = draw.normal(size=(20 + number, 3)) * np.array([1.0, 1.0, 1.0 + 4 * (number % 2)])
    directions = draw.normal(size=(20 + number, 3))
    normals = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.concatenate([points, normals], 1)[:, :columns]


def _clouds(folder: Path) -> None:
    for number in range(20):
        place = folder / ("ball", "rod")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        points, path = cloud(number), place / f"{number}"
        form = number // 2 % 6
        if form == 0:
            np.save(path.with_suffix(".npy"), points)
        elif form == 1:
            np.savez(path.with_suffix(".npz"), points=points)
        elif form == 2:
            head = f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n"
            head += "".join(f"property float {axis}\n" for axis in "xyz") + "end_header\n"
            body = "\n".join(" ".join(f"{value:.5f}" for value in point) for point in points)
            path.with_suffix(".ply").write_text(f"{head}{body}\n")
        else:
            comma = "," if form == 5 else " "
            header = "x,y,z" if form == 5 else ""
            ending = (".xyz", ".txt", ".csv")[form - 3]
            np.savetxt(path.with_suffix(ending), points, delimiter=comma, header=header, comments="")


def _normals(folder: Path) -> None:
    for number in range(12):
        place = folder / ("ball", "rod")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{number}.npy", cloud(number, 6))


def _parts(folder: Path) -> None:
    for number in range(16):
        place = folder / ("train", "train", "val", "test")[number // 2 % 4] / ("ball", "rod")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / f"{number}.npy", cloud(number))


def _meshes(folder: Path) -> None:
    for number in range(12):
        place = folder / ("ball", "rod")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.off").write_text(CUBE.replace("1 1 1\n", f"1 1 {1 + number % 2}\n"))


def series(recordings: int = 5, channels: int = 8, times: int = 60) -> np.ndarray:
    draw = np.random.default_rng(0)
    shared = draw.normal(size=(recordings, 2, times))
    return shared[:, np.arange(channels) % 2] + draw.normal(size=(recordings, channels, times))


def _tables(folder: Path) -> None:
    folder.mkdir()
    names = ",".join(f"s{number}" for number in range(8))
    for number, one in enumerate(series()):
        np.savetxt(folder / f"{number}.csv", one.T, delimiter=",", header=names, comments="")


def _scene(folder: Path) -> None:
    frames = []
    for number in range(6):
        image(folder / "images" / f"{number}.png", number, side=12)
        angle = number * np.pi / 3
        eye = np.array([3 * np.cos(angle), 3 * np.sin(angle), 1.0])
        back = eye / np.linalg.norm(eye)
        right = np.cross([0.0, 0.0, 1.0], back)
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, :] = np.stack([right, np.cross(back, right), back, eye], 1)
        frames.append({"file_path": f"images/{number}.png", "transform_matrix": pose.tolist()})
    (folder / "transforms.json").write_text(json.dumps({"camera_angle_x": 0.9, "frames": frames}))


def readings(count: int = 90, series: tuple[str, ...] = ("",)) -> list[tuple[str, str, float]]:
    """Name of the series, time and value of daily readings with a week and noise."""
    draw = np.random.default_rng(0)
    start = np.datetime64("2024-01-01")
    return [
        (name, str(start + day), round(float(np.sin(2 * np.pi * day / 7) + draw.normal() / 4), 3))
        for name in series
        for day in range(count)
    ]


def _readings(path: Path) -> None:
    lines = [f"{time},{value},{2 * value:.3f},ok" for _, time, value in readings()]
    path.write_text("\n".join(["date,flow,level,note", *lines]) + "\n")


def _shops(path: Path) -> None:
    lines = [f"{name},{time},{value}" for name, time, value in readings(series=("north", "south"))]
    path.write_text("\n".join(["shop,date,sales", *lines]) + "\n")


def _readings_parquet(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = ", ".join(f"(TIMESTAMP '{time} 06:00:00', {value})" for _, time, value in readings())
    with duckdb.connect() as connection:
        connection.sql(f"SELECT * FROM (VALUES {values}) AS t(date, flow)").write_parquet(str(path))


def places(count: int = 80) -> list[tuple[float, float, int, str, float]]:
    """Longitude, latitude, rooms, kind and price of houses in a region of two degrees."""
    draw = np.random.default_rng(0)
    spots = draw.uniform((4.0, 50.0), (6.0, 52.0), (count, 2)).round(3)
    rooms, kinds = draw.integers(1, 7, count), draw.integers(0, 2, count)
    return [
        (
            round(float(x), 3),
            round(float(y), 3),
            int(room),
            ("house", "flat")[kind],
            round(100.0 + 30 * int(room) + 20 * float(np.sin(3 * x)), 1),
        )
        for (x, y), room, kind in zip(spots, rooms, kinds, strict=True)
    ]


def _houses(path: Path) -> None:
    lines = [",".join(map(str, row)) for row in places()]
    path.write_text("\n".join(["longitude,latitude,rooms,kind,price", *lines]) + "\n")


def _houses_parquet(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        rows = ", ".join(map(str, places()))
        named = connection.sql(f"SELECT * FROM (VALUES {rows}) AS t(longitude, latitude, rooms, kind, price)")
        named.write_parquet(str(path))


def read_houses(path: Path) -> object:
    """Read a table of houses as places."""
    return read(path, "places", ReadingOptions(target="price"))


def _write_graphs(folder: Path, values: bool) -> None:
    """Twelve small graphs, rings and paths by turns, as a TU folder."""
    folder.mkdir()
    edges, indicator, first = list[str](), list[str](), 1
    for number in range(12):
        size = 3 + number // 2 % 3
        pairs = [(n, n + 1) for n in range(size - 1)] + [(0, size - 1)] * (number % 2)
        edges += [f"{first + a}, {first + b}" for one, two in pairs for a, b in ((one, two), (two, one))]
        indicator += [f"{number + 1}"] * size
        first += size
    answers = [f"{number / 2}" if values else f"{number % 2}" for number in range(12)]
    files = {"A": edges, "graph_indicator": indicator, f"graph_{'attributes' if values else 'labels'}": answers}
    files |= {"node_labels": [f"{number % 3}" for number in range(len(indicator))]}
    for ending, lines in files.items():
        (folder / f"{folder.name}_{ending}.txt").write_text("\n".join(lines) + "\n")


def _edges(path: Path) -> None:
    pairs = [(a, b) for a in range(20) for b in range(a) if (a % 2 == b % 2) and (a - b) % 3]
    path.write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in pairs))


WRITERS: dict[str, Callable[[Path], object]] = {
    "book.txt": lambda path: path.write_text(words(900)),
    "other.txt": lambda path: path.write_text(words(300, 1)),
    "tokenizer.json": _tokenizer,
    "texts": _texts,
    "two": _two,
    "docs.jsonl": lambda path: path.write_text(
        "".join(json.dumps({"text": words(30, seed), "title": "t"}) + "\n" for seed in range(40))
    ),
    "docs.parquet": _parquet,
    "genes.fasta": lambda path: path.write_text(">a\n" + "ACGT" * 200 + "\n>b\n" + "GATC" * 100),
    "ids.npy": lambda path: np.save(path, ids(900)),
    "ids.bin": lambda path: ids(900).tofile(path),
    "any.bin": lambda path: path.write_bytes(words(300).encode()),
    "nano": _nano,
    "photos": _photos,
    "divided": _divided,
    "flat": _flat,
    "flat/labels.csv": lambda path: _flat(path.parent),
    "bare": _bare,
    "list.csv": lambda path: _labels(path.parent / "bare" / "list.csv"),
    "packed.npz": write_packed,
    "mnist": lambda path: write_idx(path, train=24, classes=3),
    "cifar-10-batches-py": write_cifar10,
    "clouds": _clouds,
    "oriented": _normals,
    "parts": _parts,
    "meshes": _meshes,
    "recordings.npz": lambda path: np.savez(path, recordings=series()),
    "tables": _tables,
    "readings.csv": _readings,
    "shops.csv": _shops,
    "readings.parquet": _readings_parquet,
    "houses.csv": _houses,
    "houses.parquet": _houses_parquet,
    "molecules": lambda path: _write_graphs(path, values=False),
    "energies": lambda path: _write_graphs(path, values=True),
    "edges.csv": _edges,
    "nodes.csv": lambda path: path.write_text("node,label\n" + "".join(f"n{n},{n % 2}\n" for n in range(20))),
    "photo.png": lambda path: image(path, 3),
    "solid.off": lambda path: path.write_text(CUBE),
    "scene": _scene,
}
"""Name of a file or folder to the function that writes it."""
