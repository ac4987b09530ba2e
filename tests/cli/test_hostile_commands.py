"""Command texts that no person types: one sentence and status 2; and SIGTERM, which ends as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posenc import cli
from posenc.cli import bench, main, parser, workbench
from posenc.cli.grammar import command_of
from posenc.lookup import scheme_text

pytestmark = pytest.mark.bare

COMMANDS = [
    ["bench", "RoPE(pairing={[]:1})"],
    ["bench", "RoPE(pairing='half', pairing='half')"],
    ["bench", "RoPE(" + "[" * 900 + ")"],
    ["bench", "RoPE(pairing=" + "-" * 900 + "1)"],
    ["bench", "R" * 60_000],
    ["bench", "Learned(max_len=1000000000000)"],
    ["bench", "Learned(max_len=10000000000000000000000)"],
    ["bench", "rope", "--tokens", "0"],
    ["bench", "rope", "--tokens", "-5"],
    ["bench", "rope", "--tokens", "1000000"],
    ["bench", "rope", "--tokens", "1_000"],
    ["bench", "rope", "--tokens", "9" * 4000],
    ["bench", "rope", "--heads", "0"],
    ["bench", "rope", "--head-dim", "1000000000000"],
    ["bench", "rope", "--batch", "1000000000"],
    ["data", "latin-squares", "--train", "1000000000", "--to", "puzzles.npz"],
    ["data", "latin-squares", "--train", "-1", "--to", "puzzles.npz"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:60])
def test_a_command_that_cannot_be_is_one_sentence(words: list[str], capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(words)
    error = capsys.readouterr().err
    assert leaving.value.code == 2
    assert error.startswith("posenc: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


TEXTS = st.text("RoPELearned(pairing_max=len,:{}[]'\"0123456789.-+*) \n\0é", max_size=60)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(text=TEXTS)
def test_any_text_is_an_encoding_or_refused(text: str) -> None:
    for read in (scheme_text.parse, lambda given: workbench.changes_by_name((given,))):
        with suppress(ValueError):
            read(text)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(words=st.lists(st.one_of(TEXTS, st.sampled_from(["--tokens", "--heads", "--device", "--batch=3"])), max_size=5))
def test_any_words_are_options_or_refused(words: list[str]) -> None:
    with suppress(ValueError):
        parser.parse(command_of("bench", bench.bench), words)


def test_sigterm_ends_as_ctrl_c_does(monkeypatch, capsys) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def wait(words: list[str]) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        return 0

    monkeypatch.setattr(cli, "_run", wait)
    try:
        with pytest.raises(SystemExit) as leaving:
            main(["results"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert leaving.value.code == 143
    assert "posenc: stopped (SIGTERM)." in capsys.readouterr().err
