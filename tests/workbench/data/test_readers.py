"""Forms of texts: what each reader reads, what it refuses, and what it leaves out."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.data import readers as folder_of_readers
from posenc.workbench.data.documents import Documents
from posenc.workbench.data.forms import forms_of
from posenc.workbench.data.readers import UNREADABLE, find_reader, inspect, read_documents, readers
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.tasks import text

CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"


def read(path: Path, **options: str) -> Documents:
    return read_documents(path, ReadingOptions(**options))  # type: ignore[arg-type]


def test_every_module_of_the_folder_is_a_reader() -> None:
    texts = {"plain-text", "text-folder", "json-lines", "fasta", "token-ids", "parquet", "train-val-files"}
    assert set(readers("text")) == texts <= set(readers())
    assert {reader.KIND for reader in readers().values()} <= set(UNREADABLE)


def test_a_new_reader_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(
        r"```python\n(.*?)```", CONTRIBUTING.read_text().split("## Add a form of data")[1].split("## ")[0], re.S
    )
    (tmp_path / "quotes.py").write_text(block.partition("\n\nwith tempfile")[0])
    monkeypatch.setattr(folder_of_readers, "__path__", [*folder_of_readers.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "posenc.workbench.data.readers.quotes", raising=False)
    (tmp_path / "said.quotes").write_text('"to be"\n"or not"\n')
    assert find_reader(tmp_path / "said.quotes", "text")[0].FORM == "quotes"
    assert read(tmp_path / "said.quotes").texts == ("to be", "or not")
    (form,) = forms_of(tmp_path / "said.quotes")
    assert (form.name, form.studies) == ("quotes", ("language",))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.txt", "text"), ("a", "text"), ("a.py", "text"), ("a.txt.gz", "text"), ("a.jsonl", "JSON Lines"),
        ("A.JSONL", "JSON Lines"), ("a.jsonl.gz", "JSON Lines"), ("a.fa", "FASTA"), ("a.fasta.gz", "FASTA"),
        ("a.npy", "token ids"), ("train.bin", "token ids"),
    ],
)  # fmt: skip
def test_a_name_decides_the_form(tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / name).touch()
    assert form == find_reader(tmp_path / name, "text")[0].FORM


def test_a_folder_of_texts_is_one_document_a_file_with_what_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    for name, content in {
        "b.txt": "two",
        "inside/a.md": "three",
        "a.txt": "one",
        "none.txt": "",
        "c.pdf": "%PDF",
    }.items():
        (tmp_path / name).write_text(content)
    found = read(tmp_path)
    assert found.texts == ("one", "two", "three")
    assert found.options == {"documents": 3}
    assert found.left_out == ("Left out because they are empty: none.txt", "Left out because they are no texts: c.pdf")
    tokens = text.tokenize_documents(found)
    assert tokens.decode(tokens.tokens) == "one\n\ntwo\n\nthree"
    assert tokens.ends == (5, 10, 15)


def test_json_lines_are_read_without_their_braces(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "to be"}\n\n{"text": "or \\"not\\"", "id": 2}\n{"id": 3, "text": ""}\n')
    found = read(path)
    assert found.texts == ("to be", 'or "not"')
    assert found.options == {"documents": 2, "field": "text"}
    assert found.left_out == ("Left out: 1 line with an empty text",)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"title": "A", "body": "B"}\n'))
    assert read(tmp_path / "b.jsonl.gz", field="body").texts == ("B",)


def test_fasta_is_read_without_headers_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text(">one\nACGT\nAC\n\n>nothing\n>two\r\nGG\r\n")
    found = read(path)
    assert found.texts == ("ACGTAC", "GG")
    assert found.options == {"documents": 2, "alphabet": "ACGT"}
    assert found.left_out == ("Left out: 1 headers without a sequence",)


def test_token_ids_are_the_numbers_of_the_file(tmp_path: Path) -> None:
    ids = np.array([50256, 11, 11, 300])
    np.save(tmp_path / "a.npy", ids)
    for dtype in ("uint16", "uint32"):
        (tmp_path / f"{dtype}.bin").write_bytes(ids.astype(dtype).tobytes())
        assert read(tmp_path / f"{dtype}.bin", dtype=dtype).ids.tolist() == ids.tolist()  # type: ignore[union-attr]
    found = text.read_text(tmp_path / "a.npy")
    assert (found.unit, found.vocabulary) == ("tokens", ("11", "300", "50256"))
    assert found.decode(found.tokens) == "50256 11 11 300"


def test_a_stated_format_is_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(">one\nACGT\n")
    assert read(path).texts == (">one\nACGT\n",)
    assert read(path, format="fasta").texts == ("ACGT",)
    with pytest.raises(ValueError, match=r"no format 'fast'.*The formats of text are fasta, json-lines"):
        read(path, format="fast")


def test_texts_are_inspected_without_reading_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xff")
    (tmp_path / "b.md").write_bytes(b"x")
    (tmp_path / "c.pdf").write_bytes(b"x")
    assert inspect(tmp_path, "text", ReadingOptions()).parts[0].counts == {"files": 2, "bytes": 3}
    record = inspect(tmp_path / "a.txt", "text", ReadingOptions())
    assert (record.parts[0].counts, record.digest, record.options) == ({"files": 1, "bytes": 2}, "", {"form": "text"})


def put(content: object) -> Callable[[Path], object]:
    """Function that writes a text, bytes, an array, or a folder of files."""

    def write(path: Path) -> None:
        if isinstance(content, dict):
            path.mkdir()
            for name, inside in content.items():
                (path / name).write_text(inside)
        elif isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)  # type: ignore[arg-type]

    return write


UINT16 = {"dtype": "uint16"}
REFUSED: dict[str, tuple[str, object, dict[str, str], str]] = {
    "bytes or ids": ("train.bin", bytes(8), {}, "add --dtype bytes .* or --dtype uint16"),
    "odd bytes": ("a.bin", bytes(7), UINT16, "7 bytes, no multiple of the 2"),
    "dtype of text": ("a.txt", "x", UINT16, "--dtype uint16 is not for"),
    "dtype of npy": ("a.npy", np.arange(3), UINT16, "states its type"),
    "real ids": ("a.npy", np.ones(3), {}, "float64 of the shape .* whole numbers of one axis"),
    "negative ids": ("a.npy", np.array([-1, 2]), {}, "ids from -1 to 2"),
    "no ids": ("a.npy", np.arange(0), {}, "is empty"),
    "field of text": ("a.txt", "x", {"field": "a"}, "--field a is not for"),
    "two fields": ("a.jsonl", '{"bb": "x", "a": "long"}', {}, "2 fields with text: a, bb. .*--field a"),
    "no field": ("a.jsonl", '{"a": 1}', {}, "line 1 has no text: a"),
    "missing field": ("a.jsonl", '{"text": "x"}\n{"txt": "y"}', {}, "line 2: .*no field 'text'.*mean txt"),
    "a number": ("a.jsonl", '{"a": "x"}\n{"a": 2, "b": "c"}', {}, "is 2, not text.*--field b"),
    "no JSON": ("a.jsonl", '{"a": "x"}\n{"a": ', {}, "line 2 is not JSON"),
    "no object": ("a.jsonl", "[1]", {}, "line 1 is not an object"),
    "empty lines": ("a.jsonl", '{"a": ""}', {}, "has no text"),
    "no header": ("a.fa", "ACGT\n>a\nA\n", {}, "line 1 stands before the first header"),
    "headers": ("a.fa", ">a\n>b\n", {}, "has no sequence"),
    "pictures": ("folder", {"a.png": ""}, {}, "has no text: it has a.png"),
    "empty texts": ("folder", {"a.txt": ""}, {}, "only empty texts: a.txt"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_one_sentence_with_the_line(tmp_path: Path, case: str) -> None:
    name, content, options, sentence = REFUSED[case]
    put(content)(tmp_path / name)
    with pytest.raises(ValueError, match=sentence) as error:
        read(tmp_path / name, **options)
    assert "\n" not in str(error.value)
    assert str(error.value).count(str(tmp_path / name)) or "--dtype" in str(error.value)


def documents(count: int, length: int = 40) -> text.Text:
    words = tuple(chr(97 + number % 26) * (length + number % 3) for number in range(count))
    return text.tokenize_documents(Documents("folder of texts", words))


def test_documents_are_held_out_whole() -> None:
    whole = documents(30)
    assert text.has_documents_to_hold_out(whole)
    sizes = set()
    for seed in range(6):
        splits = text.split_by_documents(whole, longest=20, seed=seed)
        letters = [set(whole.decode(part)) - {"\n"} for part in splits[:3]]
        sizes.add(tuple(len(part) for part in splits[:3]))
        # letters a to d stand for two documents each
        shared = (letters[0] & letters[1]) | (letters[0] & letters[2]) | (letters[1] & letters[2])
        assert shared <= set("abcd")
    assert len(sizes) == 1
    first, second = (text.split_by_documents(whole, longest=20, seed=seed).test for seed in (0, 1))
    assert first.tolist() != second.tolist()


def test_few_or_uneven_documents_are_cut_into_blocks() -> None:
    assert not text.has_documents_to_hold_out(documents(9))
    long = text.tokenize_documents(Documents("folder of texts", ("a" * 900, *("b" * 10,) * 20)))
    assert not text.has_documents_to_hold_out(long)


def test_an_error_of_ids_has_a_remedy_of_their_form(tmp_path: Path) -> None:
    np.save(tmp_path / "below.npy", np.array([3, 4, -1, 5]))
    with pytest.raises(ValueError, match=r"The first that is not is id 3, -1\. Save the ids of a tokenizer"):
        read(tmp_path / "below.npy")
    (tmp_path / "wide.bin").write_bytes(np.array([1, 2**31], "<u4").tobytes())
    with pytest.raises(ValueError, match=r"is id 2, 2,147,483,648\. .*--dtype uint16"):
        read(tmp_path / "wide.bin", dtype="uint32")


def test_a_value_that_is_no_text_is_shown_as_the_file_has_it(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(ValueError, match=r"line 2: the field 'text' is null, not text\. Leave this line out\.$"):
        read(path)
    path.write_text('{"text": "a", "body": "b"}\n{"text": [1, 2], "body": "b"}\n')
    with pytest.raises(
        ValueError, match=r"is \[1,2\], not text\. Leave this line out, or name another: --field body\."
    ):
        read(path, field="text")
