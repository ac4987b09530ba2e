"""Meshes read from files, what is done to them, and the sentence for each file that is none."""

import builtins
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.tasks import shapes
from posenc.workbench.tasks.shapes import Mesh, cuboid

CUBE = Mesh(*cuboid(2, 2, 2))


def obj(path, vertices=CUBE.vertices, faces=CUBE.faces, extra=""):
    lines = ["v " + " ".join(map(str, v)) for v in np.asarray(vertices).tolist()]
    lines += ["f " + " ".join(str(n + 1) for n in f) for f in np.asarray(faces).tolist()]
    path.write_text(extra + "\n".join(lines) + "\n")
    return path


def stl(path, mesh=CUBE):
    content = b"\0" * 80 + struct.pack("<I", len(mesh.faces))
    for normal, corners in zip(mesh.normals, mesh.corners, strict=True):
        content += struct.pack("<12fH", *normal, *corners.ravel(), 0)
    path.write_bytes(content)
    return path


# reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["obj", "ply", "stl", "npz"])
def test_every_format_gives_the_same_shape(tmp_path, kind):
    path = tmp_path / f"cube.{kind}"
    if kind == "npz":
        np.savez(path, v=CUBE.vertices.astype(np.float32), f=CUBE.faces.astype(np.int32))
    elif kind == "stl":
        stl(path)
    elif kind == "obj":
        obj(path)
    else:
        shapes.write_mesh(CUBE, path)
    shape = shapes.read_shape(path)
    assert shape.name == path.name
    assert shape.notes == ()
    assert shape.mesh.watertight
    assert len(shape.mesh.vertices) == 8
    assert shape.mesh.volume == pytest.approx(0.8**3)
    np.testing.assert_allclose(shape.placement.from_cube(shape.mesh.box[1]), [1, 1, 1])


def test_quads_several_objects_and_a_material_that_is_not_there(tmp_path):
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    path = obj(tmp_path / "quads.obj", faces=quads, extra="mtllib lost.mtl\nusemtl gold\n")
    assert len(shapes.read_shape(path).mesh.faces) == 12
    text = path.read_text() + "o second\n" + "".join(f"v {x + 4} {y} {z}\n" for x, y, z in CUBE.vertices.tolist())
    text += "".join("f " + " ".join(str(n + 9) for n in f) + "\n" for f in CUBE.faces.tolist())
    path.write_text(text)
    both = shapes.read_shape(path)
    assert len(both.mesh.faces) == 24
    assert both.mesh.volume == pytest.approx(2 * (2 * both.placement.scale) ** 3)


def test_negative_numbers_of_an_obj_count_back_from_the_vertices_before_the_face(tmp_path):
    """Before, they counted back from the last vertex of the file, and this cube became one square."""
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    squares = ["".join("v {} {} {}\n".format(*CUBE.vertices[n]) for n in quad) + "f -4 -3 -2 -1\n" for quad in quads]
    path = tmp_path / "soup.obj"
    path.write_text("".join(squares))
    assert shapes.read_shape(path).mesh.volume == pytest.approx(0.8**3)
    path.write_text("vt 0 0\r\nvn 0 0 1\r\n" + "".join(squares).replace("\n", "\r\n").replace("-3", "-3/-1/1 \\\r\n"))
    assert shapes.read_shape(path).mesh.volume == pytest.approx(0.8**3)
    path.write_text(squares[0].replace("-4", "-5"))
    with pytest.raises(ValueError, match=r"soup\.obj names vertex -5, counted back, and 4 vertices stand before it"):
        shapes.read_shape(path)
    path.write_text(obj(path).read_text() + "f 0 1 2\n")
    with pytest.raises(ValueError, match="names vertex 0, and OBJ counts vertices from 1"):
        shapes.read_shape(path)


def test_vertices_that_a_texture_splits_are_one(tmp_path):
    lines = obj(tmp_path / "a.obj").read_text().splitlines()
    textured = [line if line[0] == "v" else "f " + " ".join(f"{n}/{i + 1}" for i, n in enumerate(line.split()[1:]))
                for line in lines]  # fmt: skip
    (tmp_path / "a.obj").write_text("vt 0 0\nvt 1 0\nvt 0 1\n" + "\n".join(textured))
    assert shapes.read_shape(tmp_path / "a.obj").mesh.watertight


