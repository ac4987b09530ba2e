"""Recordings: what they must be, how they are read, written and divided."""

import doctest
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pytest

from posenc.cli import main
from posenc.workbench.tasks import recordings
from posenc.workbench.tasks.recordings import (
    Recordings,
    cut_into_blocks,
    memory_map,
    npz_file,
    read_recordings,
    series,
    split,
    write_recordings,
)

pytestmark = pytest.mark.bare

NUMBERS = np.random.default_rng(0).normal(size=(3, 4, 50)).astype(np.float32)


def made(**other) -> Recordings:
    return Recordings(**{"series": tuple(NUMBERS), "names": ("a", "b", "c"), **other})


def test_the_worked_example() -> None:
    result = doctest.testmod(recordings)
    assert (result.failed, result.attempted > 5) == (0, True)


# what they are -------------------------------------------------------------------------------------------------------


def test_what_nobody_said_is_filled_in() -> None:
    found = made(names=("sub-01_run-1", "sub-01_run-2", "walk sub-02"))
    assert found.channels == ("channel 1", "channel 2", "channel 3", "channel 4")
    assert found.subjects == ("sub-01", "sub-01", "walk sub-02")
    assert (len(found), found.frames, found.note, found.modules, found.coordinates) == (3, 150, "", None, None)
    assert found.take([2, 0]).names == ("walk sub-02", "sub-01_run-1")
    assert found.take([2, 0]).series[0] is found.series[2]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"series": (NUMBERS[0], NUMBERS[1, :3], NUMBERS[2])}, "'a' has 4 and 'b' has 3. Leave out"),
        ({"series": (NUMBERS, NUMBERS, NUMBERS)}, r"recording 'a' is an array \(channel, time\) of real numbers; got"),
        ({"series": (NUMBERS[0].astype(complex),) * 3}, "got complex128"),
        ({"series": (NUMBERS[0, :, :1],) * 3}, r"\(4, 1\). Are the axes swapped"),
        ({"series": (), "names": ()}, "there is no recording"),
        ({"names": ("a", "b")}, "names has one entry per recording: 3 are needed; got 2"),
        ({"names": ("a", "b", "a")}, "names has 'a' more than once"),
        ({"subjects": ("x",)}, "subjects has one entry per recording: 3 are needed; got 1"),
        ({"channels": ("x", "y", "z")}, "channels has one entry per channel: 4 are needed; got 3"),
        ({"channels": ("x", "y", "z", "x")}, "channels has 'x' more than once"),
        ({"modules": tuple("12345678")}, "modules has one entry per channel: 4 are needed; got 8"),
        ({"modules": ("x", "", "x", "y")}, "each channel needs a module, and 'channel 2' has none. Give channels"),
        ({"coordinates": np.zeros((3, 2))}, "coordinates has one entry per channel: 4 are needed; got 3"),
        ({"coordinates": np.full((4, 2), np.nan)}, "coordinates are finite numbers, one row per channel"),
    ],
)
def test_recordings_that_do_not_go_together_are_refused(other, told) -> None:
    with pytest.raises(ValueError, match=told):
        made(**other)


def test_channels_that_cannot_be_standardised_are_named_or_dropped(monkeypatch) -> None:
    monkeypatch.setattr(series, "CHUNK_VALUES", 60)  # one channel at a time
    numbers = NUMBERS.copy()
    numbers[1, 2, 7], numbers[2, 0] = np.nan, 5.0
    bad = made(series=tuple(numbers), modules=tuple("wxyz"), coordinates=np.arange(8.0).reshape(4, 2))
    with pytest.raises(
        ValueError, match=r"'channel 3' is not finite in recording 'b', 'channel 1' is constant in rec.*'c'"
    ):
        bad.validated()
    found = bad.validated(drop=True)
    assert (found.channels, found.modules, found.dropped) == (
        ("channel 2", "channel 4"), ("x", "z"), ("channel 1", "channel 3")
    )  # fmt: skip
    assert found.note == "Left out (constant or not finite): channel 1, channel 3."
    np.testing.assert_array_equal(found.coordinates, [[2, 3], [6, 7]])
    np.testing.assert_array_equal(found.series[2], numbers[2][[1, 3]])
    assert made().validated(drop=True).dropped == ()
    numbers[0, 1] = np.inf
    with pytest.raises(ValueError, match=r"3 of 4 channels are constant or not finite; at least two must be left"):
        made(series=tuple(numbers)).validated(drop=True)


