"""Every form of a text with the study language: the command that `posenc data look` prints trains on it."""

from __future__ import annotations

import gzip
import json
import random
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from posenc import cli
from posenc.workbench.data.readers import read_documents
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.user_files import UserFileError

pytestmark = pytest.mark.bare
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "a", "dog", "ran", "far", "away", "from", "home"]
OPTIONS = "--panels loss --schemes rope --seeds 0 --jobs 1"
SETTINGS = ("epochs=2", "window=8", "max_multiple=2", "dim=16", "targets=16", "depth=1", "hidden=16")
TINY = (*OPTIONS.split(), *(word for setting in SETTINGS for word in ("--set", setting)))


def words(count: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def lines(count: int, name: str = "text") -> str:
    return "".join(json.dumps({name: words(20, seed), "n": seed}) + "\n" for seed in range(count))


def ids(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, count)


def put(files: dict[str, str | bytes | np.ndarray]) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(exist_ok=True, parents=True)
        if isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def write_parquet(path: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    values = ", ".join(f"('{words(20, seed)}', {seed})" for seed in range(40))
    with duckdb.connect() as connection:
        connection.sql(f"SELECT * FROM (VALUES {values}) AS t(body, n)").write_parquet(path)


def write_tokenizer(path: str) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator([words(400)], tokenizers.trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet))
    made.save(path)


def uint16(count: int, seed: int = 0) -> bytes:
    return ids(count, seed).astype("<u2").tobytes()


FORMS: dict[str, tuple[Callable[[], None], str, str]] = {
    "file": (lambda: put({"a.txt": words(600)}), "a.txt", "is read as text"),
    "packed file": (lambda: put({"a.txt.gz": gzip.compress(words(600).encode())}), "a.txt.gz", "is read as text"),
    "folder": (lambda: put({f"f/{n}.txt": words(30, n) for n in range(20)}), "f", "a folder of texts"),
    "json lines": (lambda: put({"a.jsonl": lines(40)}), "a.jsonl --field text", "JSON Lines"),
    "fasta": (lambda: put({"a.fa": ">a\n" + "ACGT" * 200 + "\n>b\n" + "GATC" * 100}), "a.fa", "FASTA"),
    "parquet": (lambda: write_parquet("a.parquet"), "a.parquet --field body", "Parquet"),
    "ids npy": (lambda: put({"a.npy": ids(900)}), "a.npy", "token ids"),
    "ids bin": (lambda: put({"a.bin": uint16(900)}), "a.bin --dtype uint16", "token ids"),
    "bytes": (lambda: put({"a.bin": words(300).encode()}), "a.bin --dtype bytes", "token ids"),
    "nanoGPT": (
        lambda: put({"g/train.bin": uint16(900), "g/val.bin": uint16(300, 1), "g/input.txt": "x"}),
        "g --dtype uint16",
        "train and val files",
    ),
    "train.txt, val.txt": (
        lambda: put({"g/train.txt": words(400), "g/val.txt": words(150, 1)}), "g", "train and val files"
    ),
    "train, valid, test": (
        lambda: put({f"g/{name}.jsonl": lines(20) for name in ("train", "valid", "test")}),
        "g --field text",
        "train and val files",
    ),
    "val named": (
        lambda: put({"a.txt": words(400), "b.txt": words(150, 1)}), "a.txt --val b.txt --tokenizer words:50", "text"
    ),
    "bytes of a text": (lambda: put({"a.txt": words(600)}), "a.txt --tokenizer bytes", "text"),
    "few words": (lambda: put({"a.txt": words(2000)}), "a.txt --tokenizer words:5", "text"),
    "tokenizer.json": (
        lambda: (put({"a.txt": words(2000)}), write_tokenizer("t.json"))[0], "a.txt --tokenizer t.json", "text"
    ),
}  # fmt: skip
"""Form to the function that writes it, the words of the command, and the name of the form."""


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(command))
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out + captured.err


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "form", [pytest.param(name, marks=[] if name == "nanoGPT" else [pytest.mark.full]) for name in FORMS]
)
def test_the_printed_command_trains(form: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    write, command, name = FORMS[form]
    write()
    code, looked = printed(capsys, "data", "look", *command.split())
    assert code == 0, looked
    assert name in looked
    assert "begins: " in looked
    (line,) = [line for line in looked.splitlines() if line.startswith("  posenc run language ")]
    words_of_command = shlex.split(line.partition(" --set window=")[0])
    assert words_of_command[3:] == command.split()
    code, out = printed(capsys, *words_of_command[1:], *TINY)
    assert code == 0, out
    assert "begins" in out
    page = Path(out.splitlines()[-1]).read_text()
    assert "Bits per byte" in page
    assert f"posenc run language {command}" in page


WITHOUT_UNKNOWN = '{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"to": 0}, "unk_token": "[UNK]"}}'
"""The package loads it, and raises at the first word that is not in its vocabulary; found by tools/fuzz.py."""

REFUSED: dict[str, tuple[Callable[[], None], str, str]] = {
    "two forms": (
        lambda: put({"f/a.txt": "x", "f/b.jsonl": "{}"}), "f", "texts of two forms: a.txt and, as JSON Lines"
    ),
    "json lines in a folder": (lambda: put({"f/b.jsonl": "{}"}), "f", "Name the file: posenc run language f/b.jsonl"),
    "two endings": (
        lambda: put({f"f/{n}.{e}": "x" for n in ("train", "val") for e in ("txt", "jsonl")}),
        "f",
        "with the endings .jsonl and .txt. Name the files: f/train.jsonl --val f/val.jsonl",
    ),
    "a table": (lambda: put({"a.csv": "x,y\n"}), "a.csv", "as a table"),
    "one character": (lambda: put({"a.txt": "a" * 2000}), "a.txt", "has 2,000 characters, and all are 'a'"),
    "an empty folder": (lambda: Path("f").mkdir(), "f", "f has no text: it is empty"),
    "ids of another type": (
        lambda: put({"a.bin": ids(900).astype("<u2").tobytes()}), "a.bin --dtype uint32", "The first that is not is"
    ),
    "val of another form": (
        lambda: put({"a.txt": words(99), "b.fa": ">a\nACGT"}), "a.txt --val b.fa", "b.fa is read as FASTA, and the"
    ),
    "val is the text": (lambda: put({"a.txt": words(99)}), "a.txt --val a.txt", "--val a.txt is the text itself"),
    "short val": (lambda: put({"a.txt": words(999), "b.txt": "ab"}), "a.txt --val b.txt", "the val file has 2 tokens"),
    "tokens of ids": (
        lambda: put({"a.npy": ids(900)}), "a.npy --tokenizer words", "--tokenizer words is not for a.npy"
    ),
    "no tokenizer": (lambda: put({"a.txt": words(99)}), "a.txt --tokenizer wrods", "Did you mean words?"),
    "no words": (lambda: put({"a.txt": words(99)}), "a.txt --tokenizer words:1", "needs a number of words from 2"),
    "no tokenizer.json": (
        lambda: put({"a.txt": words(99), "t.json": "{}"}), "a.txt --tokenizer t.json", "t.json is no"
    ),
    "a tokenizer without its unknown token": (
        lambda: put({"a.txt": words(99), "t.json": WITHOUT_UNKNOWN}),
        "a.txt --tokenizer t.json",
        "t.json cannot encode this text (WordLevel error: Missing [UNK] token",
    ),
    "ids of conversations": (
        lambda: put({"a.jsonl": '{"id": "7", "messages": [{"role": "user", "content": "where is it"}]}\n' * 9}),
        "a.jsonl",
        "has text in the field 'id' alone. The text is inside of 'messages'",
    ),
    "addresses": (lambda: put({"a.jsonl": '{"url": "a.b/c"}\n' * 9}), "a.jsonl", "or read this field: --field url"),
    "ids of four bytes of a large vocabulary": (
        lambda: put({"a.bin": (ids(900) * 700).astype("<u4").tobytes()}),
        "a.bin --dtype uint16",
        "in every second place, as ids of four bytes have. Add --dtype uint32",
    ),
    "ids with the high byte first": (
        lambda: put({"a.bin": (ids(900) % 50).astype(">u2").tobytes()}),
        "a.bin --dtype uint16",
        "has only multiples of 256, as ids have whose bytes are in the other order",
    ),
    "ids of four bytes": (
        lambda: put({"a.bin": ids(900).astype("<u4").tobytes()}), "a.bin --dtype uint16", "Add --dtype uint32"
    ),
    "UTF-16 without its mark": (
        lambda: put({"a.txt": words(99).encode("utf-16-le")}), "a.txt", "Save it as UTF-8"
    ),
    "val beside parts": (
        lambda: put({"f/train/a.txt": words(99), "f/test/a.txt": words(99), "b.txt": "ab"}),
        "f --val b.txt",
        "f has a folder test already. Leave --val out.",
    ),
    "val without a text": (lambda: None, "--val b.txt", "--val b.txt is for your own data; name them"),
}  # fmt: skip


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_one_sentence(case: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    write, command, sentence = REFUSED[case]
    write()
    code, out = printed(capsys, "run", "language", *command.split(), *TINY)
    assert code == 2, out
    assert sentence in out
    assert len(out.strip().splitlines()) == 1
    assert not Path("runs").exists()


@pytest.mark.usefixtures("in_this_process")
def test_a_val_file_beside_a_train_file_is_named(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    put({"g/train.txt": words(400), "g/val.txt": words(150, 1)})
    code, out = printed(capsys, "data", "look", "g/train.txt")
    assert code == 0
    assert "val.txt stands beside train.txt and is not read. To test on it, add --val g/val.txt" in out
    _, named = printed(capsys, "data", "look", "g/train.txt", "--val", "g/val.txt")
    assert "stands beside" not in named
    assert "; train " in named


def test_folders_and_names_of_parts_divide_texts(tmp_path: Path, monkeypatch) -> None:
    """They were one heap, divided by the seed: the texts for testing stood in the training data."""
    monkeypatch.chdir(tmp_path)
    put({f"imdb/{part}/{kind}/{n}.txt": f"{part} {kind}" for part in ("Train", "test") for kind in "pn" for n in "12"})
    put({"imdb/readme.txt": "of the data", "imdb/test/empty.txt": ""})
    found = read_documents(Path("imdb"), ReadingOptions())
    assert set(found.texts) == {"Train p", "Train n"}
    assert [set(given.texts) for given in found.given] == [{"test p", "test n"}]
    assert found.options == {"documents": 4, "documents of the other files": 4}
    assert found.left_out == (
        "Left out because they are empty: test/empty.txt",
        "Left out beside the folders train and test: readme.txt",
    )
    put({f"wiki/wiki.{part}.txt": part for part in ("train", "valid", "test")})
    parts = read_documents(Path("wiki"), ReadingOptions())
    assert [parts.texts, *(given.texts for given in parts.given)] == [("train",), ("valid",), ("test",)]
    put({"eval/train.txt": "a", "eval/eval.txt": "b", "eval/x-train.txt": "c", "eval/x-test.txt": "d"})
    assert read_documents(Path("eval"), ReadingOptions()).given[0].texts == ("b",)
    put({"sets/training_set/a.txt": "a", "sets/dev/a.txt": "b", "sets/Eval/a.txt": "c"})
    assert [given.texts for given in read_documents(Path("sets"), ReadingOptions()).given] == [("b",), ("c",)]


def test_headers_and_marks_are_no_text(tmp_path: Path) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, 900
    (tmp_path / "a.bin").write_bytes(header.tobytes() + uint16(900))
    found = read_documents(tmp_path / "a.bin", ReadingOptions(dtype="uint16"))
    np.testing.assert_array_equal(found.ids, ids(900))
    assert found.left_out == ("Not read as ids: the header of llm.c, 1,024 bytes.",)
    with pytest.raises(UserFileError, match=r"with ids of type uint16\. Add --dtype uint16"):
        read_documents(tmp_path / "a.bin", ReadingOptions(dtype="uint32"))
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines(3).encode())
    assert len(read_documents(tmp_path / "a.jsonl", ReadingOptions()).texts) == 3
