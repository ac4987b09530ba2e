"""Stratified random sample of mutants: by file and kind, with a fixed seed."""

from __future__ import annotations

import hashlib
import random
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from mutation.operators import Mutant, mutants

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "posenc"
SEED = 2108
CODE, REFUSALS = 730, 80
"""Sizes of the two samples: of changes of values, and of changes of refusals."""


def target_files() -> list[Path]:
    """The mutated files: encodings, their kernels, attention, positions and frequencies."""
    walked = [*sorted((PACKAGE / "schemes").glob("*.py")), *sorted((PACKAGE / "kernels").glob("*.py"))]
    return walked + [PACKAGE / f"{name}.py" for name in ("attention", "positions", "frequencies")]


def digests(files: Iterable[str] | None = None) -> dict[str, str]:
    """Digests of mutated files as they are now, by their path below ``src/posenc``; of all of them by default."""
    names = [path.relative_to(PACKAGE).as_posix() for path in target_files()] if files is None else files
    return {name: hashlib.sha256((PACKAGE / name).read_bytes()).hexdigest()[:12] for name in sorted({*names})}


def commit() -> str:
    """Short name of the commit that is checked out; "unknown" where git cannot say it."""
    called = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return called.stdout.strip() or "unknown"


def all_mutants() -> list[Mutant]:
    """Every mutant of the mutated files."""
    files = [(path, path.relative_to(PACKAGE).as_posix()) for path in target_files()]
    return [mutant for path, name in files for mutant in mutants(path.read_text(encoding="utf-8"), name)]


def further(population: list[Mutant], known: Collection[str], count: int) -> list[Mutant]:
    """Draw more mutants at random, each equally likely.

    Args:
        population: All mutants.
        known: Identities of the mutants that were drawn before.
        count: Number of mutants to draw.

    Returns:
        The drawn mutants, in random order.
    """
    rest = [mutant for mutant in population if mutant.id not in known]
    return random.Random(SEED + len(known)).sample(rest, min(count, len(rest)))


def sample(population: list[Mutant]) -> list[Mutant]:
    """Draw the sample, in random order.

    Every k-th mutant of the list sorted by file and kind, with a random start and in random order within a file and
    kind: each stratum has its share, to within one mutant.

    Args:
        population: All mutants.

    Returns:
        The drawn mutants; any number of the first ones is a random part of the sample.
    """
    chance, drawn = random.Random(SEED), list[Mutant]()
    for refusals, size in ((False, CODE), (True, REFUSALS)):
        stratum = [mutant for mutant in population if (mutant.kind == "refusal") == refusals]
        chance.shuffle(stratum)
        stratum.sort(key=lambda mutant: (mutant.file, mutant.kind))
        step = len(stratum) / min(size, len(stratum))
        start = chance.random() * step
        drawn += [stratum[int(start + n * step)] for n in range(min(size, len(stratum)))]
    chance.shuffle(drawn)
    return drawn
