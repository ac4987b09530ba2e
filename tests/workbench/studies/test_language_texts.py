"""Files and tokens of the text of the language study: val files, words, bits per byte."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language import STUDY, presets, results, stored_model
from posenc.workbench.studies.language.stored_text import StoredText, load_text, text_of_run
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.declarations import OwnDataPlan

WINDOW = 8
SIZE = presets.ModelSize(dim=16, depth=2, heads=2, key_heads=1, hidden=32)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.LanguagePreset:
    """The quick preset made tiny."""
    tiny = dataclasses.replace(
        presets.PRESETS["quick"],
        own=OwnDataPlan(seeds=(0,), half=False),
        window=WINDOW,
        max_multiple=4,
        targets=32,
        model=SIZE,
        training=presets.adamw(3, 4),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", tiny)
    return tiny


@pytest.fixture
def own_text(tmp_path: Path) -> Path:
    """A text of the user's own."""
    path = tmp_path / "my_text.txt"
    path.write_text("to be or not to be, that is the question. " * 60)
    return path


def run(request: studies.Request, store: Store) -> list:
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


def test_a_val_file_is_the_test_part_of_every_seed_and_part_of_the_identity(tmp_path: Path, small) -> None:
    store, folder = Store(tmp_path / "runs"), tmp_path / "g"
    folder.mkdir()
    (folder / "train.txt").write_text("to be or not to be, " * 30 + "that is the question. " * 30)
    (folder / "val.txt").write_text("the quick brown fox; " * 20)
    request = studies.Request(preset="quick", source=folder, schemes=["rope"], seeds=(0, 3))
    specs = STUDY.plan(request, store)
    read = [text_of_run(spec, store.root) for spec in specs]
    assert [each.text.decode(each.splits.test) for each in read] == ["the quick brown fox; " * 20] * 2
    validation = [each.text.decode(each.splits.validation) for each in read]
    assert validation[0] != validation[1]
    assert "quick" not in "".join(validation)
    assert [len(each.splits.train) + len(each.splits.validation) for each in read] == [1260, 1260]
    assert {spec.settings["split"] for spec in specs} == {"given"}
    (said, *_) = STUDY.remarks(store, specs)
    assert "The results are those on the val file." in said
    record = store.record_of(specs[0])
    assert record is not None
    assert "tokens of the other files, of 6 kinds, do not occur in the train file" in record.left_out[0]
    named = dataclasses.replace(request, source=folder / "train.txt", reading={"val": str(folder / "val.txt")})
    by_name = STUDY.plan(named, store)
    assert [spec.identity for spec in by_name] == [spec.identity for spec in specs], "the contents are the same"
    assert page_records.reading_flags(Store(store.root).record_of(by_name[0])) == ["--val", str(folder / "val.txt")]
    alone = STUDY.plan(dataclasses.replace(request, source=folder / "train.txt"), store)
    assert alone[0].identity != specs[0].identity
    (folder / "val.txt").write_text("the quick brown fix; " * 20)
    assert STUDY.plan(request, store)[0].identity != specs[0].identity


