"""Folders of tables of recordings: names of channels, subjects, endings, and what is not read."""

from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.tasks.recordings import read_recordings, subject_from_name

pytestmark = pytest.mark.bare


@pytest.mark.parametrize("first", [0, 1])
def test_the_numbers_that_pandas_writes_are_names(tmp_path: Path, first) -> None:
    values = np.random.default_rng(0).normal(size=(20, 4))
    body = "\n".join(",".join(map(str, row)) for row in values)
    (tmp_path / "a.csv").write_text(",".join(str(first + each) for each in range(4)) + "\n" + body)
    found = read_recordings(tmp_path)
    np.testing.assert_array_equal(found.series[0], values.T)
    assert found.channels == tuple(str(first + each) for each in range(4))
    assert found.remarks == (
        f"The numbers {first} to {first + 3} of the first line are read as names of the channels.",
    )
    lines = [f"{at},{line}" for at, line in enumerate(body.splitlines())]
    (tmp_path / "a.csv").write_text("\n".join([",0,1,2,3", *lines]))
    with pytest.raises(ValueError, match=r"the first column of a\.csv, '', rises at every time, so it is a clock"):
        read_recordings(tmp_path)


def test_endings_in_capitals_are_read_and_other_files_named(tmp_path: Path) -> None:
    table = "u,v\n" + "\n".join(f"{x},{y}" for x, y in np.random.default_rng(0).normal(size=(20, 2)))
    for name in ("a.csv", "b.CSV", "c.tsv"):
        (tmp_path / name).write_text(table)
    (tmp_path / "Channels.csv").write_text("channel,module\nu,left\nv,right\n")
    found = read_recordings(tmp_path)
    assert found.names == ("a", "b")
    assert found.modules == ("left", "right")
    assert found.remarks == (
        "Not read: 'c.tsv'. A recording of a folder is a .csv or a .parquet.",
        "Each file counts as a subject. If one has several, begin their names with sub-LABEL_",
    )


def test_capitals_make_no_other_subject_and_files_without_one_are_named(tmp_path: Path) -> None:
    table = "u,v\n" + "\n".join(f"{x},{y}" for x, y in np.random.default_rng(0).normal(size=(20, 2)))
    for name in ("S01_rest", "s01_task", "S02", "pilot"):
        (tmp_path / f"{name}.csv").write_text(table)
    found = read_recordings(tmp_path)
    assert dict(zip(found.names, found.subjects, strict=True)) == {
        "S01_rest": "S01", "s01_task": "S01", "S02": "S02", "pilot": "pilot",
    }  # fmt: skip
    assert found.note.startswith("Counted as a subject each: pilot. If one has several, begin")
    arrays = np.random.default_rng(0).normal(size=(4, 3, 20))
    np.savez(tmp_path / "a.npz", recordings=arrays, names=["anna_1", "anna_2", "ben_1", "ben_2"])
    note = "Each recording counts as a subject. If one has several, state them in the array subjects."
    assert read_recordings(tmp_path / "a.npz").note == note
    np.savez(tmp_path / "b.npz", recordings=arrays, subjects=["anna", "anna", "ben", "ben"])
    assert not read_recordings(tmp_path / "b.npz").note


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("sub-01_task-rest", "sub-01"),
        ("Sub-1_run-2", "Sub-1"),
        ("subject12_run1", "subject12"),
        ("S03_rest", "S03"),
        ("s1", "s1"),
        ("P_4-b", "P_4"),
        ("session1", "session1"),
        ("subjects", "subjects"),
        ("s1b_rest", "s1b_rest"),
        ("rest", "rest"),
    ],
)
def test_the_subject_of_a_recording_is_read_from_its_name(name, subject) -> None:
    assert subject_from_name(name) == subject


def test_tables_with_and_without_names_are_not_mixed(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3)).tolist()
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "b.csv").write_text("\n".join(["C,B,A", *lines]))
    with pytest.raises(ValueError, match=r"b\.csv names its channels in the first line, and a\.csv does not"):
        read_recordings(tmp_path)
    (tmp_path / "a.csv").write_text("\n".join(["A,B,C", *lines]))
    assert read_recordings(tmp_path).channels == ("A", "B", "C")


def test_a_missing_value_in_the_first_line_does_not_make_it_the_names(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3)).tolist()
    lines = [",".join(map(str, row)) for row in rows]
    (tmp_path / "a.csv").write_text("\n".join(["NA,-0.61,1.6", *lines]))
    with pytest.raises(ValueError, match=r"a\.csv, line 1: 'NA' in column 1 is not a number"):
        read_recordings(tmp_path)
    (tmp_path / "a.csv").write_text("\n".join(["NA,Cz,Pz", *lines]))
    assert read_recordings(tmp_path).channels == ("NA", "Cz", "Pz")


def test_each_channel_has_one_line_of_description_and_unused_ones_are_named(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2)).tolist()
    (tmp_path / "a.csv").write_text("\n".join(["A,B", *(",".join(map(str, row)) for row in rows)]))
    described = tmp_path / "channels.csv"
    described.write_text("channel,module\nA,u\nB,v\nA,w\n")
    with pytest.raises(ValueError, match=r"channels\.csv has two lines of the channel 'A'"):
        read_recordings(tmp_path)
    described.write_text("channel,module\nA,u\nB,v\nZ,w\n")
    read = read_recordings(tmp_path)
    assert read.modules == ("u", "v")
    assert "Not used: the lines of channels.csv of 'Z', which no table has." in read.remarks