# files ---------------------------------------------------------------------------------------------------------------


def test_an_npz_is_mapped_where_it_lies(tmp_path: Path) -> None:
    path, coordinates = tmp_path / "some.npz", np.arange(12).reshape(4, 3)
    np.savez(
        path, recordings=NUMBERS, channels=np.array(list("wxyz")), modules=np.array([1, 1, 2, 2]),
        coordinates=coordinates, subjects=np.array(["s1", "s1", "s2"]),
    )  # fmt: skip
    found = read_recordings(path)
    assert (found.names, found.channels) == (("recording 1", "recording 2", "recording 3"), tuple("wxyz"))
    assert (found.modules, found.subjects) == (("1", "1", "2", "2"), ("s1", "s1", "s2"))
    np.testing.assert_array_equal(found.series, NUMBERS)
    assert all(isinstance(each, np.memmap) for each in found.series)
    assert found.coordinates is not None
    assert found.coordinates.dtype == np.float64
    np.testing.assert_array_equal(found.coordinates, coordinates)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_compressed_npz_and_one_in_the_other_order_are_the_same(tmp_path: Path, order) -> None:
    np.savez_compressed(tmp_path / "packed.npz", recordings=np.asarray(NUMBERS, order=order))
    np.savez(tmp_path / "plain.npz", recordings=np.asarray(NUMBERS, order=order))
    for name in ("packed", "plain"):
        np.testing.assert_array_equal(read_recordings(tmp_path / f"{name}.npz").series, NUMBERS)
    np.savez(tmp_path / "single.npz", recordings=NUMBERS[0].astype(np.int16) + np.arange(50, dtype=np.int16))
    assert len(read_recordings(tmp_path / "single.npz")) == 1


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"data": NUMBERS}, "has the unknown array 'data'; the arrays of a file are recordings, channels"),
        ({"channels": np.arange(4)}, "has no array 'recordings'.*but channels"),
        ({}, "has no array 'recordings'.*but nothing"),
        ({"recordings": NUMBERS[0, 0]}, r"of real numbers; got float32 of shape \(50,\)"),
        ({"recordings": NUMBERS.astype(str)}, "of real numbers; got <U"),
        ({"recordings": np.array([NUMBERS[0], NUMBERS[0, :2]], object)}, "holds Python objects.*different lengths go"),
        (
            {"recordings": NUMBERS, "channels": np.array(list("wxyz"), object)},
            r"Write it as text: channels=numpy.array\(",
        ),
        ({"recordings": NUMBERS, "modules": np.ones((4, 2), int)}, "modules of .* is one row of text or whole numbers"),
        ({"recordings": NUMBERS, "coordinates": np.array(list("wxyz"))}, "coordinates of .* are numbers"),
        ({"recordings": NUMBERS[:0]}, r"of real numbers; got float32 of shape \(0, 4, 50\)"),
        (
            {"recordings": NUMBERS * np.nan},
            "'channel 1' is not finite in recording 'recording 1'.* and 1 more. Correct",
        ),
    ],
)
def test_an_npz_that_holds_something_else_is_refused(tmp_path: Path, arrays, told) -> None:
    np.savez(tmp_path / "some.npz", **arrays)
    with pytest.raises(ValueError, match=told):
        read_recordings(tmp_path / "some.npz")


def test_files_that_are_damaged_missing_or_too_large_are_refused(tmp_path: Path, monkeypatch) -> None:
    np.savez_compressed(tmp_path / "whole.npz", recordings=NUMBERS)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    with pytest.raises(ValueError, match=r"cut.npz is damaged or no .npz file \(.*\). Copy it again"):
        read_recordings(tmp_path / "cut.npz")
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as other:
        other.writestr("recordings", "1,2,3")
    with pytest.raises(ValueError, match=r"other.npz was not written by numpy.savez: the array recordings is not in"):
        read_recordings(tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"there is no .*nowhere.npz. Recordings are a .npz"):
        read_recordings(tmp_path / "nowhere.npz")
    (tmp_path / "some.mat").write_bytes(b"MATLAB")
    with pytest.raises(
        ValueError, match=r"some.mat is not a recording. Recordings are a .npz with the array 'recordings'"
    ):
        read_recordings(tmp_path / "some.mat")
    monkeypatch.setattr("posenc.workbench.memory.free_memory", lambda: 1000)
    with pytest.raises(
        ValueError, match=r"array recordings of whole.npz needs 0.00 GiB .* uncompressed: it is then mapped"
    ):
        npz_file.read_npz(tmp_path / "whole.npz")