def test_equal_documents_are_counted(tmp_path: Path) -> None:
    lines = [f"document number {number} of some length, with words of its own {number**5}" for number in range(60)]
    (tmp_path / "one.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in [*lines, lines[3] + " "]))
    request = studies.Request(preset="quick", source=tmp_path / "one.jsonl", schemes=["rope"], seeds=(0,))
    store = Store(tmp_path / "runs")
    record = store.record_of(STUDY.plan(request, store)[0])
    assert record is not None
    assert "Of 61 documents 2 are equal to another" in " ".join(record.left_out)
    folder = tmp_path / "few"
    folder.mkdir()
    for name, shift in (("a", 0), ("b", 1), ("b (copy)", 1), ("c", 2)):
        (folder / f"{name}.txt").write_text(" ".join(lines[20 * shift : 20 * shift + 20]))
    record = store.record_of(STUDY.plan(dataclasses.replace(request, source=folder), store)[0])
    assert record is not None
    assert "Of 4 documents 2 are equal to another" in " ".join(record.left_out)
    (tmp_path / "two.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines[7:9] * 30))
    given = dataclasses.replace(request, reading={"val": str(tmp_path / "two.jsonl")})
    record = store.record_of(STUDY.plan(given, store)[0])
    assert record is not None
    assert "Of 60 test documents 60 are equal to one of the training documents" in " ".join(record.left_out)


def test_train_val_and_test_files_are_the_parts(tmp_path: Path, small) -> None:
    store, folder = Store(tmp_path / "runs"), tmp_path / "g"
    folder.mkdir()
    for name in ("train", "val", "test"):
        (folder / f"{name}.txt").write_text(f"{name}; " * 40)
    (spec, *_) = STUDY.plan(studies.Request(preset="quick", source=folder, schemes=["rope"]), store)
    read = text_of_run(spec, store.root)
    assert [read.text.decode(part)[:5] for part in read.splits[:3]] == ["train", "val; ", "test;"]
    assert "The train, val and test files are its parts" in STUDY.remarks(store, [spec])[0]


def test_words_are_those_of_the_training_part_of_a_seed(tmp_path: Path, small) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "a.txt"
    path.write_text(" ".join(f"w{number // 8}" for number in range(2000)))  # each part has words of its own
    request = studies.Request(
        preset="quick", source=path, schemes=["rope"], seeds=(0, 1), reading={"tokenizer": "words:150"}
    )
    specs = STUDY.plan(request, store)
    assert {spec.settings["text"]["vocabulary"] for spec in specs} == {151}
    for spec in specs:
        read = text_of_run(spec, store.root)
        assert read.text.vocabulary[0] == "<unknown>"
        assert len(read.text.vocabulary) == 151
        assert bool((read.splits.test == 0).all()) or set(read.splits.test.tolist()) != {0}
        known = set(read.splits.train.tolist())
        assert known - {0} == set(range(1, 151)), "every word of the vocabulary is in the training part"
        assert (read.splits.test == 0).float().mean() > 0.9, "words of the test part alone are unknown"
    first, second = (text_of_run(spec, store.root).text.vocabulary for spec in specs)
    assert first != second


def test_bits_per_byte_compare_tokenizers(tmp_path: Path, own_text: Path, small: presets.LanguagePreset) -> None:
    store, bits = Store(tmp_path / "runs"), {}
    for name in ("characters", "bytes", "words"):
        request = studies.Request(
            preset="quick", source=own_text, schemes=["unigram"], reading={"tokenizer": name}, panels=["loss"]
        )
        (spec,) = [spec for spec in run(request, store) if spec.variant == "unigram"]
        metrics = store.read(spec.identity).metrics
        read = text_of_run(spec, store.root)
        assert read.test_sizes is not None
        known = read.splits.test != (-1 if read.text.unknown is None else read.text.unknown)
        assert int(read.test_sizes[known].sum()) == len(read.text.decode(read.splits.test[known]).encode())
        count = (len(read.splits.test) - 1) // WINDOW * WINDOW
        unknown, sizes = ~known[1 : count + 1], read.test_sizes[1 : count + 1]
        spelled = 8 * int((sizes[unknown] + 1).sum())
        expected = (metrics["loss"] * count / np.log(2) + spelled) / int(sizes.sum())
        assert metrics["bits_per_byte"] == pytest.approx(expected)
        bits[name] = metrics["bits_per_byte"]
        (single,) = {STUDY.plan(dataclasses.replace(request, reading={}), store)[0].identity}
        assert (single == spec.identity) is (name == "characters")
    assert bits["characters"] == pytest.approx(bits["bytes"], rel=0.15), "all characters are ASCII"
    assert bits["words"] < bits["characters"]


def test_unknown_words_cost_the_bits_of_their_spelling(tmp_path: Path, small) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "a.txt"
    path.write_text(" ".join(f"word{number % 97}" for number in range(2000)))
    bits = {}
    for most in (2, 97):
        request = studies.Request(
            preset="quick", source=path, schemes=["unigram"], reading={"tokenizer": f"words:{most}"}, panels=["loss"]
        )
        (spec,) = [spec for spec in run(request, store) if spec.variant == "unigram"]
        metrics = store.read(spec.identity).metrics
        bits[most] = (metrics["loss"], metrics["bits_per_byte"])
    assert bits[2][0] < bits[97][0], "few words are easy to predict"
    assert bits[2][1] > 7 > bits[97][1], "but they do not say the text"


def test_token_ids_are_a_text_of_their_own(tmp_path: Path, small) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "train.bin"
    np.arange(2000).astype("<u2").tofile(path)
    plans = {}
    for dtype in ("bytes", "uint16"):
        request = studies.Request(preset="quick", source=path, schemes=["rope"], seeds=(0,), reading={"dtype": dtype})
        (plans[dtype], *_) = STUDY.plan(request, store)
    assert plans["bytes"].identity != plans["uint16"].identity
    assert [plan.settings["text"]["vocabulary"] for plan in plans.values()] == [256, 2000]
    assert page_records.reading_flags(store.record_of(plans["bytes"])) == ["--dtype", "bytes"]
    whole = load_text(store.root, msgspec.convert(plans["uint16"].settings["text"], StoredText))
    assert whole.decode(whole.tokens[-2:]) == "1998 1999"
    assert "numbers from 0 to 1999 of the token ids of the file" in stored_model.convention(plans["uint16"])
    assert "numbers from 0 to 255 of the bytes of the text" in stored_model.convention(plans["bytes"])


def test_the_unigram_of_a_text_is_counted_where_it_was_not_run(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    """Chance was ln V for a page without runs of the baseline, so models below that counted as learning."""
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", source=own_text, schemes=["nope"], seeds=[0, 1], panels=["loss"])
    specs = run(request, store)
    counted = results.unigram_losses(STUDY.page_data(request, store, specs))
    first, *_ = STUDY.compared(STUDY.page_data(request, store, specs))
    assert (first.chance, first.chance_name) == (counted, "the unigram")
    baseline = dataclasses.replace(request, schemes=["unigram"])
    losses = {spec.seed: store.read(spec.identity).metrics["loss"] for spec in run(baseline, store)}
    assert counted == pytest.approx(losses)
    assert losses.keys() == {0, 1}


def test_equal_contents_under_another_name_are_said(tmp_path: Path, own_text: Path, small) -> None:
    store = Store(tmp_path / "runs")
    run(studies.Request(preset="quick", source=own_text, schemes=["rope"]), store)
    lines = tmp_path / "docs.jsonl"
    lines.write_bytes(msgspec.json.encode({"text": own_text.read_text()}))
    specs = STUDY.plan(studies.Request(preset="quick", source=lines, schemes=["rope"]), store)
    assert all(store.finished(spec.identity) for spec in specs)
    said = " ".join(page_records.sentences(store, specs))
    assert "docs.jsonl has the same contents as my_text.txt. Finished results of my_text.txt count" in said


def test_a_file_that_no_run_reads_is_refused(tmp_path: Path, own_text: Path, small) -> None:
    request = studies.Request(preset="quick", source=own_text, panels=["recall"], schemes=["rope"])
    with pytest.raises(ValueError, match=r"no run reads .*my_text.txt: the panels recall have data of their own"):
        STUDY.plan(request, Store(tmp_path / "runs"))


def test_counts_are_of_the_text_and_its_signs_do_not_change_the_terminal(tmp_path: Path, small) -> None:
    path = tmp_path / "signs.txt"
    path.write_text("\x1b[31m to be \x07 or not to be " * 40)
    reading = {"tokenizer": "bytes"}
    specs = STUDY.plan(
        studies.Request(preset="quick", source=path, schemes=["rope"], reading=reading), Store(tmp_path / "runs")
    )
    (said, *_) = STUDY.remarks(Store(tmp_path / "runs"), specs)
    assert said.startswith("The text has 13 different bytes of 256 and begins")
    assert said.isprintable()
    assert "\\x1b[31m to be \\x07" in said


def test_two_texts_with_the_same_ranks_of_their_characters_are_two(tmp_path: Path, small) -> None:
    """Both had one digest, and the second was shown the results of the first."""
    letters = np.random.default_rng(0).integers(0, 4, 1200)
    store, found = Store(tmp_path / "runs"), []
    for name, alphabet in (("latin", "ACGT"), ("greek", "αβγδ")):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(alphabet[each] for each in letters), encoding="utf-8")
        (spec,) = STUDY.plan(studies.Request(preset="quick", source=path, schemes=["rope"]), store)
        found.append((spec.identity, load_text(store.root, msgspec.convert(spec.settings["text"], StoredText))))
    (first, latin), (second, greek) = found
    assert first != second
    assert (latin.vocabulary, greek.vocabulary) == (tuple("ACGT"), tuple("αβγδ"))
