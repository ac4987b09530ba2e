"""Start time of the command line, next to ``import torch``.

    python benchmarks/command_line.py --out results/command-line-cpu.json

Help, lists, completion and errors about names read an index and load no torch. Every command runs in a fresh process,
in turn with ``python -c "import torch"``. Seconds are wall time from the start of the process to its end, and the
result is the median of the ratios of the rounds. Before a command is timed its output is checked.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from command import begin, keep, met, options

AIM = 0.35
TORCH = [sys.executable, "-c", "import torch"]
COMMANDS = {
    "posenc --help": (0, "exit codes"),
    "posenc run": (0, "Which encodings generalize on Latin squares?"),
    "posenc list studies": (0, "image-fit"),
    "posenc list schemes": (0, "RoPE"),
    "posenc list panels latin-squares": (0, "Table A2, Fig. 2C"),
    "posenc list variants latin-squares": (0, "learned-0.2"),
    "posenc list data": (0, "lst"),
    "posenc run --help": (0, "weight-decay"),
    "posenc run latin-squares --help": (0, "the paper's model on its 8,100 puzzles"),
    "posenc completion bash": (0, "complete -o default"),
    "posenc __complete run latin-squares --panels a": (0, "attention"),
    "posenc run latin-squars": (2, "Did you mean latin-squares?"),
    "posenc run latin-squares --preset quik": (2, "Did you mean quick?"),
    "posenc run latin-squares --panels acuracy": (2, "Did you mean accuracy?"),
    "posenc run latin-squares --schemes 2d-fixd": (2, "Did you mean 2d-fixed"),
    "posenc run latin-squares --preste quick": (2, "Did you mean --preset?"),
    "posenc run latin-squares --set epoch=4": (2, "Did you mean epochs"),
    "posenc run latin-squares --set epochs=many": (2, "epochs must be a whole number"),
    "posenc run latin-squares --set lr=0": (2, "training needs a learning rate above 0"),
    "posenc run gridpe --set recipes.pvt.training.epochs=0": (2, "recipes.pvt.training.epochs must be at least 1"),
    "posenc run gridpe --set recipes.size=foo": (2, "there is no recipes.main.size 'foo'"),
    "posenc run latin-squares --schemes Shaw(foo=1)": (2, "Shaw: there is no option 'foo'"),
    "posenc run latin-squares --device foo": (2, "there is no device 'foo'"),
    "posenc run latin-squares --seeds 1 1": (2, "seed 1 is given twice"),
    "posenc run latin-squares --data absent": (2, "--data absent is not a folder"),
    "posenc run latin-squares --jobs 0": (2, "--jobs is a number of at least 1"),
    "posenc run image-fit absent.jpg": (2, "absent.jpg does not exist"),
    "posenc report latin-squares --out absent": (2, "There are no results in absent"),
    "posenc results --out absent": (2, "There are no results in absent"),
    "posenc check absent.py": (2, "there is no file absent.py"),
    "posenc bench rope --device foo": (2, "there is no device 'foo'"),
    "posenc data latin-squares --read absent.csv": (2, "there is no file absent.csv"),
    "posenc store merge absent": (2, "absent is not there"),
}
"""Command -> its exit code, and a part of its output."""


def main() -> int:
    chosen = begin(options("Start time of the command line, next to the import of torch.", 9, of="the comparison"))
    for command, (code, part) in COMMANDS.items():
        check(command, code, part)
    ratios = compare(chosen.rounds)
    for command, figures in ratios.items():
        verdict = met(figures["ratio"] <= AIM)
        print(f"{command}: {figures['ratio']:.3f} x import torch (aim {AIM} x, {verdict})")
    keep(chosen, aim=AIM, commands=ratios)
    return int(any(figures["ratio"] > AIM for figures in ratios.values()))


def compare(rounds: int) -> dict[str, dict[str, Any]]:
    """Ratio of each command to the import of torch, and its milliseconds. Each round runs every process once."""
    seconds: dict[str, list[float]] = {"": [], **{command: [] for command in COMMANDS}}
    for turn in range(-1, rounds):  # The first round writes bytecode and fills the file cache of the system.
        for command in list(seconds)[:: 1 if turn % 2 else -1]:
            took = wall_time(words_of(command) if command else TORCH)
            if turn >= 0:
                seconds[command].append(took)
    figures = {}
    for command in COMMANDS:
        ratios = [own / torch for own, torch in zip(seconds[command], seconds[""], strict=True)]
        milliseconds = 1e3 * statistics.median(seconds[command])
        figures[command] = {"ratio": statistics.median(ratios), "milliseconds": milliseconds, "rounds": ratios}
    return figures


def check(command: str, code: int, part: str) -> None:
    """Raise ValueError unless a command exits with a code, prints a part, and loads no torch."""
    done = subprocess.run(words_of(command), capture_output=True, text=True, check=False)
    text = " ".join((done.stdout + done.stderr).split())  # Lines may be wrapped anywhere.
    if done.returncode != code or part not in text:
        raise ValueError(f"{command} exited with {done.returncode} and printed {text[-300:]!r}")
    words = command.split()[1:]
    program = (
        "import sys; from posenc.cli import main\ntry: main(sys.argv[1:])\nfinally: assert 'torch' not in sys.modules"
    )
    without = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    if without.returncode != code:
        raise ValueError(f"{command} loads torch. Run python tools/index.py first, if the source has changed.")


def words_of(command: str) -> list[str]:
    """Words that run a command in this Python."""
    return [sys.executable, "-m", "posenc.cli", *command.split()[1:]]


def wall_time(words: list[str]) -> float:
    """Seconds that a process takes."""
    began = time.perf_counter()
    subprocess.run(words, capture_output=True, check=False)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
