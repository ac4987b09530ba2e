"""Puzzles on disk, and the small things a study reads off them."""

import doctest
import io
import json
import os
import zipfile

import numpy as np
import pytest

from posenc.positions import grid, sequence
from posenc.workbench.tasks import latin_squares
from posenc.workbench.tasks.latin_squares import (
    Puzzles,
    cell_prior_accuracy,
    generate_dataset,
    least_frequent_symbol_accuracy,
    load_authors,
    load_dataset,
    one_hot,
    probe_cells,
    read_csv,
    save_dataset,
    score,
    squares,
    views,
    write_csv,
)

pytestmark = pytest.mark.bare

HEADER = "ID,LST_num,condition,puzzles,solutions\n"
GOOD = "0,,Binary,2000500234001000,4\n"
STRINGS = ["2000500234001000", "0300340102454032", "1020050120040000"]


@pytest.fixture(scope="module")
def data():
    return generate_dataset(train=150, iid=30, ood=12, seed=0)


@pytest.mark.parametrize("rule", ["authors", "entailment"])
def test_csv_gives_the_puzzles_back(tmp_path, rule):
    puzzles = generate_dataset(train=300, iid=0, ood=0, seed=1, rule=rule).train
    write_csv(puzzles, tmp_path / "puzzles.csv")
    assert read_csv(tmp_path / "puzzles.csv", rule=rule).digest() == puzzles.digest()


def test_csv_is_the_authors_format(tmp_path):
    write_csv(Puzzles.from_strings(STRINGS), tmp_path / "new" / "puzzles.csv")
    rows = ["0,,Binary,2000500234001000,4", "1,,Ternary,0300340102454032,3", "2,,Quaternary,1020050120040000,2"]
    assert (tmp_path / "new" / "puzzles.csv").read_bytes().decode() == HEADER + "".join(row + "\n" for row in rows)


