"""Forms of point clouds: what each reader reads, what it refuses, what a folder leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.data.clouds import PointCloud, left_out_sentences
from posenc.workbench.data.readers import cloud_folder, find_reader, inspect, read
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.user_files import UserFileError

OPTIONS = ReadingOptions()
POINTS = np.array([[0.0, 0, 1], [2, 0, 0], [0, 3, 0], [1, 1, 5]])
NORMALS = np.array([[0.0, 0, 1], [1, 0, 0], [0, -1, 0], [0, 0.6, -0.8]])
COLORS = np.array([[255, 0, 51], [0, 0, 0], [102, 255, 0], [1, 2, 255]])


def text(columns: np.ndarray, separator: str = " ") -> str:
    return "".join(separator.join(f"{value:g}" for value in row) + "\n" for row in columns)


def write_ply(path: Path, columns: np.ndarray, names: str, *, binary: bool = False) -> None:
    form = "binary_little_endian" if binary else "ascii"
    properties = "".join(f"property float {name}\n" for name in names.split())
    head = f"ply\nformat {form} 1.0\nelement vertex {len(columns)}\n{properties}end_header\n".encode()
    path.write_bytes(head + (columns.astype("<f4").tobytes() if binary else text(columns).encode()))


def cloud(path: Path) -> PointCloud:
    return read(path, "clouds", OPTIONS)


WRITERS = {
    "a.npy": lambda path, columns: np.save(path, columns),
    "a.npz": lambda path, columns: np.savez(path, cloud=columns),
    "a.ply": lambda path, columns: write_ply(path, columns, "x y z nx ny nz"),
    "b.ply": lambda path, columns: write_ply(path, columns, "x y z nx ny nz", binary=True),
    "a.xyz": lambda path, columns: path.write_text(text(columns)),
    "a.txt": lambda path, columns: path.write_text(text(columns, ",")),
    "a.csv": lambda path, columns: path.write_text("x,y,z,normal_x,normal_y,normal_z\n" + text(columns, ",")),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_form_gives_the_points_and_their_normals(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, np.concatenate([POINTS, NORMALS], 1))
    found = cloud(tmp_path / name)
    assert np.allclose(found.points, POINTS)
    assert found.names == ("nx", "ny", "nz")
    assert np.allclose(found.attributes, NORMALS, atol=1e-6)
    record = inspect(tmp_path / name, "clouds", OPTIONS)
    assert record.parts[0].counts == {"clouds": 1, "points": 4}
    assert (record.kind, record.own) == ("clouds", True)


def test_unnamed_columns_are_named_by_their_values_and_colors_are_from_0_to_1(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.concatenate([POINTS, COLORS, NORMALS, [[7], [8], [9], [1000]]], 1))
    found = cloud(tmp_path / "a.npy")
    assert found.names == ("red", "green", "blue", "nx", "ny", "nz", "column 10")
    assert np.allclose(found.attributes[:, :3], COLORS / 255)
    assert np.allclose(found.select(("nz", "red")), np.stack([NORMALS[:, 2], COLORS[:, 0] / 255], 1))
    np.save(tmp_path / "b.npy", POINTS)
    plain = cloud(tmp_path / "b.npy")
    with pytest.raises(ValueError, match="it has no colors; it has no feature beside the coordinates"):
        plain.select(("red", "green", "blue"))
    np.savez(tmp_path / "c.npz", points=POINTS, rgb=COLORS)
    assert cloud(tmp_path / "c.npz").names == ("red", "green", "blue")


@pytest.mark.parametrize(("kind", "most"), [("uchar", 255), ("ushort", 65535), ("float", 1)])
@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_dark_colors_of_a_ply_are_scaled_by_their_type(tmp_path: Path, kind: str, most: int, form: str) -> None:
    names = "".join(f"property {kind} {name}\n" for name in ("red", "green", "blue"))
    head = f"ply\nformat {form} 1.0\nelement vertex 4\n" + "".join(f"property float {axis}\n" for axis in "xyz") + names
    order = ">" if "big" in form else "<"
    color = {"uchar": "u1", "ushort": f"{order}u2", "float": f"{order}f4"}[kind]
    rows = np.zeros(4, [("xyz", f"{order}f4", 3), ("color", color, 3)])
    rows["xyz"], rows["color"] = POINTS, 1
    content = text(np.concatenate([POINTS, np.ones((4, 3))], 1)).encode() if form == "ascii" else rows.tobytes()
    (tmp_path / "a.ply").write_bytes(head.encode() + b"end_header\n" + content)
    assert np.allclose(cloud(tmp_path / "a.ply").select(("red", "green", "blue")), 1 / most)


def test_dark_colors_of_an_array_are_scaled_by_their_type(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=POINTS, colors=np.ones((4, 3), np.uint8))
    assert np.allclose(cloud(tmp_path / "a.npz").attributes, 1 / 255)


def test_columns_are_found_by_the_header_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# from a scanner\nintensity;Z;Y;X\n" + text(POINTS[:, [0, 2, 1, 0]], ";"))
    found = cloud(tmp_path / "a.csv")
    assert np.allclose(found.points, POINTS)
    assert found.names == ("intensity",)


def test_points_without_a_finite_coordinate_are_left_out_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("# x\n1 1 1\n\nnan 0 0\n0 inf 0\n0 0 1e308\n" + text(POINTS))
    found = cloud(tmp_path / "a.xyz")
    assert len(found.points) == 5
    (sentence,) = found.left_out
    assert sentence.startswith(
        f"3 of 8 points of {tmp_path.name}/a.xyz are left out, because a coordinate is NaN, infin"
    )
    assert sentence.endswith("the first is line 4.")


@pytest.mark.parametrize("form", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_lists_of_the_points_of_a_ply_are_left_out_and_named(tmp_path: Path, form: str) -> None:
    """Before, a list in a binary file ended in an error of numpy."""
    head = f"ply\nformat {form} 1.0\nelement vertex 4\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    head += "property list uchar int neighbors\nproperty float height\nend_header\n"
    order = ">" if "big" in form else "<"
    kind = [("xyz", f"{order}f4", 3), ("count", "u1"), ("two", f"{order}i4", 2), ("height", f"{order}f4")]
    rows = np.zeros(4, kind)
    rows["xyz"], rows["count"], rows["height"] = POINTS, 2, [1, 2, 3, 4]
    columns = np.concatenate([POINTS, np.full((4, 1), 2), np.zeros((4, 2)), rows["height"][:, None]], 1)
    (tmp_path / "a.ply").write_bytes(head.encode() + (text(columns).encode() if form == "ascii" else rows.tobytes()))
    found = cloud(tmp_path / "a.ply")
    assert np.allclose(found.points, POINTS)
    assert found.names == ("height",)
    assert found.attributes[:, 0].tolist() == [1, 2, 3, 4]
    assert found.left_out == (
        f"Of {tmp_path.name}/a.ply the property neighbors of a point is not read, because it holds lists.",
    )
    if form != "ascii":
        rows["count"][1] = 1  # lists of other lengths, which trimesh does not read
        (tmp_path / "a.ply").write_bytes(head.encode() + rows.tobytes()[:-4])
        with pytest.raises(ValueError, match=r"or its lists neighbors differ in length\. Export it without them\.$"):
            cloud(tmp_path / "a.ply")


def test_arrays_of_numbers_beside_the_points_are_attributes_and_others_are_named(tmp_path: Path) -> None:
    """Before, they were neither read nor named."""
    np.savez(tmp_path / "a.npz", points=POINTS, intensity=np.arange(4), normals=NORMALS, pose=np.eye(4), name="chair")
    found = cloud(tmp_path / "a.npz")
    assert found.names == ("nx", "ny", "nz", "intensity")
    assert found.select(("intensity",))[:, 0].tolist() == [0, 1, 2, 3]
    assert found.left_out == (f"Of {tmp_path.name}/a.npz the arrays pose, name are not read.",)
    np.savez(tmp_path / "b.npz", points=np.concatenate([POINTS, COLORS], 1), intensity=np.arange(4))
    found = cloud(tmp_path / "b.npz")
    assert found.names == ("red", "green", "blue")
    assert found.left_out == (f"Of {tmp_path.name}/b.npz the array intensity is not read.",)


MANY = np.random.default_rng(0).normal(size=(50, 3))


@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_counts_the_points_is_left_out(tmp_path: Path, start: int) -> None:
    """Before, it was x."""
    (tmp_path / "a.csv").write_text(text(np.concatenate([start + np.arange(50)[:, None], MANY], 1), ","))
    found = cloud(tmp_path / "a.csv")
    assert np.allclose(found.points, MANY, atol=1e-4)
    assert found.left_out == (
        f"The first column of {tmp_path.name}/a.csv counts the points from {start} and is left out. If it is x, name "
        "the columns x, y, z.",
    )
    named = tmp_path / "b.csv"
    named.write_text("x,y,z,w\n" + (tmp_path / "a.csv").read_text())
    assert cloud(named).points[:, 0].tolist() == list(range(start, start + 50))
    named.write_text(",x,y,z\n" + (tmp_path / "a.csv").read_text())  # as pandas writes
    assert np.allclose(cloud(named).points, MANY, atol=1e-4)
    assert cloud(named).names == ()
    assert cloud(named).left_out == (
        f"The first column of {tmp_path.name}/b.csv counts the points from {start} and is left out.",
    )
    np.save(tmp_path / "c.npy", np.concatenate([np.arange(50)[:, None], MANY[:, :2]], 1))  # x, y and z
    assert cloud(tmp_path / "c.npy").left_out == ()


def test_points_that_may_stand_for_missing_ones_are_said(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.concatenate([MANY, np.zeros((400, 3)), np.full((2, 3), -9999)]))
    found = cloud(tmp_path / "a.npy")
    assert len(found.points) == 452
    zeros, *codes = found.left_out
    assert zeros == (
        f"400 of 452 points of {tmp_path.name}/a.npy are at (0, 0, 0). They are read as points: if they stand for "
        "missing ones, remove them."
    )
    assert len(codes) == 1
    assert codes[0].startswith(f"In {tmp_path.name}/a.npy x is -9999 in 2 points, and from ")
    assert codes[0].endswith(
        " in all others. The same holds for y and z. These numbers are read as coordinates: if they stand for missing "
        "points, remove the points."
    )
    np.save(tmp_path / "b.npy", np.concatenate([MANY, np.zeros((1, 3))]))
    assert cloud(tmp_path / "b.npy").left_out == ()


PLY = "ply\nformat ascii 1.0\nelement vertex 9\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
REFUSED = {
    "no point": ("a.xyz", "# nothing\n", "has 0 points"),
    "one point": ("a.xyz", "1 2 3\n", "has 1 point. A cloud needs at least 3"),
    "two points": ("a.csv", "x,y,z\n1,2,3\n4,5,6\n", "has 2 points"),
    "equal points": ("a.xyz", "1 2 3\n" * 5, "all 5 points of .*a.xyz are equal"),
    "no finite point": ("a.xyz", "nan 2 3\n" * 5, "has 0 points with finite coordinates; the first other is line 1"),
    "a word": ("a.xyz", "1 2 3\n4 5 6\n7 8 chair\n", "line 3 is no point: '7 8 chair'"),
    "a short line": ("a.txt", "1 2 3\n\n4 5\n", "line 3 has 2 columns, and the first point has 3"),
    "two columns": ("a.xyz", "1 2\n3 4\n5 6\n", r"has the shape \(3, 2\); a cloud is \(N, 3\)"),
    "a header of other names": ("a.csv", "x,y,z\n1,2,3,4\n", "names 3 columns, and line 2 has 4 numbers"),
    "PLY without coordinates": ("a.ply", PLY.replace("float x", "float s"), "has no property x"),
    "PLY without points": ("a.ply", PLY.replace("vertex 9", "vertex 0"), "has 0 points"),
    "PLY cut short": ("a.ply", PLY + "1 2 3\n", "a.ply cannot be read as PLY"),
    "no PLY": ("a.ply", "solid", "has no header of PLY"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_cloud_is_refused_with_the_file_and_the_line(tmp_path: Path, case: str) -> None:
    name, content, sentence = REFUSED[case]
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=sentence):
        cloud(tmp_path / name)


def test_arrays_that_are_no_cloud_are_refused(tmp_path: Path) -> None:
    for array, sentence in (
        (np.array([{}], object), "holds object; a cloud is numbers"),
        (np.zeros((3, 100)), r"the shape \(3, 100\); .* Write the points as rows: points.T"),
        (np.zeros((2, 50, 3)), "Save each cloud as a file of its own"),
        (np.zeros(9, int), r"the shape \(9,\)"),
    ):
        np.save(tmp_path / "a.npy", array, allow_pickle=True)
        with pytest.raises(ValueError, match=sentence):
            cloud(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", one=POINTS, two=POINTS)
    with pytest.raises(ValueError, match="has the arrays one, two; a cloud has its coordinates in one named points"):
        cloud(tmp_path / "a.npz")


# folders -------------------------------------------------------------------------------------------------------------


def write_folder(root: Path) -> Path:
    """Two classes with a cloud of each form, a mesh, and files that cannot be read."""
    for name in ("lamp", "table"):
        (root / name).mkdir(parents=True)
        for number, (file, write) in enumerate(WRITERS.items()):
            write(root / name / f"{number}{Path(file).suffix}", np.concatenate([POINTS, NORMALS], 1))
        (root / name / "9.off").write_text("OFF\n4 1 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n")
    (root / "lamp" / "readme.txt").write_text("lamps of 1920")
    (root / "lamp" / "scan.las").write_bytes(b"LASF")
    (root / "lamp" / "9.ply").write_text("a copy of the mesh")
    (root / "list.md").write_text("lamp, table")
    (root / "nothing").mkdir()
    return root


def test_a_folder_has_clouds_of_any_form_and_names_what_is_left_out(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "shop")
    reader, reason = find_reader(folder, "clouds")
    assert reader is sys.modules[cloud_folder.__name__]
    assert reason == "its class folders have .csv, .npy, .npz, .off, .ply, .txt, .xyz"
    found = read(folder, "clouds", OPTIONS)
    assert found.classes == ("lamp", "table")
    assert {file.form for file in found.files} == {
        "PLY points",
        "mesh",
        "points as an array of numpy",
        "table of points",
    }
    record = inspect(folder, "clouds", OPTIONS)
    assert record.parts[0].by_class == (8, 8)
    assert record.options["points"] == "4 to 4 in a file; sampled on meshes"
    left_out = "\n".join(found.left_out)
    for sentence in (
        "Left out: list.md: it lies in no class folder.",
        "Left out: lamp/readme.txt: the first line of it is no point, and names no columns x, y, z.",
        "Left out: lamp/scan.las: .las is not read. Convert it: pdal translate scan.las scan.ply.",
        "Left out: lamp/9.ply: 9.off of the same name is read.",
    ):
        assert sentence in left_out
    assert "nothing" not in found.classes


def test_ten_files_that_are_left_out_are_named_and_the_others_counted() -> None:
    files = [(f"{number}.las", "it is not read") for number in range(13)]
    sentences = left_out_sentences(files)
    assert len(sentences) == 11
    assert sentences[9] == "Left out: 9.las: it is not read."
    assert sentences[10] == "Left out: 3 more files."


@pytest.mark.parametrize("layout", ["{name}/{part}/1.npy", "{part}/{name}/1.npy"])
def test_a_test_part_is_found_inside_the_classes_or_around_them(tmp_path: Path, layout: str) -> None:
    for name in ("lamp", "table"):
        for part in ("train", "test"):
            path = tmp_path / layout.format(name=name, part=part)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, POINTS)
    found = cloud_folder.read(tmp_path, OPTIONS)
    assert found.classes == ("lamp", "table")
    assert {part: [len(files) for files in by_class] for part, by_class in found.parts.items()} == {
        "train": [1, 1],
        "test": [1, 1],
    }


def test_a_folder_of_a_form_that_is_not_read_says_how_to_convert_it(tmp_path: Path) -> None:
    for name in ("lamp", "table"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.e57").touch()
    with pytest.raises(
        ValueError, match=r"no classes of clouds.*\.e57 is not read\. Convert it: pdal translate 1\.e57"
    ):
        read(tmp_path, "clouds", OPTIONS)


@pytest.mark.parametrize("layout", ["{name}/{part}/{number}.npy", "{part}/{name}/{number}.npy"])
@pytest.mark.parametrize("validation", ["val", "validation", "valid"])
def test_a_val_folder_is_the_validation_part(tmp_path: Path, layout: str, validation: str) -> None:
    """Before, val/ was left out: "it is neither train nor test"."""
    for part, count in (("train", 4), (validation, 2), ("test", 3)):
        for name in ("ball", "rod"):
            for number in range(count):
                path = tmp_path / layout.format(name=name, part=part, number=number)
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(path, POINTS + number)
    record = inspect(tmp_path, "clouds", OPTIONS)
    assert [(part.name, part.by_class) for part in record.parts] == [
        ("training", (4, 4)),
        ("validation", (2, 2)),
        ("test", (3, 3)),
    ]
    assert not record.left_out


def test_a_val_folder_alone_is_the_test_part(tmp_path: Path) -> None:
    for part in ("train", "val"):
        for name in ("ball", "rod"):
            path = tmp_path / part / name / "1.npy"
            path.parent.mkdir(parents=True)
            np.save(path, POINTS)
    assert [part.name for part in inspect(tmp_path, "clouds", OPTIONS).parts] == ["training", "test"]


def test_of_four_unnamed_columns_from_0_to_255_no_three_are_taken_for_the_colors(tmp_path: Path) -> None:
    """An intensity before the colors was read as red."""
    np.save(tmp_path / "a.npy", np.concatenate([POINTS, [[9], [8], [7], [6]], COLORS], 1))
    found = cloud(tmp_path / "a.npy")
    assert found.names == ("column 4", "column 5", "column 6", "column 7")
    with pytest.raises(UserFileError, match=r"it has no colors; it has column 4, .* Name its columns"):
        found.select(("red", "green", "blue"))