def test_a_shape_that_is_inside_out_is_turned_and_says_so(tmp_path):
    shape = shapes.read_shape(obj(tmp_path / "a.obj", faces=CUBE.faces[:, ::-1]))
    assert shape.mesh.volume > 0
    assert shape.notes == ("The faces were inside out and were turned.",)


def test_a_part_that_is_inside_out_is_turned_and_a_cavity_is_not(tmp_path):
    beside, inside = CUBE.vertices + 5, 0.5 * CUBE.vertices + 0.25
    for other, turned in ((beside, ("1 part inside out was turned, because nothing encloses it.",)), (inside, ())):
        vertices = np.concatenate([CUBE.vertices, other])
        faces = np.concatenate([CUBE.faces, CUBE.faces[:, ::-1] + len(CUBE.vertices)])
        path = tmp_path / f"{len(turned)}.obj"
        path.write_text(
            "".join(f"v {x} {y} {z}\n" for x, y, z in vertices)
            + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces)
        )
        shape = shapes.read_shape(path)
        assert shape.notes == turned
        expected = 2.0 if turned else 1 - 0.125
        scale = shape.mesh.diagonal / np.linalg.norm(np.ptp(vertices, axis=0))
        assert shape.mesh.volume == pytest.approx(expected * CUBE.volume * scale**3)


def test_faces_without_area_are_left_out_and_counted(tmp_path):
    faces = [*CUBE.faces.tolist(), [0, 0, 1], [0, 3, 3]]
    shape = shapes.read_shape(obj(tmp_path / "a.obj", faces=faces))
    assert len(shape.mesh.faces) == 12
    assert shape.notes == ("2 faces without area were left out.",)
    assert shape.mesh.watertight


@pytest.mark.parametrize(
    ("faces", "edges"),
    [
        (CUBE.faces[1:], 3),  # a hole
        ([*CUBE.faces[1:].tolist(), CUBE.faces[0, ::-1].tolist()], 3),  # one face turned round
        ([*CUBE.faces.tolist(), CUBE.faces[0].tolist()], 3),  # one face twice
    ],
)
def test_a_mesh_that_is_not_watertight_says_so(tmp_path, faces, edges):
    shape = shapes.read_shape(obj(tmp_path / "a.obj", faces=faces))
    assert not shape.mesh.watertight
    assert "not watertight" in shape.notes[0]
    assert shape.mesh.open_edges >= edges
    assert f"{shape.mesh.open_edges} of its edges" in shape.notes[0]


@pytest.mark.data
def test_spot_is_watertight():
    data = os.environ.get("POSENC_DATA")
    if not data or not (Path(data) / "mesh" / "spot.npz").is_file():
        pytest.skip("POSENC_DATA does not name a folder with mesh/spot.npz")
    spot = shapes.read_shape(Path(data) / "mesh" / "spot.npz")
    assert spot.mesh.watertight
    assert spot.notes == ()
    assert len(spot.mesh.faces) == 5856
    assert spot.mesh.volume / spot.placement.scale**3 == pytest.approx(0.7182588, rel=1e-6)
    box = shapes.place_in_cube("spot", spot.mesh).mesh.box
    np.testing.assert_allclose(box[1] - box[0], spot.mesh.box[1] - spot.mesh.box[0])