def test_csv_may_come_from_a_spreadsheet(tmp_path):
    text = "puzzles,condition,solutions,note\r\n2000500234001000, Binary,4,\r\n\r\n0300340102454032,Ternary,3,ok\r\n"
    (tmp_path / "puzzles.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_csv(tmp_path / "puzzles.csv").strings() == STRINGS[:2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ID,LST_num,condition,puzzles\n0,,Binary,2000500234001000\n", "line 1: there is no column 'solutions'; the"),
        ("", "line 1: there is no column 'condition'"),
        (HEADER, "p.csv has a header and no puzzles; each further line is one puzzle."),
        (
            HEADER + GOOD + "1,,Binary,200050023400100,4\n",
            "line 3: puzzle '200050023400100' has 15 characters; it needs",
        ),
        (
            HEADER + GOOD + "1,,Binary,2700500234001000,4\n",
            "line 3: puzzle '2700500234001000' has '7' in row 1, column 2",
        ),
        (HEADER + GOOD + "1,,Binary,2500500234001000,4\n", "line 3: puzzle '2500500234001000' has 2 probes (digit 5)"),
        (HEADER + GOOD + "1,,Binary,2000000234001000,4\n", "line 3: puzzle '2000000234001000' has no probes (digit 5)"),
        (
            HEADER + GOOD + "1,,Binary,2000520234001000,4\n",
            "line 3: puzzle '2000520234001000' shows 2 more than once in",
        ),
        (
            HEADER + GOOD + "1,,Binary,1230000400005000,4\n",
            "line 3: puzzle '1230000400005000' has no solution: no Latin",
        ),
        (
            HEADER + GOOD + "1,,Binary,2000500000000000,4\n",
            "line 3: puzzle '2000500000000000' leaves 1, 3 and 4 possible",
        ),
        (
            HEADER + GOOD + "1,,Binary,0200054000004001,1\n",
            "line 3: puzzle '0200054000004001' is in none of the authors'",
        ),
        (
            HEADER + GOOD + "1,,Binary,2000500234001000,3\n",
            "line 3: the file states solution 3, but puzzle '2000500234001",
        ),
        (
            HEADER + GOOD + "1,,Ternary,2000500234001000,4\n",
            "line 3: the file states Ternary, but puzzle '2000500234001000'",
        ),
        (
            HEADER + GOOD + "1,,Easy,2000500234001000,4\n",
            "line 3: the condition is one of ('Binary', 'Ternary', 'Quater",
        ),
        (HEADER + GOOD + "1,,Binary,2000500234001000,7\n", "line 3: the solution is one symbol, 1 to 4; got '7'."),
        (HEADER + GOOD + "1,,Binary,2000500234001000,\n", "line 3: the solution is one symbol, 1 to 4; got ''."),
        (HEADER + GOOD + "1,,Binary,2000500234001000\n", "line 3: 4 columns stand under a header of 5."),
    ],
)
def test_a_bad_csv_is_refused_with_file_line_and_reason(tmp_path, text, reason):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ValueError) as caught:
        read_csv(tmp_path / "p.csv")
    message = str(caught.value)
    assert message.startswith("p.csv")
    assert reason in message
    assert message.endswith(".")
    assert ". " not in message


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*none\.csv"):
        read_csv(tmp_path / "none.csv")
    (tmp_path / "p.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match=r"p\.csv is not a text file"):
        read_csv(tmp_path / "p.csv")


def written_by_hand(folder):
    names = {"gen_binary.csv": 1, "gen_ternary.csv": 2, "gen_quaternary.csv": 3}
    made = generate_dataset(train=120, iid=0, ood=6, seed=2)
    for name, kind in names.items():
        write_csv(made.train.take(made.train.kind == kind), folder / name)
    write_csv(made.ood, folder / "val108.csv")
    return made


def test_the_authors_folder_is_split_evenly_and_by_its_seed(tmp_path):
    made = written_by_hand(tmp_path)
    read, again, other = (load_authors(tmp_path, seed=seed) for seed in (0, 0, 1))
    assert [np.bincount(part.kind).tolist() for part in (read.train, read.iid)] == [[0, 36, 36, 36], [0, 4, 4, 4]]
    assert sorted(read.train.strings() + read.iid.strings()) == sorted(made.train.strings())
    assert read.ood.digest() == made.ood.digest()
    assert read.manifest == again.manifest
    assert read.iid.digest() != other.iid.digest()
    assert read.manifest["arguments"]["jaccard"] == "one-hot"
    write_csv(made.train.take(slice(0, 6)), tmp_path / "val108.csv")
    assert load_authors(tmp_path).manifest["arguments"]["jaccard"] is None


def test_a_missing_file_of_the_authors_is_named(tmp_path):
    written_by_hand(tmp_path)
    (tmp_path / "gen_ternary.csv").unlink()
    with pytest.raises(ValueError, match=r"lacks gen_ternary\.csv; the Latin squares of github ljhearne/LSTNN_public"):
        load_authors(tmp_path)


def test_a_saved_set_comes_back_with_its_manifest(tmp_path, data):
    save_dataset(data, tmp_path / "set.npz")
    read = load_dataset(tmp_path / "set.npz")
    assert read.manifest == data.manifest
    assert {n: p.digest() for n, p in read.splits().items()} == {n: p.digest() for n, p in data.splits().items()}
    with np.load(tmp_path / "set.npz") as arrays:
        assert np.array_equal(arrays["train_cells"], data.train.cells)
        assert arrays["ood_answer"].dtype == np.uint8
    assert (tmp_path / "set.npz").stat().st_size < 192 * 18 + 6000
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]


