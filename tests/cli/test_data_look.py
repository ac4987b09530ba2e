"""``posenc data look``: what a path is read as, and the commands that take it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from posenc import cli
from posenc.workbench.tasks.points.cloud_files import list_clouds

pytestmark = pytest.mark.bare


def look(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["data", "look", *words])
    printed = capsys.readouterr()
    assert leaving.value.code == (2 if printed.err else 0)
    return printed.out + printed.err


def test_a_text_is_described_with_its_command(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text('{"text": "to be' + " to be" * 9 + '"}\n{"text": ""}\n')
    assert look(capsys, "docs.jsonl") == (
        "docs.jsonl is read as JSON Lines, because it ends in .jsonl.\n"
        "  59 characters, 5 of them different; documents 1, field text\n"
        "  vocabulary: ' beot'\n"
        "  begins: 'to be to be to be to be to be to be to be to be to be to be'\n"
        "  Left out: 1 line with an empty text\n"
        "  posenc run language docs.jsonl --set window=2\n"  # at quick a window has 64 tokens
    )
    Path("one.txt").write_text("aaa" * 1000)
    printed = look(capsys, "one.txt")
    assert "posenc: as it is, no study takes it: one.txt has 3,000 characters, and all are 'a'" in printed
    assert "posenc run" not in printed
    np.arange(50, dtype="<u2").tofile("train.bin")
    assert "add --dtype bytes" in look(capsys, "train.bin")
    printed = look(capsys, "train.bin", "--dtype", "uint16")
    assert "50 tokens, 50 of them different; dtype uint16" in printed
    assert "and 10 more" in printed
    assert printed.endswith("  posenc run language train.bin --dtype uint16 --set window=2\n")


TABLE = "a,b,c\n" + "".join(f"{n % 3},{n % 7},{n % 5}\n" for n in range(20))
FOLDERS = {
    "class folders of images: 2 classes, 3 images": (["a/1.png", "a/2.png", "b/1.jpg"], ["gridpe", "sc-pe"]),
    "class folders of meshes: 2 classes, 4 meshes": (
        ["train/a/1.off", "test/a/2.off", "train/b/1.off", "test/b/2.off"],
        ["points"],
    ),
    "2 images without class folders, of which 1.png is taken": (["1.png", "2.png"], ["image-fit"]),
    "a folder of tables": (["1.csv", "2.csv"], ["masked"]),
    "a scene": (["transforms.json", "1.png"], ["scene"]),
}


@pytest.mark.parametrize("form", FOLDERS)
def test_a_folder_is_what_its_files_are(tmp_path: Path, monkeypatch, capsys, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    files, studies = FOLDERS[form]
    for name in files:
        Path("mine", name).parent.mkdir(parents=True, exist_ok=True)
        Path("mine", name).write_text(TABLE if name.endswith(".csv") else "")
    printed = look(capsys, "mine")
    assert f"mine is read as {form}, because it" in printed
    assert [line.split()[2] for line in printed.splitlines() if line.startswith("  posenc run ")] == studies


def test_arrays_are_told_apart_by_their_names(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("r.npz", recordings=np.zeros((2, 3, 9)))
    assert "recordings of the shape 2 x 3 x 9" in look(capsys, "r.npz")
    np.savez("m.npz", v=np.zeros((4, 3)), f=np.zeros((2, 3), int))
    assert "a mesh: 4 vertices, 2 faces" in look(capsys, "m.npz")
    np.savez("x.npz", other=np.zeros(3))
    assert "x.npz has nothing that a study takes" in look(capsys, "x.npz")


def test_mixed_files_have_a_line_for_each_form(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.png": "x", "b.csv": TABLE, "c.txt": "to be " * 200}.items():
        Path(name).write_text(text)
    printed = look(capsys, ".")
    assert [line.split()[2] for line in printed.splitlines() if line.startswith("  posenc run ")] == [
        "image-fit",
        "masked",
        "language",
    ]
    assert "there is no file nosuch" in look(capsys, "nosuch")


def test_an_array_that_no_study_reads_comes_with_the_command_that_saves_it(tmp_path: Path, monkeypatch, capsys) -> None:
    """Before, an array (recording, channel, time) was read as token ids, and (channel, time) as a cloud of points."""
    monkeypatch.chdir(tmp_path)
    np.save("three.npy", np.zeros((2, 3, 40)))
    np.save("two.npy", np.zeros((8, 300)))
    printed = look(capsys, "three.npy")
    assert "an array of float64, 2 x 3 x 40" in printed
    assert "recordings=numpy.load('three.npy'))" in printed
    assert "posenc run masked three.npz" in printed
    printed = look(capsys, "two.npy")
    assert "numpy.load('two.npy')[None])" in printed
    assert "numpy.load('two.npy').T[None])" in printed
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "masked", "two.npy"])
    assert leaving.value.code == 2
    assert "numpy.load('two.npy').T[None])" in capsys.readouterr().err


def test_look_says_what_the_run_would_say(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    series = np.random.default_rng(0).normal(size=(3, 6, 50))
    np.savez("whole.npz", recordings=series)
    assert "  3 recordings of 3 subjects, 6 channels, 50 time points\n" in look(capsys, "whole.npz")
    series[0, 2] = 1
    np.savez("constant.npz", recordings=series)
    printed = look(capsys, "constant.npz")
    assert "posenc: as it is, no study takes it: " in printed
    assert "posenc run masked constant.npz" not in printed
    open_mesh = {"v": np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), "f": np.array([[0, 1, 2], [0, 1, 3]])}
    np.savez("open.npz", **open_mesh)
    assert "--panels occupancy" in look(capsys, "open.npz")
    flat = {"v": np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]), "f": np.array([[0, 1, 2], [1, 3, 2]])}
    np.savez("flat.npz", **flat)
    printed = look(capsys, "flat.npz")
    assert "posenc: as it is, no study takes it: flat.npz encloses no volume" in printed
    assert "posenc run" not in printed
    corners = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
    sides = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4]]  # without the side z = 1
    faces = [[a, b, c] for w, x, y, z in sides for a, b, c in ((w, x, y), (w, y, z))]
    np.savez("box.npz", v=corners, f=np.array(faces))
    printed = look(capsys, "box.npz")
    assert "so it has no signed distance" in printed
    assert printed.endswith("  posenc run shape-fit box.npz --panels occupancy\n")
    for name in ("a", "b"):
        Path("pets", name).mkdir(parents=True)
        Path("pets", name, "1.png").write_bytes(b"x")
    assert "Not read: pixels. A run names the images that do not decode: posenc run gridpe pets --dry-run" in look(
        capsys, "pets"
    )


def test_clouds_without_class_folders_are_no_meshes_and_no_recordings(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("ball")
    folder.mkdir()
    points = np.random.default_rng(0).normal(size=(5, 3))
    np.save(folder / "a.npy", points)
    np.savetxt(folder / "b.csv", points, delimiter=",")
    printed = look(capsys, "ball")
    assert "1 point cloud without class folders; posenc run points takes a folder with a folder of clouds" in printed
    assert "recordings" not in printed
    (folder / "scan.las").write_bytes(b"LASF")
    with pytest.raises(ValueError, match=r"scan\.las: \.las is not read\. Convert it: "):
        list_clouds(folder / "scan.las")


def test_a_table_without_known_names_is_read_by_the_columns_that_are_named(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sensor.csv").write_text(
        "when,x,z,level\n" + "".join(f"2024-01-0{day},{day},1,{day}\n" for day in range(1, 7))
    )
    printed = look(capsys, "sensor.csv")
    assert "  posenc run series sensor.csv --time COLUMN takes it if a column has times." in printed
    assert "  posenc run places sensor.csv --coordinates COLUMN COLUMN --target COLUMN takes it if" in printed
    assert printed.endswith("posenc: as it is, no study takes sensor.csv. The lines above say what is needed.\n")
    printed = look(capsys, "sensor.csv", "--time", "when")
    assert "sensor.csv has 6 readings, and its training part has no room for 8 readings after a context" in printed
    assert "posenc run series sensor.csv" not in printed
    days = np.datetime64("2024-01-01") + np.arange(90)
    Path("sensor.csv").write_text("when,x,z,level\n" + "".join(f"{day},{n},1,{n % 5}\n" for n, day in enumerate(days)))
    printed = look(capsys, "sensor.csv", "--time", "when")
    assert "sensor.csv is read as table of series, because --time names the column of its times." in printed
    assert "  posenc run series sensor.csv --time when" in printed.splitlines()
    printed = look(capsys, "sensor.csv", "--coordinates", "x", "z", "--target", "level")
    assert "because --coordinates names the columns of its coordinates." in printed


def test_graphs_that_no_run_takes_end_with_the_sentence_of_the_run(tmp_path: Path, monkeypatch, capsys) -> None:
    """Before, the command of a run was printed, and the run refused the graphs."""
    monkeypatch.chdir(tmp_path)
    Path("X").mkdir()
    Path("X/X_A.txt").write_text("1, 2\n3, 4\n")
    Path("X/X_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    Path("X/X_graph_labels.txt").write_text("a\nb\n")
    printed = look(capsys, "X")
    assert "  all: 2 graphs, 4 nodes, 2 edges\n" in printed
    assert printed.endswith(
        "posenc: as it is, no study takes it: X has 2 graphs with an answer, and five folds need 10. Give more.\n"
    )
    assert "posenc run" not in printed
