"""Completion: candidates from the index, and the script of bash in a real bash."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from posenc import cli
from posenc.cli import completion, index
from posenc.cli.grammar import command_of
from posenc.lookup.cited_functions import functions
from posenc.schemes import catalogue
from posenc.workbench import studies

pytestmark = pytest.mark.bare

COMMANDS = {name: command_of(name, function) for name, function in cli.COMMANDS.items()}


@pytest.fixture(scope="module")
def known() -> index.Index:
    return index.load()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("r", ["run", "report", "results"]),
        ("--h", ["--help"]),
        ("store ", ["pack", "merge", "verify", "compact", "gc"]),
        ("store p", ["pack"]),
        ("run lat", ["latin-squares"]),
        ("run latin-squares --pre", ["--preset"]),
        ("run latin-squares --preset ", ["quick", "standard", "replicate", "paper"]),
        ("run latin-squares --panels a", ["accuracy", "attention", "as-released", "all"]),
        ("run latin-squares --panels accuracy po", ["positions"]),
        ("run latin-squares --schemes 2d", ["2d-fixed", "2d-fixed-literal"]),
        ("run --preset quick lat", ["latin-squares"]),
        ("run latin-squares --seeds ", []),
        ("run image-fit ", []),
        ("report globe --panels ma", ["maps"]),
        ("check RoP", ["RoPE"]),
        ("cite RoPE SI", ["SIREN"]),
        ("list v", ["variants"]),
        ("list panels nm", ["nmar"]),
        ("list schemes --site b", ["bias"]),
        ("completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_candidates(known: index.Index, line: str, expected: list[str]) -> None:
    assert completion.candidates(line.split(" "), COMMANDS, known) == expected


def test_all_studies_and_schemes_are_candidates(known: index.Index) -> None:
    assert completion.candidates(["run", ""], COMMANDS, known) == list(studies.studies())
    assert completion.candidates(["show", ""], COMMANDS, known) == [*catalogue(), *functions(), "latin-squares"]
    assert completion.candidates(["check", ""], COMMANDS, known) == list(catalogue())


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment in which ``posenc`` is a command."""
    program = tmp_path / "posenc"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m posenc.cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def test_the_script_completes_in_bash(environment: dict[str, str]) -> None:
    bash = shutil.which("bash")
    assert bash is not None

    def complete(line: str, current: str) -> list[str]:
        return [word for one in complete_lines(line, current) for word in one.split()]

    def complete_lines(line: str, current: str) -> list[str]:
        script = completion.SCRIPTS["bash"] + (
            f"COMP_LINE={line!r}; COMP_POINT={len(line)}; COMP_WORDS=({line} {current!r}); "
            "COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); compopt() { echo nospace; }; _posenc; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True, env=environment)
        return done.stdout.splitlines()

    assert complete("posenc run ", "") == list(studies.studies())
    assert complete("posenc run latin-squares --preset ", "") == ["quick", "standard", "replicate", "paper"]
    assert "rope-axial\\ +\\ xyz" in complete_lines("posenc run points --schemes ", "")  # one word of the shell
    registered = subprocess.run(
        [bash, "-c", completion.SCRIPTS["bash"] + "complete -p posenc"], capture_output=True, text=True, check=True
    )
    assert registered.stdout == "complete -o default -F _posenc posenc\n"


def test_the_script_completes_names_and_files_in_fish(tmp_path: Path, environment: dict[str, str]) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    (tmp_path / "photo.png").touch()

    def complete(line: str) -> list[str]:
        script = f"{completion.SCRIPTS['fish']}complete -C {line!r}"
        done = subprocess.run(
            [fish, "-N", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, env=environment
        )
        return [candidate.partition("\t")[0] for candidate in done.stdout.splitlines()]

    assert set(complete("posenc run ")) == set(studies.studies())  # and no file
    assert complete("posenc run image-fit ph") == ["photo.png"]


def test_the_script_completes_names_in_zsh(tmp_path: Path, environment: dict[str, str]) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    # zsh completes at a terminal alone; here the function gets the words, and prints what it would offer
    script = 'compdef() { }; compadd() { print -rl -- "${@[6,-1]}" }; _files() { print files }\n'
    script += completion.SCRIPTS["zsh"] + 'words=(posenc run latin-squares --preset ""); CURRENT=5; _posenc\n'
    script += "words=(posenc run image-fit ph); CURRENT=4; _posenc\n"
    done = subprocess.run([zsh, "-f"], input=script, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["quick", "standard", "replicate", "paper", "files"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_can_be_parsed(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-n"], input=completion.SCRIPTS[shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
