"""`posenc advise`: schemes by their claims, and what is refused before torch is loaded."""

from __future__ import annotations

import pytest
import torch

from posenc import cli
from posenc.cli import index
from posenc.cli.scheme_questions import Wanted, ask, fitting, text
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes.alibi import ALiBi
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.bare


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(words))
    captured = capsys.readouterr()
    return int(leaving.value.code or 0), captured.out + captured.err


def test_answers_leave_schemes_whose_claims_fit(capsys) -> None:
    code, out = printed(capsys, "advise", "--explain", "--axes", "1", "--relative", "--unbounded", "--cache")
    assert code == 0
    names = [line.split()[0] for line in out.splitlines() if line[:1].isalpha()]
    assert {"RoPE", "ALiBi"} <= set(names)
    assert not {"Learned", "Coordinates", "Sinusoid", "FourierFeatures"} & set(names), "rows change the logits"
    assert "posenc check NAME" in out


def test_every_answer_is_a_claim_of_the_rows() -> None:
    rows = index.load().schemes
    left, lost = fitting(rows, Wanted(axes=2, unbounded=True, relative=True, cache=True, mask=True))
    assert len(left) + sum(count for _, count in lost) == len(rows)
    assert all(row["range"] is None and row["cacheable"] for row in left)
    assert all("nothing" in row["shift"] for row in left)
    assert fitting(rows, Wanted()) == (rows, [])
    assert "Leave one out" in text(rows[:0], Wanted())


@pytest.mark.parametrize("scheme", [Sinusoid(32), FourierFeatures(32), RoPE(8), ALiBi(4), Learned(32, 40)])
def test_a_scheme_is_listed_as_relative_if_a_shift_changes_no_logits(scheme: Scheme) -> None:
    config = LanguageConfig(vocabulary=20, dim=32, depth=1, heads=4, key_heads=4, hidden=32)
    model = LanguageModel(config, lambda layer: scheme).double().eval()
    tokens = torch.arange(20).view(2, 10)
    with torch.no_grad():
        here, moved = (model(tokens, sequence(10, start=start)) for start in (0, 17))
    changes = bool((here - moved).abs().max() > 1e-6)
    rows = [row for row in index.load().schemes if row["name"] == type(scheme).__name__]
    assert len(fitting(rows, Wanted(relative=True))[0]) == (0 if changes else 1)
    assert ("logits" in scheme.claims.shift_effect) == changes
    assert scheme.claims.shift_effect in text(rows, Wanted()).replace("\n", " ") or changes


def test_a_terminal_is_asked() -> None:
    prompts: list[str] = []
    answers = iter(["2", "y", "", "n", "yes"])

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(answers)

    assert ask(read) == Wanted(axes=2, unbounded=True, relative=False, cache=False, mask=True)
    assert len(prompts) == 5
    with pytest.raises(ValueError, match="the number of axes is 1 or more"):
        ask(lambda prompt: "two")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name your file or folder"),
        (("--axes", "2"), "are for --explain"),
        (("--explain", "x.csv"), "--explain reads no data"),
        (("--explain", "--device", "cuda"), "so --device has no use here"),
        (("x.csv", "--device", "gpu"), "there is no device 'gpu'"),
        (("--explain", "--axes", "0"), "1 or more"),
        (
            ("--explain", "--target", "x", "--question", "new"),
            "trains nothing, so --target, --question has no use here",
        ),
        (("absent.csv",), "there is no file"),
        (("absent.csv", "--budget", "soon"), "a budget is a time above 0"),
        (("absent.csv", "--jobs", "0"), "At least one training"),
    ],
)
def test_wrong_words_are_refused_with_one_sentence(words, sentence, capsys) -> None:
    code, out = printed(capsys, "advise", *words)
    assert code == 2
    assert sentence in out
    assert len(out.strip().splitlines()) == 1