def test_saving_twice_gives_the_same_bytes(tmp_path, data):
    for name in ("one.npz", "two.npz"):
        save_dataset(data, tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.npz") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_failed_save_leaves_the_old_file_alone(tmp_path, data, monkeypatch):
    save_dataset(data, tmp_path / "set.npz")
    before = (tmp_path / "set.npz").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_dataset(generate_dataset(train=9, iid=0, ood=0, seed=1), tmp_path / "set.npz")
    assert (tmp_path / "set.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]


def rewritten(path, change):
    """The archive with its manifest put through ``change``."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.update(format=2), "set.npz is of format 2; this posenc reads up to 1. Update posenc."),
        (lambda m: m.update(task="reading"), "set.npz holds a data set of the task 'reading'"),
        (lambda m: m["digests"].update(iid="0"), "set.npz is damaged: its iid puzzles are not those of its manifest."),
        (lambda m: m.pop("digests"), "set.npz is damaged: its train puzzles are not those of its manifest."),
        (lambda m: m.pop("format"), "set.npz is damaged or no data set of Latin squares ('format')."),
    ],
)
def test_another_manifest_is_refused(tmp_path, data, change, reason):
    save_dataset(data, tmp_path / "set.npz")
    rewritten(tmp_path / "set.npz", change)
    with pytest.raises(ValueError) as caught:
        load_dataset(tmp_path / "set.npz")
    assert reason in str(caught.value)


def test_damaged_and_other_files_are_refused(tmp_path, data):
    path = tmp_path / "set.npz"
    with pytest.raises(ValueError, match=r"there is no file .*set\.npz"):
        load_dataset(path)
    save_dataset(data, path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(data.train.cells.tobytes()) + 5] ^= 1
    other = io.BytesIO()
    np.savez(other, a=np.zeros(3))
    for content in (whole[: len(whole) // 2], bytes(flipped), b"", other.getvalue()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"set\.npz is damaged or no data set of Latin squares"):
            load_dataset(path)


def test_a_puzzle_as_numbers():
    puzzles = Puzzles.from_strings(STRINGS)
    assert puzzles.strings() == STRINGS
    assert (puzzles.kind.tolist(), puzzles.answer.tolist()) == ([1, 2, 3], [4, 3, 2])
    assert probe_cells(puzzles).tolist() == [4, 11, 5]
    assert len(puzzles.take(np.array([True, False, True]))) == 2
    assert puzzles.digest() != puzzles.take(np.array([1, 0, 2])).digest()
    assert len(Puzzles.from_strings([])) == 0
    six, five = one_hot(puzzles, 6), one_hot(puzzles, 5)
    assert (six.shape, six.dtype) == ((3, 16, 6), np.float32)
    assert (six.sum(2) == 1).all()
    assert np.array_equal(six[..., :5], five)
    assert np.array_equal((six.argmax(2) + 1) % 6, puzzles.cells)
    assert (five.sum(2) == (puzzles.cells > 0)).all()
    with pytest.raises(ValueError, match=r"5 channels \(symbols 1-4, probe\) or 6 \(and blank\); got channels=4"):
        one_hot(puzzles, 4)
    with pytest.raises(ValueError, match=r"`kind` has one number per puzzle, \(3,\); got shape \(2,\)"):
        Puzzles(puzzles.cells, puzzles.answer, puzzles.kind[:2])


def test_views_are_a_row_and_a_grid():
    assert list(views()) == ["index", "grid"]
    assert views()["index"].coords.equal(sequence(16).coords)
    assert views()["grid"].coords.equal(grid(4, 4).coords)


def test_score_counts_by_class():
    puzzles = Puzzles.from_strings([*STRINGS, STRINGS[2]])
    assert score(np.array([4, 1, 2, 1]), puzzles) == {"all": 0.5, "1-vector": 1.0, "2-vector": 0.0, "3-vector": 0.5}
    with pytest.raises(ValueError, match=r"scores need one symbol per puzzle; got shape \(3,\) for 4 puzzles"):
        score(np.array([4, 1, 2]), puzzles)


def test_naive_models_by_hand():
    first, second, third = (Puzzles.from_strings([puzzle]) for puzzle in STRINGS)
    # The probe's cell was seen once, with the same answer; never, so that all four symbols tie.
    assert cell_prior_accuracy(first, first) == 1
    assert cell_prior_accuracy(first, second) == 0.25
    # Shown 1, 2, 3, 4: once, twice, once, once, the answer 4 among three that tie; 3 thrice of 1, 2, 3, 4: 1 is rarest.
    assert least_frequent_symbol_accuracy(first) == pytest.approx(1 / 3)
    assert least_frequent_symbol_accuracy(second) == 0
    assert least_frequent_symbol_accuracy(third) == 0


def test_what_guessing_reaches_is_not_one_in_four():
    data = generate_dataset(train=3000, iid=500, ood=300, seed=0)
    assert cell_prior_accuracy(data.train, data.ood) < 0.2
    assert cell_prior_accuracy(data.train, data.iid) > 0.28
    assert least_frequent_symbol_accuracy(data.iid) > 0.3
    unfiltered = generate_dataset(train=3000, iid=500, ood=300, seed=0, jaccard=None)
    assert abs(cell_prior_accuracy(unfiltered.train, unfiltered.iid) - 0.25) < 0.06


@pytest.mark.parametrize("module", [latin_squares, squares], ids=["latin_squares", "squares"])
def test_worked_examples(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.data
def test_the_authors_files_are_written_as_they_were_read(tmp_path, authors_folder):
    for name in ("gen_binary.csv", "gen_ternary.csv", "gen_quaternary.csv"):
        write_csv(read_csv(authors_folder / name), tmp_path / name)
        assert (tmp_path / name).read_bytes() == (authors_folder / name).read_bytes()


@pytest.mark.data
def test_puzzles_can_be_generated_far_from_the_human_items(authors_folder):
    human = read_csv(authors_folder / "val108.csv")
    data = generate_dataset(train=900, iid=90, ood=human, seed=0, clues=(3, 11), balance_clues=False)
    assert latin_squares.jaccard_distant(data.train, human, "one-hot").all()
    assert np.bincount(data.train.kind).tolist() == [0, 300, 300, 300]
