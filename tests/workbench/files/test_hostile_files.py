"""Every reader meets every thing that is not a file of its kind: a sentence, at once, and within little memory."""

from __future__ import annotations

import gzip
import io
import json
import signal
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hostile_files as hostile
from posenc.workbench.data import pickled_batch
from posenc.workbench.data.readers import idx_files
from posenc.workbench.files import user_files
from posenc.workbench.tables.export import as_latex
from posenc.workbench.tasks import scenes, shapes, single_image, text
from posenc.workbench.tasks.recordings import read_recordings

pytestmark = pytest.mark.bare
FREE = 256 << 20
SECONDS = 20


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("posenc.workbench.memory", "posenc.workbench.files.user_files", single_image.image_file.__name__):
        monkeypatch.setattr(f"{module}.free_memory", lambda: FREE)


@contextmanager
def at_once() -> Iterator[None]:
    """Context that ends with an error after some seconds, so that a reader that waits fails its test."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError("the reader waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def place(folder: Path, reader: hostile.Reader) -> Path:
    path = folder / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("name", hostile.READERS)
def test_a_whole_file_is_read(tmp_path: Path, name: str) -> None:
    reader = hostile.READERS[name]
    path = place(tmp_path, reader)
    reader.write(path)
    if name == "puzzles csv":  # its one puzzle is refused for what it says, not for how it is written
        with pytest.raises(ValueError, match="line 2"):
            reader.read(path)
    else:
        assert reader.read(path) is not None


@pytest.mark.parametrize("kind", hostile.SPECIAL)
@pytest.mark.parametrize("name", hostile.READERS)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, kind: str) -> None:
    reader = hostile.READERS[name]
    path = place(tmp_path, reader)
    if name in ("transforms", "cifar"):
        reader.write(path)
        path.unlink()
    hostile.SPECIAL[kind](path)
    with at_once(), pytest.raises(ValueError, match=r"\w") as error:
        reader.read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", hostile.DAMAGED)
@pytest.mark.parametrize("name", hostile.READERS)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, name: str, damage: str) -> None:
    reader = hostile.READERS[name]
    path = place(tmp_path, reader)
    reader.write(path)
    path.write_bytes(hostile.DAMAGED[damage](path.read_bytes()))
    with at_once(), suppress(ValueError):
        reader.read(path)  # half of a table may be a table


@pytest.mark.parametrize("name", ["text", "table", "puzzles csv", "obj", "stl", "pack", "transforms", "results"])
def test_two_gigabytes_of_nothing_are_refused_unread(tmp_path: Path, name: str) -> None:
    path = place(tmp_path, hostile.READERS[name])
    hostile._sparse(path)
    with at_once(), pytest.raises(ValueError, match=r"GiB of memory|cannot be read"):
        hostile.READERS[name].read(path)


@pytest.mark.parametrize(
    "name", [name if "GiB" not in name else pytest.param(name, marks=pytest.mark.full) for name in hostile.BOMBS]
)
def test_a_small_file_that_takes_much_memory_is_refused(tmp_path: Path, name: str) -> None:
    kind, write = hostile.BOMBS[name]
    path = place(tmp_path, hostile.READERS[kind])
    write(path)
    with at_once(), pytest.raises(ValueError, match=r"\w") as error:
        hostile.READERS[kind].read(path)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    files = {}
    for name, reader in hostile.READERS.items():
        path = place(tmp_path_factory.mktemp("whole"), reader)
        reader.write(path)
        files[name] = path, path.read_bytes()
    return files


@pytest.mark.parametrize("name", hostile.READERS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_any_changed_bytes_are_read_or_refused(whole: dict[str, tuple[Path, bytes]], name: str, data) -> None:
    path, content = whole[name]
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4)) or b""
        changed = changed or bytearray(b"0")
    path.write_bytes(changed)
    with at_once(), suppress(ValueError):
        hostile.READERS[name].read(path)


# bombs ---------------------------------------------------------------------------------------------------------------


def test_a_packed_text_that_unpacks_to_gigabytes_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(64):
            file.write(b"a" * (1 << 20))
    with pytest.raises(ValueError, match=r"needs 1\.50 GiB of memory, and 0\.25 are free\. Cut the file"):
        text.read_text(path)
    content = path.read_bytes()
    path.write_bytes(content[:-4] + struct.pack("<I", 5))  # it says that it holds five bytes
    with pytest.raises(ValueError, match=r"GiB of memory, and 0\.25 are free"):
        text.read_text(path)


@pytest.mark.parametrize("shape", ["(1000000000000, 3)", "(-1, 3)", "((((", "(10**12, 3)", "'a'", "(2, 3)"])
def test_headers_that_lie_are_refused_before_memory_is_taken(tmp_path: Path, shape: str) -> None:
    path = hostile.npz_of(tmp_path / "a.npz", shape)
    for read in (shapes.read_shape, scenes.load_spot):
        with pytest.raises(ValueError, match=r"a\.npz"):
            read(path)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("recordings.npy", zipfile.ZipFile(path).read("recordings.npy"))
    with pytest.raises(ValueError, match=r"b\.npz"):
        read_recordings(tmp_path / "b.npz")


def test_an_idx_file_of_gigabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes((0, 0, 8, 3)) + struct.pack(">III", 1 << 20, 1 << 10, 4)))
    with pytest.raises(ValueError, match=r"needs 12\.00 GiB of memory"):
        idx_files.read_idx(path, 3)


def test_a_batch_takes_no_memory_that_it_only_names() -> None:
    assert pickled_batch.read_batch(b"\x80\x02Nr\xff\xff\xff\x7f.") is None  # pickle would take a memo of 32 GB
    with pytest.raises(ValueError, match=r"\w"):
        pickled_batch.read_batch(b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".")
    with pytest.raises(ValueError, match=r"asks for os\.system"):
        pickled_batch.read_batch(b"cos\nsystem\n(S'true'\ntR.")


def test_an_image_is_planned_with_its_true_peak(tmp_path: Path) -> None:
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (5000, 4000)).save(content, "PNG")  # 20 megapixels of 14 bytes at the peak: 280 MB
    (tmp_path / "a.png").write_bytes(content.getvalue())
    with pytest.raises(ValueError, match=r"5000 x 4000: decoding it takes about 0\.3 GiB"):
        single_image.read_image(tmp_path / "a.png")


# transforms.json and meshes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"file_path": "/etc/passwd"}, "leads out of the folder"),
        ({"file_path": "../0.png"}, "leads out of the folder"),
        ({"file_path": "C:\\0.png"}, "leads out of the folder"),
        ({"file_path": "link.png"}, "is a link"),
        ({"fl_x": 10**400}, "`fl_x` should be a number"),
        ({"fl_x": 1e-300}, "the focal length fl_x is 1e-300"),
        ({"fl_x": "5"}, "`fl_x` should be a number"),
        ({"cx": True}, "`cx` should be a number"),
        ({"transform_matrix": [["1"] * 4] * 4}, "4 rows of 4 numbers"),
        ({"transform_matrix": {"a": 1}}, "4 rows of 4 numbers"),
        ({"transform_matrix": [[1, 0, 0, 1e300], *hostile.POSE[1:]]}, "not finite or above"),
    ],
)
def test_a_frame_that_cannot_be_is_named(tmp_path: Path, changes: dict, sentence: str) -> None:
    hostile.write_transforms(tmp_path / "transforms.json")
    (tmp_path / "link.png").symlink_to(tmp_path / "1.png")
    (tmp_path / "transforms.json").write_text(json.dumps(hostile.transforms(**changes)))
    with pytest.raises(ValueError, match=sentence) as error:
        scenes.read_scene(tmp_path)
    assert str(error.value).startswith("transforms.json, frame 0")
    assert len(str(error.value)) < 600


def test_a_frame_whose_name_no_file_can_have_has_no_image(tmp_path: Path) -> None:
    hostile.write_transforms(tmp_path / "transforms.json")
    (tmp_path / "transforms.json").write_text(json.dumps(hostile.transforms(file_path="x" * 5000)))
    with pytest.raises(ValueError, match=r"frames have no image|has an image, such as 'xxx") as error:
        scenes.read_scene(tmp_path)
    assert len(str(error.value)) < 600


def test_a_number_of_5000_digits_is_named_with_its_frame(tmp_path: Path) -> None:
    hostile.write_transforms(tmp_path / "transforms.json")
    content = json.dumps(hostile.transforms(fl_x=12345)).replace("12345", "7" * 5000)
    (tmp_path / "transforms.json").write_text(content)
    with pytest.raises(ValueError, match=r"transforms\.json, frame 0 .*`fl_x` should be a number; got inf"):
        scenes.read_scene(tmp_path)


def test_a_mesh_of_the_largest_numbers_is_refused(tmp_path: Path) -> None:
    arrays = {"v": np.eye(4, 3) * 1e308, "f": np.array(hostile.FACES)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=r"a\.npz: a vertex has the coordinate 1e\+308"):
        shapes.read_shape(tmp_path / "a.npz")


# numbers, tables, LaTeX ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", ["1_000", "１２", "x"])
def test_what_only_python_reads_as_a_number_is_none(tmp_path: Path, cell: str) -> None:
    (tmp_path / "a.csv").write_text(f"x,y\n1,2\n3,{cell}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.csv, line 3: .* is not a number"):
        read_recordings(tmp_path)
    with pytest.raises(ValueError, match=r"\w"):
        user_files.number(cell)
    assert user_files.number("1e3") == 1000


def test_a_cell_that_csv_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1," + "2" * 200_000 + "\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 2: this is not a table \(field larger"):
        read_recordings(tmp_path)


def test_latex_prints_what_a_name_says() -> None:
    row = {"study": "s", "preset": "p", "setting": "m", "seed": 0, "metric": "a", "value": 1.0, "unit": "u"}
    table = as_latex([row | {"scheme": '\\input{x}\n~^<>"|_&%#$'}])
    assert r"\textbackslash{}input\{x\} \textasciitilde{}\textasciicircum{}\textless{}\textgreater{}" in table
    assert r"\input{" not in table