def write_tables(folder: Path, end: str) -> Path:
    folder.mkdir()
    for name, numbers in zip(("sub-1_b", "sub-2_a"), (NUMBERS[0], NUMBERS[1, :, :30]), strict=True):
        lines = ["w,x,y,z", *(",".join(map(repr, row)) for row in numbers.T.tolist())]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        if end == ".parquet":
            duckdb.read_csv(str(folder / f"{name}.csv")).write_parquet(str(folder / f"{name}.parquet"))
            (folder / f"{name}.csv").unlink()
    return folder


@pytest.mark.parametrize("end", [".csv", ".parquet"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_of_tables(tmp_path: Path, end, kept) -> None:
    place = write_tables(tmp_path / "tables", end)
    (place / "channels.csv").write_text("module,channel,x\n1,z,0.5\n1,y,1\n2,x,2\n2,w,3\n")
    found = read_recordings(place, folder=tmp_path / "kept" if kept else None)
    assert (found.names, found.subjects, found.channels) == (("sub-1_b", "sub-2_a"), ("sub-1", "sub-2"), tuple("wxyz"))
    for each, numbers in zip(found.series, (NUMBERS[0], NUMBERS[1, :, :30]), strict=True):
        np.testing.assert_allclose(each, numbers, rtol=1e-7)
        assert isinstance(each, np.memmap) == kept
    assert found.modules == ("2", "2", "1", "1")
    np.testing.assert_array_equal(found.coordinates, [[3], [2], [1], [0.5]])
    if kept:
        assert list((tmp_path / "kept").iterdir()) == [], "what is kept has no name and leaves nothing behind"


def test_a_csv_needs_no_names_and_may_lack_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf1;2;3\r\n4; 5 ;6\r\n\r\n7;8;\r\n")
    with pytest.raises(ValueError, match=r"'channel 3' is not finite in recording 'a'"):
        read_recordings(tmp_path)
    np.testing.assert_array_equal(read_recordings(tmp_path, drop=True).series, [[[1, 4, 7], [2, 5, 8]]])


def test_channels_csv_names_the_columns_of_tables_that_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n4,5\n7,9\n")
    (tmp_path / "channels.csv").write_text("channel,module\nV1,vis\nA1,aud\n")
    assert (read_recordings(tmp_path).channels, read_recordings(tmp_path).modules) == (("V1", "A1"), ("vis", "aud"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "has no .csv or .parquet. A folder of recordings has one table per recording"),
        ({"a.csv": ""}, "a.csv is empty"),
        ({"a.csv": "x,y\n"}, "a.csv has a line of names and no times"),
        ({"a.csv": "x,y\n1,2\n3,4,5\n"}, "a.csv, line 3: 3 columns stand where the first line has 2"),
        ({"a.csv": "x,y,z\n1,2,3\n4,5,6\n7\n"}, "a.csv, line 4: 1 columns stand where the first line has 3"),
        (
            {"a.csv": "x,day\n1,2\n3,Mon\n"},
            "a.csv, line 3: 'Mon' in column 'day' is not a number. Columns are",
        ),
        ({"a.csv": "1,2\n3,?\n"}, r"a.csv, line 2: '\?' in column 2 is not a number"),
        ({"a.csv": "x;y\n1,5;2\n3;4\n"}, r"line 2: '1,5' in column 'x' is not a number. Write decimals with a point"),
        ({"a.csv": "1,5;2,5\n3,5;4,5\n"}, "Write decimals with a point"),
        ({"a.csv": "x,y\n1,2\n3,4\n", "b.csv": "z,x\n1,2\n3,4\n"}, "'z' is only in b.csv and 'y' is only in a.csv"),
        ({"a.csv": "1,2\n3,4\n", "b.csv": "1,2,3\n3,4,5\n"}, "'a' has 2 and 'b' has 3"),
        (
            {"a.csv": ",x\n" + "".join(f"{n},{n % 3}\n" for n in range(20))},
            r"first column of a.csv, '', rises at every time.* put another column first",
        ),
        (
            {"a.csv": "".join(f"{n / 10},{n % 3}\n" for n in range(20))},
            r"first column of a.csv rises at every time, so it is a clock",
        ),
        (  # times of 256 Hz that were rounded to milliseconds: no equal steps
            {"a.csv": "x,time (s)\n" + "".join(f"{n % 3},{n / 256:.3f}\n" for n in range(20))},
            r"column 2 of a.csv, 'time \(s\)', rises at every time.* Leave it out",
        ),
        ({"a.csv": "1,2\n3,4\n", "a.parquet": "PAR1"}, "has 'a' as .csv and as .parquet"),
        ({"a.parquet": "not a table"}, r"a.parquet cannot be read \(.*\). Write it again"),
        ({"a.csv": "x,y\n1,2\n3,5\n", "channels.csv": "channel,x\nx,1\n"}, "no line of the channel 'y'"),
        (
            {"a.csv": "x,y\n1,2\n3,5\n", "channels.csv": "channel,x\nx,1\ny,left\n"},
            "x of the channel 'y' is not a number",
        ),
        ({"a.csv": "x,y\n1,2\n3,5\n", "channels.csv": "name,x\nx,1\n"}, "channels.csv needs a column 'channel'"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, files, told) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=told):
        read_recordings(tmp_path)


def parquet(path: Path, query: str) -> None:
    duckdb.sql(f"copy ({query}) to '{path}' (format parquet)")


def test_a_parquet_of_text_is_refused_and_one_with_nulls_is_not_finite(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", "select 1.5 as x, 'Mon' as day")
    with pytest.raises(ValueError, match=r"a.parquet has object in column 'day', which is not a number"):
        read_recordings(tmp_path)
    parquet(tmp_path / "a.parquet", "select * from (values (1.5, 1, 3.0), (null, 2, 4.0)) t(x, y, z)")
    with pytest.raises(ValueError, match=r"'x' is not finite in recording 'a'"):
        read_recordings(tmp_path)
    assert read_recordings(tmp_path, drop=True).channels == ("y", "z")


def test_tables_that_do_not_fit_in_memory_need_a_folder(tmp_path: Path, monkeypatch) -> None:
    place = write_tables(tmp_path / "tables", ".csv")
    monkeypatch.setattr("posenc.workbench.memory.free_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"a folder of 2 recordings like sub-1_b.csv needs .* Name a folder to write"):
        read_recordings(place)
    assert len(read_recordings(place, folder=tmp_path / "kept")) == 2
    monkeypatch.delattr("os.posix_fallocate", raising=False)  # as on macOS
    assert len(read_recordings(place, folder=tmp_path / "kept")) == 2
    with pytest.raises(ValueError, match=r"0.00 GiB cannot be written to .*a.csv/deeper"):
        memory_map.memory_mapped_zeros(place / "sub-2_a.csv" / "deeper", (2, 2), np.dtype(np.float32))


# the split -----------------------------------------------------------------------------------------------------------


def test_subjects_are_held_out_whole() -> None:
    many = Recordings(tuple(NUMBERS[number % 3] for number in range(20)), tuple(f"sub-{n // 2}_{n}" for n in range(20)))
    drawn = set()
    for seed in range(5):
        found = split(many, held=0.3, seed=seed)
        assert len(found.test) == 6
        assert set(found.train.subjects) & set(found.test.subjects) == set()
        assert sorted(found.train.names + found.test.names) == sorted(many.names)
        drawn.add(found.test.names)
    assert len(drawn) == 5
    assert split(many, seed=3).test.names == split(many, seed=3).test.names
    assert len(split(many, held=0.001, seed=0).test) == 2
    assert len(split(many, held=0.999, seed=0).train) == 2


def test_a_single_subject_is_refused_and_blocks_have_a_gap() -> None:
    with pytest.raises(ValueError, match=r"all recordings are of one subject, 'x', .*blocks=10, gap=20"):
        split(made(subjects=("x",) * 3), seed=0)
    single = Recordings((np.arange(100.0).reshape(2, 50),), ("a",))
    found = split(single, held=0.4, seed=0, blocks=5, gap=4)
    assert (len(found.train), len(found.test)) == (3, 2)
    times = [each[0].tolist() for each in cut_into_blocks(single, 5, 4).series]
    assert times == [list(range(start, start + 6)) for start in (0, 10, 20, 30, 40)]
    assert set(found.train.names) | set(found.test.names) == {f"block {number} of a" for number in range(1, 6)}
    own = {
        name: each[0, 0]
        for part in (found.train, found.test)
        for name, each in zip(part.names, part.series, strict=True)
    }
    assert own == {f"block {number} of a": 10.0 * (number - 1) for number in range(1, 6)}


def test_what_is_written_is_read_again(tmp_path) -> None:
    about = {"modules": tuple("wxyz"), "coordinates": np.arange(8.0).reshape(4, 2)}
    once = made(names=("sub-01_a", "sub-01_b", "c"), **about)
    for place in ("whole.npz", "tables"):
        write_recordings(once, tmp_path / place)
        again = read_recordings(tmp_path / place)
        assert (again.channels, again.modules) == (once.channels, once.modules)
        assert np.array_equal(again.coordinates, once.coordinates)
        of = dict(zip(again.names, zip(again.subjects, again.series, strict=True), strict=True))
        for name, subject, numbers in zip(once.names, once.subjects, once.series, strict=True):
            assert of[name][0] == subject
            assert np.array_equal(of[name][1], numbers)
    with pytest.raises(ValueError, match=r"whole.npz exists and is left unchanged"):
        write_recordings(once, tmp_path / "whole.npz")
    uneven = made(series=(NUMBERS[0], NUMBERS[1, :, :20], NUMBERS[2]))
    with pytest.raises(ValueError, match=r"from 20 to 50 times. Write a folder of tables: --to FOLDER"):
        write_recordings(uneven, tmp_path / "uneven.npz")
    write_recordings(uneven, tmp_path / "uneven")
    assert [each.shape for each in read_recordings(tmp_path / "uneven").series] == [(4, 50), (4, 20), (4, 50)]


def called(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(["data", "recordings", *map(str, words)])
    return int(leaving.value.code or 0)


def test_recordings_are_mended_at_the_terminal(tmp_path, capsys) -> None:
    numbers = NUMBERS.copy()
    numbers[1, 2] = 3.0
    np.savez(tmp_path / "mine.npz", recordings=numbers)
    assert called("--read", tmp_path / "mine.npz") == 2
    assert "'channel 3' is constant in recording 'recording 2'" in capsys.readouterr().err
    whole, one = tmp_path / "whole.npz", tmp_path / "one.npz"
    assert called("--read", tmp_path / "mine.npz", "--drop", "--to", whole) == 0
    assert '"left out": [\n    "channel 3"\n  ]' in capsys.readouterr().out
    assert read_recordings(whole).channels == ("channel 1", "channel 2", "channel 4")
    np.savez(one, recordings=NUMBERS[0])
    pieces = tmp_path / "pieces.npz"
    assert called("--read", one, "--blocks", 4, "--gap", 2, "--to", pieces) == 0
    assert len(split(read_recordings(pieces), seed=0).test) == 1
    assert called() == 2


def test_a_written_folder_of_tables_has_the_same_subjects(tmp_path: Path) -> None:
    known = made(names=("100307_REST1", "100307_REST2", "100408_REST1"), subjects=("100307", "100307", "100408"))
    write_recordings(known, tmp_path / "people")
    found = read_recordings(tmp_path / "people")
    assert found.subjects == ("sub-100307", "sub-100307", "sub-100408")  # a person is not in training and test
    np.testing.assert_allclose(found.series, NUMBERS)
    write_recordings(made(names=("sub-1_a", "sub-1_b", "walk")), tmp_path / "named")
    assert read_recordings(tmp_path / "named").names == ("sub-1_a", "sub-1_b", "walk")
    with pytest.raises(ValueError, match=r"cannot be written"):
        write_recordings(made(names=("a/b", "a-b", "c")), tmp_path / "alike")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"blocks": 5, "gap": 2}, "these are of 3, which are held out whole. Leave blocks out"),
        ({"held": 1.0}, "held is the share of subjects to test with, between 0 and 1; got 1"),
        ({"blocks": 5, "subjects": "xxx"}, "a gap between them.*got blocks=5, gap=0"),
        ({"blocks": 20, "gap": 2, "subjects": "xxx"}, "20 blocks with a gap of 2 need 78 times or more; a recording"),
    ],
)
def test_a_split_that_would_not_be_honest_is_refused(asked, told) -> None:
    subjects = tuple(asked.pop("subjects", "xyz"))
    with pytest.raises(ValueError, match=told):
        split(made(subjects=subjects), seed=0, **asked)