# what cannot be read -----------------------------------------------------------------------------------------------


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_a_file_of_another_kind_or_none_at_all(tmp_path):
    with pytest.raises(ValueError, match=r"read from .obj, .ply, .stl, .off, .npz; got shape.blend"):
        shapes.read_shape(tmp_path / "shape.blend")
    with pytest.raises(ValueError, match="there is no file"):
        shapes.read_shape(tmp_path / "shape.obj")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.obj", b""),
        ("a.obj", b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
        ("a.obj", b"v 0 0 zero\nf 1 2 3\n"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
        ("a.ply", b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nend_header\n0\n"),
        ("a.ply", b"no ply at all"),
        ("a.stl", b"solid nothing"),
        ("a.stl", b"\0" * 80 + struct.pack("<I", 1000) + b"\0" * 60),
        ("a.npz", b"PK no archive"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_it(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"\w") as error:
        shapes.read_shape(tmp_path / name)
    assert one_sentence(error).startswith(name)


def test_points_without_faces(tmp_path):
    with pytest.raises(ValueError, match=r"a.obj: .*this mesh has no faces. A cloud of points has none") as error:
        shapes.read_shape(obj(tmp_path / "a.obj", faces=np.zeros((0, 3), int)))
    one_sentence(error)


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_vertices_that_are_not_finite(tmp_path, number):
    vertices = CUBE.vertices.copy()
    vertices[2, 1] = float(number)
    np.savez(tmp_path / "a.npz", v=vertices, f=CUBE.faces)
    for path in (tmp_path / "a.npz", obj(tmp_path / "a.obj", vertices)):
        with pytest.raises(ValueError, match="1 of 8 vertices are NaN or infinite") as error:
            shapes.read_shape(path)
        assert one_sentence(error).startswith(path.name)


def test_a_mesh_too_large_for_memory_is_refused_with_the_number(tmp_path, monkeypatch):
    monkeypatch.setattr(shapes.meshes, "MAX_FACES", 10)
    monkeypatch.setattr(shapes.meshes, "FACE_BYTES", 2**30)
    with pytest.raises(ValueError, match=r"a.obj has 12 faces, which would take about 12 GiB; up to 10 are read"):
        shapes.read_shape(obj(tmp_path / "a.obj"))


def test_a_surface_of_no_area(tmp_path):
    with pytest.raises(ValueError, match="none of the faces has an area"):
        shapes.read_shape(obj(tmp_path / "a.obj", CUBE.vertices * [1, 0, 0]))


def test_an_archive_without_a_mesh(tmp_path):
    np.savez(tmp_path / "a.npz", vertices=CUBE.vertices)
    with pytest.raises(
        ValueError, match=r"a.npz has no f; it holds vertices. A mesh is the arrays v \(vertices, N x 3\)"
    ):
        shapes.read_shape(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("vertices", "faces", "says"),
    [
        (np.zeros((3, 2)), [[0, 1, 2]], "vertices \\(V, 3\\) and faces \\(F, 3\\)"),
        (np.zeros((3, 3)), [[0.0, 1.0, 2.0]], "numbers of vertices, integers"),
        (np.zeros((3, 3)), [[0, 1, 3]], "a face names vertex 3, and there are 3"),
        (np.zeros((3, 3)), [[0, 1, -1]], "counted from 0"),
        (np.zeros((0, 3)), [], "this mesh has no faces"),
    ],
)
def test_a_mesh_of_wrong_arrays_is_refused(vertices, faces, says):
    with pytest.raises(ValueError, match=says):
        Mesh(vertices, np.array(faces))


@pytest.mark.parametrize("missing", ["trimesh", "skimage"])
def test_a_missing_library_is_named_with_its_command(tmp_path, monkeypatch, missing):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == missing:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    path = obj(tmp_path / "a.obj")
    needs = {"trimesh": lambda: shapes.read_shape(path), "skimage": lambda: shapes.marching_cubes(np.zeros((3, 3, 3)))}
    with pytest.raises(ValueError, match=r"not installed: pip install 'posenc\[fields\]'"):
        needs[missing]()


# writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["obj", "ply"])
def test_what_is_written_can_be_read(tmp_path, kind):
    path = shapes.write_mesh(CUBE, tmp_path / "new" / f"cube.{kind}")
    back = shapes.read_shape(path)
    assert back.mesh.volume == pytest.approx(0.8**3)
    np.testing.assert_allclose(back.placement.from_cube(back.mesh.box[0]), [-1, -1, -1], atol=1e-6)


def test_another_format_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"written as .obj or .ply; got cube.stl"):
        shapes.write_mesh(CUBE, tmp_path / "cube.stl")
