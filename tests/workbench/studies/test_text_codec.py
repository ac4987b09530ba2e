"""Encoder and decoder of a trained language model: what it encodes is what it was trained on."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

import posenc
from posenc import cli
from posenc.workbench import RunSpec, Store
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.studies.language.results import vocabulary_size
from posenc.workbench.studies.language.stored_model import codec
from posenc.workbench.studies.language.stored_text import store_text, text_of_run

pytestmark = pytest.mark.bare
WORDS = ["the", "cat", "sat", "on", "a", "mat,", "and", "the", "dog", "ran", "far", "away"]
RARE = "zebra"


def write_text(path: Path, count: int = 3000) -> Path:
    draw = random.Random(0)
    text = " ".join(draw.choice(WORDS) for _ in range(count))
    path.write_text(text)
    return path


def run_of(root: Path, path: Path, tokenizer: str | None = None, seed: int = 0, **reading: Any) -> RunSpec:
    options = ReadingOptions(tokenizer=tokenizer, **reading)
    stored, _, _ = store_text(root, path, window=8, max_multiple=2, by_seed=True, reading=options)
    settings = {"text": msgspec.to_builtins(stored), "window": 8, "split": "seed"}
    return RunSpec(study="language", variant="rope", seed=seed, preset="quick", procedure="x", settings=settings)


def write_tokenizer(path: Path) -> str:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet)
    made.train_from_iterator([" ".join(WORDS)], trainer)
    made.save(str(path))
    return str(path)


@pytest.mark.parametrize("name", ["characters", "bytes", "words", "tokenizer.json"])
def test_a_string_is_encoded_as_the_text_of_the_run(tmp_path: Path, name: str) -> None:
    tokenizer = write_tokenizer(tmp_path / "t.json") if name.endswith(".json") else name
    spec = run_of(tmp_path, write_text(tmp_path / "a.txt"), tokenizer)
    made, text = codec(spec, tmp_path), (tmp_path / "a.txt").read_text()
    assert made is not None
    tokens, learned = made.encode(text), text_of_run(spec, tmp_path).text.tokens
    assert tokens.dtype == torch.int64
    assert torch.equal(tokens, learned.long())
    rest = text[text.index(" ") :]  # the first word stands without a space once, and may lie outside the training part
    assert made.decode(made.encode(rest)) == rest
    with pytest.raises(ValueError, match="is none of the vocabulary"):
        made.decode([10**6])


def test_ids_are_encoded_as_words_of_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([7, 900, 7, 12] * 200, np.uint16))
    made = codec(run_of(tmp_path, tmp_path / "ids.npy"), tmp_path)
    assert made is not None
    assert made.encode("900 7 12").tolist() == [2, 0, 1]
    assert made.decode([2, 0, 1]) == "900 7 12"
    with pytest.raises(ValueError, match=r"the text has '8', which is none of the 3 tokens"):
        made.encode("8")


def test_what_the_vocabulary_lacks_is_unknown_or_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt")
    words = codec(run_of(tmp_path, path, "words:5"), tmp_path)
    assert words is not None
    assert words.decode(words.encode(f" the {RARE}")) == " the<unknown>"
    characters = codec(run_of(tmp_path, path), tmp_path)
    assert characters is not None
    with pytest.raises(ValueError, match=r"the text has 'z', which is none of the 1\d characters"):
        characters.encode(RARE)


def test_the_vocabulary_of_words_is_that_of_the_training_part(tmp_path: Path) -> None:
    """Words of the test part alone are no tokens of the models, though the limit allows them."""
    path = write_text(tmp_path / "a.txt", 4000)
    path.write_text(" ".join(f"{path.read_text()[: 2000 * 20]} w{number}" for number in range(10)))
    spec = run_of(tmp_path, path, "words:4000")
    data: Any = SimpleNamespace(specs=[spec], done=[spec], store=Store(tmp_path))
    true = len(text_of_run(spec, tmp_path).text.vocabulary)
    assert vocabulary_size(data) == true < spec.settings["text"]["vocabulary"]


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process")
def test_a_loaded_model_continues_a_text(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path / "a.txt")
    sizes = ("epochs=2", "window=8", "max_multiple=2", "dim=16", "targets=16", "depth=1", "hidden=16")
    options = [word for size in sizes for word in ("--set", size)]
    chosen = ["--tokenizer", "words", "--panels", "loss", "--schemes", "rope", "--seeds", "0"]
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "language", "a.txt", *chosen, *options])
    assert not leaving.value.code
    model: Any = posenc.load("runs", variant="rope")
    assert "model.encode" in model.convention
    prompt = model.encode("the cat sat")[None]
    assert len(model.decode(model(prompt)[0].argmax(-1)))
