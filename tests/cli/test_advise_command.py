"""`posenc advise`: schemes by their claims, and what is refused before torch is loaded."""

from __future__ import annotations

import pytest

from posenc import cli
from posenc.cli import index
from posenc.cli.scheme_questions import Wanted, ask, fitting, text

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
    assert not {"Learned", "Coordinates"} & set(names)
    assert "posenc check NAME" in out


def test_every_answer_is_a_claim_of_the_rows() -> None:
    rows = index.load().schemes
    left, lost = fitting(rows, Wanted(axes=2, unbounded=True, relative=True, cache=True, mask=True))
    assert len(left) + sum(count for _, count in lost) == len(rows)
    assert all(row["range"] is None and row["translation"] == "exact" and row["cacheable"] for row in left)
    assert fitting(rows, Wanted()) == (rows, [])
    assert "Leave one out" in text(rows[:0], Wanted())


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
