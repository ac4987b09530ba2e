"""Text as a task: reading characters and bytes, parts that do not overlap, windows, and what counting tells."""

import doctest
import gzip
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.tasks import text

BYTES = ReadingOptions(dtype="bytes")


def test_the_worked_example() -> None:
    result = doctest.testmod(text)
    assert (result.failed, result.attempted > 5) == (0, True)


# reading -------------------------------------------------------------------------------------------------------------


def test_characters_are_numbered_by_code_point_and_said_again(tmp_path: Path) -> None:
    said = "naïve 漢字 🙂\r\nline"
    path = tmp_path / "mine.txt"
    path.write_bytes(said.encode())
    found = text.read_text(path)
    assert found.decode(found.tokens) == said
    assert found.vocabulary == tuple(sorted(set(said)))
    assert len(found.tokens) == len(said)


def test_a_mark_of_the_byte_order_is_no_character(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes("\ufeffab".encode())
    assert text.read_text(path).vocabulary == ("a", "b")


def test_bytes_are_read_where_the_caller_says_so(tmp_path: Path) -> None:
    content = bytes(range(256)) + "ü".encode()
    (tmp_path / "mine.bin").write_bytes(content)
    (tmp_path / "mine.bin.gz").write_bytes(gzip.compress(content))
    for found in (text.read_text(tmp_path / name, BYTES) for name in ("mine.bin", "mine.bin.gz")):
        assert found.tokens.tolist() == list(content)
        assert (len(found.vocabulary), found.unit) == (256, "bytes")
        assert found.decode(found.tokens[-2:]) == "ü"


def test_the_name_that_is_advised_for_bytes_is_read_as_bytes(tmp_path: Path) -> None:
    content = b"ab\xff" * 9
    for name, packed in (("mine.txt", content), ("mine.txt.gz", gzip.compress(content)), ("mine", content)):
        (tmp_path / name).write_bytes(packed)
        with pytest.raises(ValueError, match="is not UTF-8") as said:
            text.read_text(tmp_path / name)
        advised = tmp_path / str(said.value).split("rename it to ")[1].split(" and add --dtype bytes;")[0]
        (tmp_path / name).rename(advised)
        found = text.read_text(advised, BYTES)
        assert (bytes(found.tokens.tolist()), found.unit) == (content, "bytes"), name


def test_a_packed_text_is_unpacked_and_found_in_a_folder_of_data(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    path = tmp_path / f"{text.FILE}.gz"
    path.write_bytes(gzip.compress(b"to be"))
    assert text.tinyshakespeare_path(tmp_path) == path
    found = text.read_text(path)
    assert found.decode(found.tokens) == "to be"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("mine.txt", b"", "is empty; a text has at least"),
        ("mine.txt", b"ab\xff", r"is not UTF-8: byte 2 is 0xff. To read it as bytes, rename it to mine.bin"),
        ("mine.txt.gz", b"no gzip", r"mine.txt.gz is damaged or cut short .Not a gzipped file"),
        (
            "mine.txt.gz",
            gzip.compress(b"long enough to be cut" * 9, mtime=0)[:-12],
            "damaged or cut short",
        ),
        (
            "mine.txt.gz",
            gzip.compress(b"to be", mtime=0)[:10] + b"\xff" * 12,
            "mine.txt.gz is damaged or cut short .Error -3",
        ),
    ],
)
def test_what_is_no_text_is_said_in_a_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        text.read_text(tmp_path / name)


def test_a_folder_and_a_missing_file_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no text: it is empty"):
        text.read_text(tmp_path)
    with pytest.raises(ValueError, match=r"there is no file .*none.txt"):
        text.read_text(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"has no text: .*posenc run language my_text.txt"):
        text.tinyshakespeare_path(tmp_path)


# parts and windows ---------------------------------------------------------------------------------------------------


def test_parts_follow_each_other_and_share_nothing() -> None:
    tokens = torch.arange(1000, dtype=torch.int32)
    parts = text.split(tokens, longest=49)
    assert torch.equal(torch.cat(parts[:3]), tokens)
    assert [len(part) for part in parts[:3]] == [900, 50, 50]
    with pytest.raises(ValueError, match=r"50 are held out for testing; at least 51 are needed. Give a text of 1,02"):
        text.split(tokens, longest=50)


def test_ten_seeds_test_on_ten_blocks_and_train_on_the_others() -> None:
    tokens = torch.arange(1009, dtype=torch.int32)
    tested = []
    for seed in range(10):
        parts = text.split_by_seed(tokens, longest=99, seed=seed)
        assert [len(part) for part in parts[:3]] == [800, 100, 100]
        assert sorted(torch.cat(parts[:3]).tolist()) == list(range(1000))
        assert sum(parts.pieces) == 800
        tested.append(int(parts.test[0]))
    assert sorted(tested) == list(range(0, 1000, 100))
    with pytest.raises(ValueError, match=r"100 are held out for testing; at least 101 are needed. Give a text of 1,01"):
        text.split_by_seed(tokens, longest=100, seed=0)


@pytest.mark.parametrize("seed", range(5))
def test_training_windows_lie_in_one_piece_of_the_text(seed: int) -> None:
    parts = text.split_by_seed(torch.arange(200, dtype=torch.int32), longest=7, seed=seed)
    count = parts.count_windows(7)
    windows = text.windows(parts.train, 7, parts.starts_of(torch.arange(count), 7))
    assert bool((windows.diff(dim=1) == 1).all()), "tokens that follow each other in the text"
    assert len(windows[:, 0].unique()) == count == sum(piece - 7 for piece in parts.pieces)
    whole = text.split(torch.arange(200, dtype=torch.int32), longest=7)
    assert whole.starts_of(torch.arange(10), 7).tolist() == list(range(10))
    assert whole.count_windows(7) == len(whole.train) - 7


def test_windows_are_tokens_in_a_row_with_the_one_after() -> None:
    part = torch.arange(10, dtype=torch.int32)
    assert text.windows(part, 3, [0, 6]).tolist() == [[0, 1, 2, 3], [6, 7, 8, 9]]
    for start in (-1, 7):
        with pytest.raises(ValueError, match=rf"starts from 0 to 6 in a part of 10; got {start}"):
            text.windows(part, 3, [start])


@pytest.mark.parametrize("length", [3, 4, 9])
def test_windows_apart_tell_each_token_once(length: int) -> None:
    part = torch.arange(10, dtype=torch.int32)
    told = text.windows(part, length, text.window_starts(len(part), length))[:, 1:].flatten().tolist()
    assert told == list(range(1, 9 // length * length + 1))


# counting ------------------------------------------------------------------------------------------------------------


def test_counts_are_those_of_the_formula() -> None:
    train = torch.tensor([0, 1, 0, 1, 0, 2, 0, 1], dtype=torch.int32)  # of 5 kinds: 3 and 4 never come
    singles, pairs = Counter(train.tolist()), Counter(zip(train[:-1].tolist(), train[1:].tolist(), strict=True))

    def alone(b: int) -> float:
        return (singles[b] + 1) / (8 + 5)

    def after(a: int, b: int) -> float:
        kinds, times = sum(x == a for x, _ in pairs), sum(n for (x, _), n in pairs.items() if x == a)
        return (pairs[a, b] + kinds * alone(b)) / (times + kinds) if times else alone(b)

    asked = torch.tensor([0, 1, 2, 0, 3, 4, 1, 1], dtype=torch.int32)
    told = [text.fit_ngram(train, 5, order=order).losses(asked).tolist() for order in (1, 2)]
    steps = list(zip(asked[:-1].tolist(), asked[1:].tolist(), strict=True))
    assert told[0] == pytest.approx([-math.log(alone(b)) for _, b in steps], abs=1e-12)
    assert told[1] == pytest.approx([-math.log(after(a, b)) for a, b in steps], abs=1e-12)
    for a in range(5):
        assert math.fsum(after(a, b) for b in range(5)) == pytest.approx(1)


@pytest.mark.data
def test_shakespeare_is_1_1_million_characters_of_65_kinds(data_folder: Path) -> None:
    found = text.read_text(text.tinyshakespeare_path(data_folder))
    assert (len(found.tokens), len(found.vocabulary)) == (1_115_394, 65)
    parts = text.split(found.tokens, longest=4096)
    unigram, bigram = (float(text.fit_ngram(parts.train, 65, order=k).losses(parts.test).mean()) for k in (1, 2))
    assert 3.2 < unigram < 3.5
    assert 2.4 < bigram < 2.6
